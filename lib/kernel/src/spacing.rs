//! `spacing`: a minimum time between two charges, used beside any algorithm.
//!
//! The state is the time of the last charge, including refused requests that uniform mode counts. It is not refunded.
//! Time that was set back by more than the spacing is corrected, as in the algorithms.

use crate::units::{Micros, Timestamp};

pub(crate) fn correct(last: &mut Option<Timestamp>, t: Timestamp, spacing: Micros) {
    if last.is_some_and(|last| last > t.plus(spacing)) {
        *last = Some(t);
    }
}

/// Returns how long until the next charge is allowed.
pub(crate) fn wait(last: Option<Timestamp>, t: Timestamp, spacing: Micros) -> Micros {
    last.map_or(Micros::ZERO, |last| last.plus(spacing).since(t))
}

pub(crate) fn charge(last: &mut Option<Timestamp>, t: Timestamp) {
    *last = Some(last.map_or(t, |last| last.max(t)));
}
