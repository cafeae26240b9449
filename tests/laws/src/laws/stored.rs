//! A state that is written and read, or packed into two words, decides as it did; a log that was
//! thinned holds what it held and admits nothing more.

use tollgate_kernel::{Cell, Decision, Limit, Policy, Reader, Request, Timestamp, Writer, decide, decide_packed};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut StoredObserver)
}

struct StoredObserver;

impl LawObserver for StoredObserver {
    fn before(&mut self, simulation: &Simulation, request: &Request) -> Verdict {
        let mut state = simulation.state.clone();
        let cells = state.cells_of(&simulation.policy, simulation.t());
        for (limit, cell) in simulation.policy.limits().iter().zip(&*cells) {
            written(limit, cell)?;
            thinned(limit, cell, simulation.t())?;
        }
        if let ([limit], [cell]) = (simulation.policy.limits(), cells) {
            packed(&simulation.policy, limit, cell, simulation.t(), request)?;
        }
        Ok(())
    }
}

fn written(limit: &Limit, cell: &Cell) -> Verdict {
    let mut to = Writer::default();
    cell.write(&mut to);
    let bytes = to.into_bytes();
    let mut from = Reader::new(&bytes);
    let read = limit.read(&mut from);
    if read.as_ref() == Some(cell) && from.is_done() { Ok(()) } else { Err(format!("wrote {cell:?}, read {read:?}")) }
}

fn packed(policy: &Policy, limit: &Limit, cell: &Cell, t: Timestamp, request: &Request) -> Verdict {
    let Some(words) = limit.packs().then(|| limit.pack(cell)).flatten() else { return Ok(()) };
    let mut whole = cell.clone();
    let expected = decide(policy, std::slice::from_mut(&mut whole), t, request);
    match (decide_packed(policy, words, t, request), limit.pack(&whole)) {
        (Some((found, after)), Some(words)) if (found, after) == (expected, words) => Ok(()),
        // What has grown out of two words is kept otherwise.
        (None, None) => Ok(()),
        (found, words) => Err(format!("packed {found:?}, else {expected:?} and {words:?}")),
    }
}

fn thinned(limit: &Limit, cell: &Cell, t: Timestamp) -> Verdict {
    let mut thin = cell.clone();
    thin.thin();
    let held = |cell: &Cell| limit.rule().held(cell.memory(), t);
    if thin.heap_bytes() > cell.heap_bytes() || held(&thin) < held(cell) {
        return Err(format!("thinning {cell:?} lost units or grew: {thin:?}"));
    }
    let Ok(policy) = Policy::new(vec![limit.clone()]) else { return Ok(()) };
    let look =
        |cell: &Cell, t: Timestamp| -> Decision { decide(&policy, &mut [cell.clone()], t, &Request::ONE.peek()) };
    // Wherever the thinned log would admit, the log it was made of would.
    let (mut now, period) = (t, limit.period().get());
    for step in 0..8 {
        let (whole, thin) = (look(cell, now), look(&thin, now));
        if thin.remaining > whole.remaining || (thin.allowed && !whole.allowed) {
            return Err(format!("a thinned log admits more: {thin:?}, not {whole:?}"));
        }
        now = now.plus(tollgate_kernel::Micros::new(1 + period / 8 * step % (period + 1)));
    }
    Ok(())
}
