//! A refund gives back what is still held of its charge: all of it at once, nothing of a charge
//! that a key alone with it would have forgotten, and never more than it answers.

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Mode, Policy, Request, Timestamp};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut RefundObserver)
}

struct RefundObserver;

impl LawObserver for RefundObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        _details: &[Detail],
    ) -> Verdict {
        let units = decision.granted;
        if units == 0 || request.peek {
            return Ok(());
        }
        let given = give_back(simulation, units, decision.at)?;
        if given != units {
            return Err(format!("gave back {given} of {units} at the time of the charge"));
        }
        let later = Timestamp::saturating(simulation.clock + 1);
        if give_back(simulation, units, later)? > 0 {
            return Err("gave back a charge that is yet to come".to_owned());
        }
        let long_ago = simulation
            .granted
            .iter()
            .filter(|granted| simulation.t() >= forgotten(&simulation.policy, granted.at, granted.units));
        for granted in long_ago {
            let given = give_back(simulation, granted.units, granted.at)?;
            if given > 0 {
                return Err(format!("gave back {given} of a charge of {:?}, which is forgotten", granted.at));
            }
        }
        Ok(())
    }
}

/// Gives back on a copy, and sees that what is held went down by what was answered.
fn give_back(simulation: &Simulation, units: u64, at: Timestamp) -> Result<u64, String> {
    let mut state = simulation.state.clone();
    let before = held(&mut state, simulation);
    let given = state.refund(&simulation.policy, simulation.t(), units, at);
    let after = held(&mut state, simulation);
    let mut most = 0;
    for (limit, (before, after)) in simulation.policy.limits().iter().zip(before.iter().zip(&after)) {
        // Weighted counters hold less than their units.
        let whole = limit.rule().name() != "estimate";
        let less = before - after;
        if less < -1e-9 || less > units as f64 + 1e-9 || (whole && less > given as f64 + 1.0) {
            return Err(format!("{limit}: held {before}, {after} after {given} of {units} were given back"));
        }
        most = most.max((less + 1e-9).floor() as u64);
    }
    if most > given
        || (most < given && simulation.policy.limits().iter().all(|limit| limit.rule().name() != "estimate"))
    {
        return Err(format!("answered {given}, gave back {most}"));
    }
    Ok(given)
}

fn held(state: &mut KeyState, simulation: &Simulation) -> Vec<f64> {
    let cells = state.cells_of(&simulation.policy, simulation.t());
    let each = simulation.policy.limits().iter().zip(cells.iter());
    each.map(|(limit, cell)| limit.rule().held(cell.memory(), simulation.t())).collect()
}

/// When a key charged with nothing else would be as new.
fn forgotten(policy: &Policy, at: Timestamp, units: u64) -> Timestamp {
    let mut state = KeyState::default();
    let cost = Cost::new(units).unwrap_or(Cost::ONE);
    let charged = state.decide(policy, at, &Request::cost(cost).mode(Mode::Uniform));
    at.plus(charged.reset_after)
}
