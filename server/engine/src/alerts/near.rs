//! How near a decision shows a key to be: the greatest used share among the limits of its policy.
//!
//! A decision contains the least `remaining` of all limits. For a policy with one limit this determines the share. With
//! several limits it does not: with 3 left under `10/s, 100000/d` either limit may be the nearest. The remaining units
//! bound the share from both sides: if a percentage is passed by the smallest limit, it surely is; if it is not passed
//! by the largest, it surely is not. In between, the details of each limit are examined: those of the decision if it
//! has them, otherwise by a peek if the home answers at once. So no alert is missed and none is raised without cause;
//! where another store decides, and no details were requested, only the sure case counts.

use std::sync::Arc;

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Policy, Request, Source, Timestamp};

use super::{AlertLevel, PolicyAlerts};

/// Measures how near the keys of a policy are to its limits, for its levels.
#[derive(Debug)]
pub struct NearLimitMeter {
    alert: Arc<PolicyAlerts>,
    /// The remaining units of each limit in its initial state.
    capacities: Box<[i64]>,
    marks: Box<[LevelThreshold]>,
    /// If more than this remains, no key is near.
    most: i64,
}

/// A level, and the remaining units at which it is reached.
#[derive(Debug)]
struct LevelThreshold {
    level: Arc<AlertLevel>,
    rises: ThresholdBounds,
    holds: ThresholdBounds,
}

/// The remaining units at or below which a percentage is passed.
#[derive(Clone, Copy, Debug)]
struct ThresholdBounds {
    sure: i64,
    maybe: i64,
}

impl NearLimitMeter {
    /// Returns the measure for `policy`, which is the policy that decides: the alert's own, or an override of it.
    pub fn new(alert: Arc<PolicyAlerts>, policy: &Policy) -> Self {
        let look = Request { peek: true, ..Request::cost(Cost::ONE) };
        let (_, fresh) = KeyState::default().decide_full(policy, Timestamp::default(), &look);
        let capacities: Box<[i64]> = fresh.iter().map(|detail| detail.remaining).collect();
        let (least, greatest) = (capacities.iter().min().copied(), capacities.iter().max().copied());
        let bounds = |percent: u8| ThresholdBounds {
            sure: left(least.unwrap_or_default(), percent),
            maybe: left(greatest.unwrap_or_default(), percent),
        };
        let mark = |level: &Arc<AlertLevel>| LevelThreshold {
            rises: bounds(level.percent),
            holds: bounds(level.holds()),
            level: Arc::clone(level),
        };
        let marks: Box<[LevelThreshold]> = alert.levels.iter().map(mark).collect();
        let most = marks.iter().map(|mark| mark.holds.maybe).max().unwrap_or(i64::MIN);
        Self { alert, capacities, marks, most }
    }

    /// Examines a decision. `parts` are the details of the limits if they are known; `peek` requests them.
    #[inline]
    pub fn observe(
        &self,
        key: &[u8],
        decision: &Decision,
        parts: &[Detail],
        peek: impl FnOnce() -> Option<Vec<Detail>>,
    ) {
        if decision.remaining <= self.most {
            self.observe_closely(key, decision, parts, peek);
        }
    }

    fn observe_closely(
        &self,
        key: &[u8],
        decision: &Decision,
        parts: &[Detail],
        peek: impl FnOnce() -> Option<Vec<Detail>>,
    ) {
        // A stand-in for the home has other limits, and a key that no limit refused is not near one.
        if decision.source != Source::Home || (!decision.allowed && decision.limited_by.is_none()) {
            return;
        }
        let left = decision.remaining;
        let unsure = self.marks.iter().any(|LevelThreshold { level, rises, holds }| {
            let rise = left <= rises.maybe && left > rises.sure && level.may_rise();
            rise || (left <= holds.maybe && left > holds.sure && level.is_unseen())
        });
        let peeked = if parts.is_empty() && unsure { peek() } else { None };
        let parts = peeked.as_deref().unwrap_or(parts);
        let passes = |bounds: ThresholdBounds, percent: u8| match parts {
            [] => left <= bounds.sure,
            parts => self.used_most(parts, percent).is_some(),
        };
        for LevelThreshold { level, rises, holds } in &self.marks {
            if (level.is_unseen() || level.may_rise()) && passes(*holds, level.holds()) {
                level.see();
                if level.may_rise() && passes(*rises, level.percent) && level.rise() {
                    // With a single limit it is that limit; otherwise the one whose details show it.
                    let part = self.used_most(parts, level.percent);
                    let (remaining, count) =
                        part.unwrap_or((left, self.capacities.iter().min().copied().unwrap_or_default()));
                    self.alert.reporter.raised(&self.alert.policy, level.percent, key, remaining, count);
                }
            }
        }
    }

    /// Returns the first limit of which `percent` percent are used: its remaining units, and those in its initial
    /// state.
    fn used_most(&self, parts: &[Detail], percent: u8) -> Option<(i64, i64)> {
        let limits = parts.iter().map(|part| part.remaining).zip(self.capacities.iter().copied());
        limits.into_iter().find(|(remaining, capacity)| *remaining <= left(*capacity, percent))
    }
}

/// Returns the remaining units of a limit when `percent` percent of it are used.
fn left(capacity: i64, percent: u8) -> i64 {
    // A hundred times 2^53 is well below 2^63.
    capacity.saturating_mul(100 - i64::from(percent.min(100))).div_euclid(100)
}
