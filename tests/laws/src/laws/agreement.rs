//! The kernel decides as a list of all charges and plain arithmetic on it do.

use std::collections::HashMap;

use tollgate_kernel::{Decision, Detail, Limit, Mode, Request};

use super::oracle::Oracle;
use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    let mut kinds: HashMap<&str, &Limit> = HashMap::new();
    for limit in case.stages.iter().flat_map(|stage| stage.limits()) {
        let first = kinds.entry(limit.id().as_str()).or_insert(limit);
        // A name that comes to name something else: what the old one left is no list of charges.
        if first.rule().name() != limit.rule().name() || first.period() != limit.period() {
            return Ok(());
        }
    }
    walk(case, &mut AgreementObserver::default())
}

#[derive(Default)]
struct AgreementObserver {
    oracles: HashMap<String, Oracle>,
}

impl LawObserver for AgreementObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        let (t, cost, mode) = (simulation.clock, request.cost.get(), request.mode.unwrap_or(simulation.policy.mode()));
        let mut room = Vec::new();
        for limit in simulation.policy.limits() {
            let oracle = self.oracles.entry(limit.id().as_str().to_owned()).or_insert_with(|| Oracle::new(limit));
            oracle.change(limit);
            let ready = cost == 0 || oracle.ready(t);
            room.push(if ready { oracle.room(t) } else { i64::MIN });
        }
        let fits = |units: i64| room.iter().all(|room| *room >= units);
        let whole = fits(cost as i64);
        let granted = match mode {
            Mode::Nary => (0..=cost as i64).rev().find(|units| *units == 0 || fits(*units)).unwrap_or(0),
            _ if whole => cost as i64,
            _ => 0,
        };
        let allowed = whole || granted > 0;
        let limited_by = room.iter().position(|room| *room < cost as i64);
        if (allowed, granted as u64, limited_by) != (decision.allowed, decision.granted, decision.limited_by) {
            return Err(format!("oracle: {allowed} {granted} {limited_by:?}, kernel: {request:?} {decision:?}"));
        }
        let charge = if mode == Mode::Uniform { cost } else { granted as u64 };
        let mut charged = 0;
        for ((limit, detail), room) in simulation.policy.limits().iter().zip(details).zip(&room) {
            let Some(oracle) = self.oracles.get_mut(limit.id().as_str()) else { continue };
            if detail.fits != (*room >= cost as i64) {
                return Err(format!("{limit}: room for {room}, but {detail:?} for {request:?}"));
            }
            if charge > 0 && !request.peek {
                charged = oracle.charge(t, charge).max(charged);
            }
            let remaining = oracle.remaining(t);
            let remaining = if mode == Mode::Uniform { remaining } else { remaining.max(0) };
            if remaining != detail.remaining {
                return Err(format!("{limit}: oracle has {remaining} left, kernel {}", detail.remaining));
            }
        }
        if decision.charged != charged {
            return Err(format!("the oracle recorded {charged}, the kernel {}", decision.charged));
        }
        let least = details.iter().map(|detail| detail.remaining).min();
        let longest = details.iter().map(|detail| detail.reset_after).max();
        if (Some(decision.remaining), Some(decision.reset_after)) != (least, longest) {
            return Err(format!("least {least:?} left, as new after {longest:?}, but {decision:?}"));
        }
        Ok(())
    }
}
