//! The interval checker: whether what a home admitted of one key breaks a promise, in any interval
//! whatever.
//!
//! A limit promises [`most_in`](tollgate_kernel::algorithms::Rule::most_in) a span, for every half-open
//! interval of that length. A promise never falls as spans grow, so the intervals that matter begin at
//! one event and end just after another. All pairs of events are too many for a long run, and checking
//! windows of a few lengths is not enough: a counted window promises N and N more for every edge
//! crossed, and none of its spans follows from another. So the promise is taken apart into stairs,
//! which split into a part of the first event and a part of the last, and one sweep keeps the best first
//! event for each last one: O(n log n) for every pair. A promise that is no stairs is checked pair by
//! pair.
//!
//! Only events with their times and units go in, so this judges any home, however it keeps its state.
//!
//! | file | what it is |
//! |---|---|
//! | `stairs.rs` | the form of a promise, found by asking for it |
//! | `best.rs` | the greatest of the values at and above a place |

mod best;
mod stairs;

use std::fmt;
use std::sync::Arc;

use tollgate_kernel::{Alignment, Limit, Micros, Timestamp};

use best::MaxTree;
use stairs::Stairs;

/// Fixed windows of whole weeks begin on Mondays, all others at multiples of their period.
const WEEK: u64 = 7 * 86_400_000_000;

/// Units admitted at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the clock of the home that decided.
    pub at: Timestamp,
    /// How many.
    pub units: u64,
}

/// An interval that admitted more than a limit promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The limit, as text.
    pub limit: String,
    /// Where the interval begins.
    pub from: Timestamp,
    /// How long it is, its end not included.
    pub span: Micros,
    /// The units admitted in it.
    pub units: u64,
    /// The most that was promised.
    pub most: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, from, span, units, most } = self;
        write!(f, "{limit}: {units} units in the {span} from {}us, at most {most} promised", from.get())
    }
}

/// Finds an interval in which `events`, those of one key in the order of their times, are more than
/// one of `limits` promises.
pub fn excess(limits: &[Arc<Limit>], events: &[Event]) -> Option<Excess> {
    let events = merged(events);
    limits.iter().find_map(|limit| limit_excess(limit, &events))
}

fn limit_excess(limit: &Limit, events: &[Event]) -> Option<Excess> {
    let found = clock_window(limit, events).or_else(|| match Stairs::of(limit) {
        Some(stairs) => sweep(limit, &stairs, events),
        None => pairs(limit, events),
    })?;
    let Interval { from, span, units, most } = found;
    Some(Excess { limit: limit.to_string(), from, span: Micros::new(span), units, most })
}

struct Interval {
    from: Timestamp,
    span: u64,
    units: u64,
    most: u64,
}

/// Events of one time are one event: no interval parts them.
fn merged(events: &[Event]) -> Vec<Event> {
    let mut merged: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        match merged.last_mut() {
            Some(last) if last.at == event.at => last.units += event.units,
            _ => merged.push(*event),
        }
    }
    merged
}

/// Where the clock opens windows each admits at most the count: more than [`most_in`] promises, which
/// does not know where an interval begins.
///
/// [`most_in`]: tollgate_kernel::algorithms::Rule::most_in
fn clock_window(limit: &Limit, events: &[Event]) -> Option<Interval> {
    let (name, period) = (limit.rule().name(), limit.period().get());
    let aligned = limit.rule().numbers().2.align == Some(Alignment::Clock) && !period.is_multiple_of(WEEK);
    if !aligned && name != "estimate" {
        return None;
    }
    let window = |event: &Event| event.at.get() / period;
    let full = events.chunk_by(|a, b| window(a) == window(b)).find_map(|events| {
        let units: u64 = events.iter().map(|event| event.units).sum();
        (units > limit.count()).then(|| (window(&events[0]) * period, units))
    });
    let (start, units) = full?;
    Some(Interval { from: Timestamp::saturating(start), span: period, units, most: limit.count() })
}

/// Every pair of events, one by one.
fn pairs(limit: &Limit, events: &[Event]) -> Option<Interval> {
    for (index, first) in events.iter().enumerate() {
        let mut units = 0;
        for last in &events[index..] {
            units += last.units;
            let span = last.at.since(first.at).get() + 1;
            let most = limit.rule().most_in(Micros::new(span));
            if units > most {
                return Some(Interval { from: first.at, span, units, most });
            }
        }
    }
    None
}

/// Every pair of events in one sweep.
///
/// Let x be the time of an event since the first one, times the stairs' rate, and x = q * every + r. From
/// event i to event j the stairs have risen by q_j - q_i steps and k more, where k is the floor of
/// (r_j - r_i + lead) / every. That is -1, 0 or 1, and the less the greater r_i is:
///
/// ```text
/// k <= -1   where r_i > r_j + lead
/// k <= 0    where r_i > r_j + lead - every
/// k <= 1    always
/// ```
///
/// With U_j the units up to and with event j, more than promised is
///
/// ```text
/// (U_j - step * q_j) + (step * q_i - U_{i-1}) > first + step * k
/// ```
///
/// So for each j it is enough to know the greatest second bracket of the events so far, among those with
/// a great enough rest, for each of the three values of k.
fn sweep(limit: &Limit, stairs: &Stairs, events: &[Event]) -> Option<Interval> {
    let start = events.first()?.at;
    let place = |event: &Event| {
        let x = u128::from(event.at.since(start).get()) * u128::from(stairs.rate);
        ((x / u128::from(stairs.every)) as i128, (x % u128::from(stairs.every)) as i128)
    };
    let mut rests: Vec<i128> = events.iter().map(|event| place(event).1).collect();
    rests.sort_unstable();
    rests.dedup();
    let (first, step) = (i128::from(stairs.first), i128::from(stairs.step));
    let (every, lead) = (i128::from(stairs.every), i128::from(stairs.lead));
    let mut best = MaxTree::new(rests.len());
    let mut units = 0;
    for (last, event) in events.iter().enumerate() {
        let (q, r) = place(event);
        best.raise(rests.partition_point(|rest| *rest < r), step * q - units, last);
        units += i128::from(event.units);
        for (above, k) in [(r + lead, -1), (r + lead - every, 0), (-1, 1)] {
            let from = rests.partition_point(|rest| *rest <= above);
            let Some((value, begin)) = best.from(from) else { continue };
            if units - step * q + value > first + step * k {
                return found(limit, events, begin, last);
            }
        }
    }
    None
}

/// The interval from one event to another, which the stairs say is too full.
fn found(limit: &Limit, events: &[Event], begin: usize, last: usize) -> Option<Interval> {
    let (from, span) = (events[begin].at, events[last].at.since(events[begin].at).get() + 1);
    let units = events[begin..=last].iter().map(|event| event.units).sum();
    let most = limit.rule().most_in(Micros::new(span));
    // The promise has the last word: if it does not agree, it is not the stairs it was taken for.
    if units > most { Some(Interval { from, span, units, most }) } else { pairs(limit, events) }
}

#[cfg(test)]
mod tests;
