//! Walking through a case: the key's state, the clock and the true time, with a law looking on.

use tollgate_kernel::{Decision, Detail, KeyState, Policy, Request, Timestamp, Wait};

use crate::case::{Case, Op};

/// What a law says of a case: nothing, or what is broken.
pub(crate) type Verdict = Result<(), String>;

/// A law as it looks on. It sees the simulation before and after each event.
pub(crate) trait LawObserver {
    fn before(&mut self, _simulation: &Simulation, _request: &Request) -> Verdict {
        Ok(())
    }
    fn decided(
        &mut self,
        _simulation: &Simulation,
        _request: &Request,
        _decision: &Decision,
        _details: &[Detail],
    ) -> Verdict {
        Ok(())
    }
    fn refunded(&mut self, _simulation: &Simulation, _given: u64) -> Verdict {
        Ok(())
    }
    fn changed(&mut self, _simulation: &Simulation, _before: &Policy) -> Verdict {
        Ok(())
    }
    fn end(&mut self, _simulation: &Simulation) -> Verdict {
        Ok(())
    }
}

/// What was granted, less what was given back.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) true_time: u64,
    pub(crate) at: Timestamp,
    pub(crate) units: u64,
    /// Units were given back, or can no longer be.
    given_back: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) policy: Policy,
    pub(crate) state: KeyState,
    /// What the clock reads.
    pub(crate) clock: u64,
    /// What a clock that was never set back would read.
    pub(crate) true_time: u64,
    pub(crate) granted: Vec<Grant>,
}

impl Simulation {
    pub(crate) fn t(&self) -> Timestamp {
        Timestamp::saturating(self.clock)
    }

    /// A look at the key at a later reading of the clock, leaving it alone.
    pub(crate) fn peek_at(&self, clock: u64, request: &Request) -> (Decision, Vec<Detail>) {
        self.state.clone().decide_full(&self.policy, Timestamp::saturating(clock), &request.peek())
    }
}

pub(crate) fn walk(case: &Case, watch: &mut dyn LawObserver) -> Verdict {
    let mut simulation = Simulation {
        policy: case.stages[0].clone(),
        state: KeyState::default(),
        clock: case.start,
        true_time: case.start,
        granted: Vec::new(),
    };
    for op in &case.ops {
        step(&mut simulation, case, op, watch)?;
    }
    watch.end(&simulation)
}

fn step(simulation: &mut Simulation, case: &Case, op: &Op, watch: &mut dyn LawObserver) -> Verdict {
    match op {
        Op::Pass(span) => pass(simulation, *span),
        Op::Back(span) => {
            simulation.clock = simulation.clock.saturating_sub(*span);
            // The same reading now means two moments, so earlier charges can no longer be named.
            for granted in &mut simulation.granted {
                granted.given_back = true;
            }
        }
        Op::Expire => {
            let span = simulation.state.expires_after(simulation.t()).get();
            pass(simulation, span);
        }
        Op::Ask(request) => {
            watch.before(simulation, request)?;
            let (decision, details) = simulation.state.decide_full(&simulation.policy, simulation.t(), request);
            if decision.granted > 0 && !request.peek {
                simulation.granted.push(Grant {
                    true_time: simulation.true_time,
                    at: decision.at,
                    units: decision.granted,
                    given_back: false,
                });
            }
            watch.decided(simulation, request, &decision, &details)?;
        }
        Op::Refund { which, permille } => refund(simulation, *which, *permille, watch)?,
        Op::Change(stage) => {
            let before = std::mem::replace(&mut simulation.policy, case.stages[*stage].clone());
            watch.changed(simulation, &before)?;
        }
    }
    Ok(())
}

fn pass(simulation: &mut Simulation, span: u64) {
    simulation.clock += span;
    simulation.true_time += span;
}

/// Honest refunds: of a decision's units, once.
fn refund(simulation: &mut Simulation, which: usize, permille: u64, watch: &mut dyn LawObserver) -> Verdict {
    if simulation.granted.is_empty() {
        return Ok(());
    }
    let which = which % simulation.granted.len();
    if simulation.granted[which].given_back {
        return Ok(());
    }
    let units = (simulation.granted[which].units * permille).div_ceil(1_000);
    simulation.granted[which].given_back = true;
    let (t, at) = (simulation.t(), simulation.granted[which].at);
    let given = simulation.state.refund(&simulation.policy, t, units, at);
    if given > units {
        return Err(format!("gave back {given} of {units}"));
    }
    simulation.granted[which].units -= units;
    watch.refunded(simulation, given)
}

/// The wait in microseconds, if waiting helps.
pub(crate) fn span(wait: Wait) -> Option<u64> {
    wait.span().map(tollgate_kernel::Micros::get)
}
