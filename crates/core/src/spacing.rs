//! `spacing`: a least time between two charges, beside any algorithm.
//!
//! It remembers the last charge, uniform's refused ones too, and is not refunded. Time set back by
//! more than the spacing is corrected, as in the algorithms.

use crate::units::{Micros, Timestamp};

pub(crate) fn correct(last: &mut Option<Timestamp>, t: Timestamp, spacing: Micros) {
    if last.is_some_and(|last| last > t.plus(spacing)) {
        *last = Some(t);
    }
}

/// How long until the next charge may come.
pub(crate) fn wait(last: Option<Timestamp>, t: Timestamp, spacing: Micros) -> Micros {
    last.map_or(Micros::ZERO, |last| last.plus(spacing).since(t))
}

pub(crate) fn charge(last: &mut Option<Timestamp>, t: Timestamp) {
    *last = Some(last.map_or(t, |last| last.max(t)));
}
