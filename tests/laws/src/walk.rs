//! Walking through a case: the key's state, the clock and the true time, with a law looking on.

use tollgate_kernel::{Decision, Detail, KeyState, Policy, Request, Timestamp, Wait};

use crate::case::{Case, Op};

/// What a law says of a case: nothing, or what is broken.
pub(crate) type Verdict = Result<(), String>;

/// A law as it looks on. It sees the world before and after each event.
pub(crate) trait Watch {
    fn before(&mut self, _world: &World, _request: &Request) -> Verdict {
        Ok(())
    }
    fn decided(&mut self, _world: &World, _request: &Request, _decision: &Decision, _details: &[Detail]) -> Verdict {
        Ok(())
    }
    fn refunded(&mut self, _world: &World, _given: u64) -> Verdict {
        Ok(())
    }
    fn changed(&mut self, _world: &World, _before: &Policy) -> Verdict {
        Ok(())
    }
    fn end(&mut self, _world: &World) -> Verdict {
        Ok(())
    }
}

/// What was granted, less what was given back.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) true_time: u64,
    pub(crate) at: Timestamp,
    pub(crate) units: u64,
    /// Units were given back, or can no longer be.
    given_back: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) state: KeyState,
    /// What the clock reads.
    pub(crate) clock: u64,
    /// What a clock that was never set back would read.
    pub(crate) true_time: u64,
    pub(crate) granted: Vec<Granted>,
}

impl World {
    pub(crate) fn t(&self) -> Timestamp {
        Timestamp::saturating(self.clock)
    }

    /// A look at the key at a later reading of the clock, leaving it alone.
    pub(crate) fn peek_at(&self, clock: u64, request: &Request) -> (Decision, Vec<Detail>) {
        self.state.clone().decide_full(&self.policy, Timestamp::saturating(clock), &request.peek())
    }
}

pub(crate) fn walk(case: &Case, watch: &mut dyn Watch) -> Verdict {
    let mut world = World {
        policy: case.stages[0].clone(),
        state: KeyState::default(),
        clock: case.start,
        true_time: case.start,
        granted: Vec::new(),
    };
    for op in &case.ops {
        step(&mut world, case, op, watch)?;
    }
    watch.end(&world)
}

fn step(world: &mut World, case: &Case, op: &Op, watch: &mut dyn Watch) -> Verdict {
    match op {
        Op::Pass(span) => pass(world, *span),
        Op::Back(span) => {
            world.clock = world.clock.saturating_sub(*span);
            // The same reading now means two moments, so earlier charges can no longer be named.
            for granted in &mut world.granted {
                granted.given_back = true;
            }
        }
        Op::Expire => {
            let span = world.state.expires_after(world.t()).get();
            pass(world, span);
        }
        Op::Ask(request) => {
            watch.before(world, request)?;
            let (decision, details) = world.state.decide_full(&world.policy, world.t(), request);
            if decision.granted > 0 && !request.peek {
                world.granted.push(Granted {
                    true_time: world.true_time,
                    at: decision.at,
                    units: decision.granted,
                    given_back: false,
                });
            }
            watch.decided(world, request, &decision, &details)?;
        }
        Op::Refund { which, permille } => refund(world, *which, *permille, watch)?,
        Op::Change(stage) => {
            let before = std::mem::replace(&mut world.policy, case.stages[*stage].clone());
            watch.changed(world, &before)?;
        }
    }
    Ok(())
}

fn pass(world: &mut World, span: u64) {
    world.clock += span;
    world.true_time += span;
}

/// Honest refunds: of a decision's units, once.
fn refund(world: &mut World, which: usize, permille: u64, watch: &mut dyn Watch) -> Verdict {
    if world.granted.is_empty() {
        return Ok(());
    }
    let which = which % world.granted.len();
    if world.granted[which].given_back {
        return Ok(());
    }
    let units = (world.granted[which].units * permille).div_ceil(1_000);
    world.granted[which].given_back = true;
    let (t, at) = (world.t(), world.granted[which].at);
    let given = world.state.refund(&world.policy, t, units, at);
    if given > units {
        return Err(format!("gave back {given} of {units}"));
    }
    world.granted[which].units -= units;
    watch.refunded(world, given)
}

/// The wait in microseconds, if waiting helps.
pub(crate) fn span(wait: Wait) -> Option<u64> {
    wait.span().map(tollgate_kernel::Micros::get)
}
