//! Calls of `rolling` with several keys: each key stores the state of its own limit; either all are charged or none is.

use std::sync::Arc;

use tollgate_dialects::{ApiCounterUsage, DialectReply};
use tollgate_kernel::{Cell, KeyState, Limit, Micros, Policy, Timestamp};

use super::{CallEffect, is_ahead, not_limiter_state};
use crate::call::{DialectCall, ROLLING};
use crate::entry::{KeyEntry, KeyValue, state_bytes};
use crate::fault::{Fault, quoted};
use crate::{ClockReadings, Keyspace};

/// The document's number of buckets, for a limit that specifies none.
const BUCKETS: u64 = 10_000;

const SCOPE: &[u8] = ROLLING.as_bytes();

/// A limit as its key stores it, and the policy of that limit alone.
struct RollingKeyLimit {
    limit: Arc<Limit>,
    policy: Policy,
}

/// The place of a key's limit, and the time of the call.
#[derive(Clone, Copy)]
struct RollingKey<'a> {
    db: u8,
    key: &'a [u8],
    times: ClockReadings,
    /// The time by the caller's clock.
    t: Timestamp,
}

impl Keyspace {
    /// Decides a call on its keys. Returns `None` if there is no memory for new state.
    pub(super) fn decide_several(
        &mut self,
        dialect_call: &DialectCall,
        keys: &[Vec<u8>],
        times: ClockReadings,
    ) -> Result<Option<DialectReply>, Fault> {
        let (db, call) = (dialect_call.db, &dialect_call.call);
        let t = call.time(times.now)?;
        for (place, key) in keys.iter().enumerate() {
            if keys[..place].contains(key) {
                return Err(Fault::wrong(format!("keys: expected each once, found {}", quoted(key))));
            }
            let entry = self.table.get(db, key, times);
            if entry.is_some_and(|entry| !matches!(entry.value, KeyValue::Limiter(_))) {
                return Err(not_limiter_state());
            }
        }
        let owns: Vec<RollingKeyLimit> =
            call.policy().limits().iter().map(|limit| RollingKeyLimit::new(limit)).collect::<Result<_, _>>()?;
        let spots: Vec<RollingKey<'_>> = keys.iter().map(|key| RollingKey { db, key, times, t }).collect();
        for (spot, own) in spots.iter().zip(&owns) {
            self.check_spot(spot, own)?;
        }
        let known = spots.iter().zip(&owns).all(|(spot, own)| self.knows_limit(spot, own));
        // The shared state may include what these keys were charged.
        let mut shared = if known { KeyState::default() } else { self.overflow.state_of(dialect_call, times.now) };
        if !known && !self.table.has_room(dialect_call.new_bytes() + state_bytes(&shared), times) {
            return Ok(None);
        }
        let mut cells: Vec<Cell> = Vec::with_capacity(spots.len());
        for ((spot, own), limit) in spots.iter().zip(&owns).zip(call.policy().limits()) {
            let cell = self.take_cell(spot, own, dialect_call.may_charge());
            let shared = || shared.find_mut(limit).map_or_else(|| own.limit.fresh(), |cell| cell.clone());
            cells.push(cell.unwrap_or_else(shared));
        }
        let outcome = call.run_on(&mut cells, &mut ApiCounterUsage::default(), t);
        let charged = matches!(&outcome, Ok(outcome) if outcome.decision.is_some_and(|decision| decision.charged > 0));
        if charged {
            self.effect = CallEffect::States;
        }
        for ((spot, own), cell) in spots.iter().zip(&owns).zip(cells) {
            self.put_cell(spot, own, cell, charged);
        }
        Ok(Some(outcome?.reply))
    }

    fn knows_limit(&self, spot: &RollingKey<'_>, own: &RollingKeyLimit) -> bool {
        let entry = self.table.get(spot.db, spot.key, spot.times);
        let Some(KeyEntry { value: KeyValue::Limiter(limiter), .. }) = entry else { return false };
        limiter.knows(SCOPE, &own.limit, spot.times.now)
    }

    /// Refuses a key that has no room for its limit.
    fn check_spot(&self, spot: &RollingKey<'_>, own: &RollingKeyLimit) -> Result<(), Fault> {
        let (entry, now) = (self.table.get(spot.db, spot.key, spot.times), spot.times.now);
        let Some(KeyEntry { value: KeyValue::Limiter(limiter), .. }) = entry else { return Ok(()) };
        limiter.check_place(SCOPE, now)?;
        let part = limiter.parts.iter().find(|part| *part.scope == *SCOPE && now <= part.until);
        Ok(part.map_or(Ok(()), |part| part.state.check_place_for(&own.policy, spot.t))?)
    }

    /// Takes the cell of a key's limit, leaving a fresh one in the key until it is put back; `None` if the key does not
    /// know the limit.
    fn take_cell(&mut self, spot: &RollingKey<'_>, own: &RollingKeyLimit, may_charge: bool) -> Option<Cell> {
        let (RollingKey { db, key, times, t }, now) = (*spot, spot.times.now);
        if !self.knows_limit(spot, own) {
            return None;
        }
        let tight =
            may_charge && self.table.get(db, key, times).is_some_and(|entry| self.table.lacks(2 * entry.value.bytes()));
        let taken = self.table.change(db, key, times, |entry| {
            let KeyValue::Limiter(limiter) = &mut entry.value else { return None };
            let part = limiter.part(SCOPE).filter(|part| now <= part.until)?;
            if tight {
                part.state.thin();
            }
            let is_other = tight || is_ahead(&part.state, t);
            let cell = part.state.find_mut(&own.limit)?;
            Some((std::mem::replace(cell, own.limit.fresh()), is_other))
        });
        let (cell, is_other) = taken.flatten()?;
        if is_other {
            self.effect = CallEffect::States;
        }
        Some(cell)
    }

    fn put_cell(&mut self, spot: &RollingKey<'_>, own: &RollingKeyLimit, cell: Cell, charged: bool) {
        let (RollingKey { db, key, times, t }, now) = (*spot, spot.times.now);
        if charged && self.table.get(db, key, times).is_none() {
            let limiter = KeyValue::Limiter(Box::default());
            self.table.put(db, key, KeyEntry::new(limiter, Some(now)));
        }
        self.table.change(db, key, times, |entry| {
            let KeyValue::Limiter(limiter) = &mut entry.value else { return };
            if !charged {
                // A cell that was taken is put back; one that was not is dropped.
                if let Some(held) = limiter.part(SCOPE).and_then(|part| part.state.find_mut(&own.limit)) {
                    *held = cell;
                }
                return;
            }
            let Ok(part) = limiter.open(SCOPE, now) else { return };
            if part.until < now {
                part.state = KeyState::default();
            }
            if let Some(held) = part.state.find_mut(&own.limit) {
                *held = cell;
                part.state.cells_of(&own.policy, t);
            } else if let Some(held) = part.state.cells_of(&own.policy, t).first_mut() {
                *held = cell;
            }
            part.state.settle();
            {
                let others = part.state.each().count() > 1;
                let until = now.plus(own.life().max(part.state.expires_after(t)));
                part.until = if others { until.max(part.until) } else { until };
                entry.expires = limiter.until();
            }
        });
    }
}

/// Returns where the limits of a call are stored if its keys know them.
pub(super) fn limit_locations<'a>(
    keys: &'a [Vec<u8>],
    limits: &[Arc<Limit>],
) -> Result<Vec<super::LimitLocation<'a>>, Fault> {
    let own = |(key, limit): (&'a Vec<u8>, &Arc<Limit>)| {
        Ok(super::LimitLocation { key, scope: SCOPE.to_vec(), limit: RollingKeyLimit::new(limit)?.limit })
    };
    keys.iter().zip(limits).map(own).collect()
}

impl RollingKeyLimit {
    /// Returns the limit named by its period and buckets, because its position in the call means nothing in its key.
    fn new(limit: &Limit) -> Result<Self, Fault> {
        let (_, period, options) = limit.rule().numbers();
        let name = format!("rolling-{}-{}", period.get(), options.buckets.unwrap_or(BUCKETS));
        let alone = Limit::new(limit.rule().clone()).spaced(limit.spacing().unwrap_or_default());
        let alone = alone.and_then(|limit| limit.named(&name)).map_err(|problem| Fault::wrong(problem.expected))?;
        let policy = Policy::new(vec![alone]).map_err(|error| Fault::wrong(error.to_string()))?;
        let limit = policy.limits().first().cloned().ok_or_else(|| Fault::wrong("expected a limit"))?;
        Ok(Self { limit, policy })
    }

    /// Returns how long an entry counts, in whole seconds as in the original.
    fn life(&self) -> Micros {
        let (_, period, options) = self.limit.rule().numbers();
        let half = period.get() / (2 * options.buckets.unwrap_or(BUCKETS).max(1));
        Micros::from_secs(period.plus(Micros::new(half)).secs_up())
    }
}
