//! How near a decision shows a key to be: the greatest share used over the limits of its policy.
//!
//! A decision tells the least `remaining` over the limits. Of a policy with one limit that is the share. Of
//! one with several it is not: with 3 left under `10/s, 100000/d` either limit may be the one. What is left
//! bounds the share from both sides: by the smallest limit it is surely passed, by the largest surely not.
//! In between the limits' own parts are looked at: those of the decision if it has them, else by a peek
//! where the home answers at once. So nothing is missed and nothing is raised without cause; where a store
//! decides, and no parts were asked for, only what is sure counts.

use std::sync::Arc;

use tollgate_core::{Cost, Decision, Detail, KeyState, Policy, Request, Source, Timestamp};

use super::{Alert, Level};

/// How near to its limits a policy's keys are, measured by its levels.
#[derive(Debug)]
pub(crate) struct Near {
    alert: Arc<Alert>,
    /// What each limit has when it is fresh.
    capacities: Box<[i64]>,
    marks: Box<[Mark]>,
    /// With more than this left, no key is near.
    most: i64,
}

/// A level, and what is left when it is reached.
#[derive(Debug)]
struct Mark {
    level: Arc<Level>,
    rises: Bounds,
    holds: Bounds,
}

/// With so much left or less, a percentage is passed.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    sure: i64,
    maybe: i64,
}

impl Near {
    /// `policy` is the one that decides: the alert's own, or an override of it.
    pub(crate) fn new(alert: Arc<Alert>, policy: &Policy) -> Self {
        let look = Request { peek: true, ..Request::cost(Cost::ONE) };
        let (_, fresh) = KeyState::default().decide_full(policy, Timestamp::default(), &look);
        let capacities: Box<[i64]> = fresh.iter().map(|detail| detail.remaining).collect();
        let (least, greatest) = (capacities.iter().min().copied(), capacities.iter().max().copied());
        let bounds = |percent: u8| Bounds {
            sure: left(least.unwrap_or_default(), percent),
            maybe: left(greatest.unwrap_or_default(), percent),
        };
        let mark = |level: &Arc<Level>| Mark {
            rises: bounds(level.percent),
            holds: bounds(level.holds()),
            level: Arc::clone(level),
        };
        let marks: Box<[Mark]> = alert.levels.iter().map(mark).collect();
        let most = marks.iter().map(|mark| mark.holds.maybe).max().unwrap_or(i64::MIN);
        Self { alert, capacities, marks, most }
    }

    /// Looks at a decision. `parts` are the limits' own if they are known; `peek` asks for them.
    #[inline]
    pub(crate) fn look(
        &self,
        key: &[u8],
        decision: &Decision,
        parts: &[Detail],
        peek: impl FnOnce() -> Option<Vec<Detail>>,
    ) {
        if decision.remaining <= self.most {
            self.look_closely(key, decision, parts, peek);
        }
    }

    fn look_closely(
        &self,
        key: &[u8],
        decision: &Decision,
        parts: &[Detail],
        peek: impl FnOnce() -> Option<Vec<Detail>>,
    ) {
        // What stands in for the home has other limits, and who is refused by no limit is near none.
        if decision.source != Source::Home || (!decision.allowed && decision.limited_by.is_none()) {
            return;
        }
        let left = decision.remaining;
        let unsure = self.marks.iter().any(|Mark { level, rises, holds }| {
            let rise = left <= rises.maybe && left > rises.sure && level.may_rise();
            rise || (left <= holds.maybe && left > holds.sure && level.is_unseen())
        });
        let peeked = if parts.is_empty() && unsure { peek() } else { None };
        let parts = peeked.as_deref().unwrap_or(parts);
        let passes = |bounds: Bounds, percent: u8| match parts {
            [] => left <= bounds.sure,
            parts => self.used_most(parts, percent).is_some(),
        };
        for Mark { level, rises, holds } in &self.marks {
            if (level.is_unseen() || level.may_rise()) && passes(*holds, level.holds()) {
                level.see();
                if level.may_rise() && passes(*rises, level.percent) && level.rise() {
                    // One of one limit is that limit; else the one whose part says so.
                    let part = self.used_most(parts, level.percent);
                    let (remaining, count) =
                        part.unwrap_or((left, self.capacities.iter().min().copied().unwrap_or_default()));
                    self.alert.told.raised(&self.alert.policy, level.percent, key, remaining, count);
                }
            }
        }
    }

    /// The first limit of which so many percent are used: what is left of it, and what it has when it is fresh.
    fn used_most(&self, parts: &[Detail], percent: u8) -> Option<(i64, i64)> {
        let limits = parts.iter().map(|part| part.remaining).zip(self.capacities.iter().copied());
        limits.into_iter().find(|(remaining, capacity)| *remaining <= left(*capacity, percent))
    }
}

/// What is left of a limit when so many percent of it are used.
fn left(capacity: i64, percent: u8) -> i64 {
    // A hundred times 2^53 is well within 2^63.
    capacity.saturating_mul(100 - i64::from(percent.min(100))).div_euclid(100)
}
