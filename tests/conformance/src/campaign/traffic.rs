//! A run: threads at one store, and then the interval checker on every key.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};

use tollgate::{Error, Gate, ManualClock, Timestamp};

use super::caller::{Admission, Caller, ClockDriver, RunState, ThreadRecord};
use super::keys::{HOT, Keys};
use super::scene::Scene;
use super::summary::Share;
use super::{fullness, on_threads};
use crate::intervals::{Event, excess};

/// Keys that fill the table of a fresh store as far as it goes before it forgets and grows.
const CROWD: u64 = 14_000;

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) operations: u64,
    /// Units admitted, of all keys.
    pub(super) admitted: u64,
    /// Units of the hot key, and what one thread alone would have been admitted.
    pub(super) hot: Share,
    /// What is wrong, each with the key if it is about one.
    pub(super) wrong: Vec<(Option<String>, String)>,
}

/// Runs a scene for so many operations.
pub(super) fn run(scene: &Scene, keys: &Keys, operations: u64) -> Outcome {
    match open(scene) {
        Ok((gate, driver)) => run_with(scene, keys, operations, gate, driver),
        Err(error) => Outcome { wrong: vec![(None, error.to_string())], ..Outcome::default() },
    }
}

fn open(scene: &Scene) -> Result<(Gate, Option<ClockDriver>), Error> {
    let builder = Gate::builder().value(scene.policy.clone());
    let Some(pace) = scene.pace else { return Ok((builder.build()?, None)) };
    let clock = ManualClock::at(Timestamp::saturating(pace.start));
    Ok((builder.clock(clock.clone()).build()?, Some(ClockDriver::new(clock, pace))))
}

fn run_with(scene: &Scene, keys: &Keys, operations: u64, gate: Gate, driver: Option<ClockDriver>) -> Outcome {
    if scene.crowded {
        let crowd = (0..CROWD).try_for_each(|key| gate.check(format!("crowd:{key}")).map(|_| ()));
        if let Err(error) = crowd {
            return Outcome { wrong: vec![(None, error.to_string())], ..Outcome::default() };
        }
    }
    let state = RunState { scene, keys, gate, left: AtomicU64::new(operations), balance: AtomicI64::new(0) };
    let driver = Mutex::new(driver);
    let records = on_threads(|thread| {
        // Whoever comes first advances the clock.
        let driver = driver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        Caller::new(&state, thread, driver).work()
    });
    let mut outcome = judge(scene, keys, records);
    let shared = state.gate.stats().overflow_decisions;
    if shared > 0 {
        // There is memory for many more keys than were used, and keys that share a place are refused early.
        outcome.wrong.push((None, format!("{shared} decisions on keys that found no place")));
    }
    outcome
}

fn judge(scene: &Scene, keys: &Keys, records: Vec<(ThreadRecord, Option<ClockDriver>)>) -> Outcome {
    let (mut outcome, mut admitted, mut offers) = (Outcome::default(), Vec::new(), Vec::new());
    let mut stood = None;
    for (record, driver) in records {
        outcome.operations += record.operations;
        outcome.wrong.extend(record.wrong.into_iter().map(|wrong| (None, wrong)));
        admitted.extend(record.admitted);
        offers.extend(record.offers);
        stood = stood.or(driver.map(|driver| driver.stood));
    }
    outcome.admitted = admitted.iter().map(|admitted| admitted.event.units).sum();
    outcome.wrong.extend(too_much(scene, keys, &mut admitted));
    let hot = admitted.iter().filter(|admitted| admitted.key == HOT);
    outcome.hot.units = hot.map(|admitted| admitted.event.units).sum();
    outcome.hot.alone = match stood {
        Some(stood) => fullness::when_full(&scene.policy, &stood),
        None => fullness::when_offered(&scene.policy, &mut offers),
    };
    if scene.pace.is_some() && !is_full(scene, outcome.hot) {
        let what = format!("{} units admitted, {} to one thread alone", outcome.hot.units, outcome.hot.alone);
        outcome.wrong.push((Some(keys.name(HOT).to_owned()), what));
    }
    outcome
}

/// Whether a key that was full at every step was admitted what one thread alone would have been: exactly,
/// which is more than the 99.9 % asked for, and no more than that either, since some algorithms let less
/// through than they promise and no interval would show it. Only `decay` adds fractions, whose last bit
/// may depend on the portions.
fn is_full(scene: &Scene, hot: Share) -> bool {
    let fractions = scene.policy.limits().iter().any(|limit| limit.rule().name() == "decay");
    if fractions { hot.is_near() } else { hot.units == hot.alone }
}

/// Every key of which an interval admitted more than was promised.
fn too_much(scene: &Scene, keys: &Keys, admitted: &mut [Admission]) -> Vec<(Option<String>, String)> {
    admitted.sort_unstable_by_key(|admitted| (admitted.key, admitted.event.at));
    let each = admitted.chunk_by(|a, b| a.key == b.key).filter_map(|admitted| {
        let events: Vec<Event> = admitted.iter().map(|admitted| admitted.event).collect();
        let found = excess(scene.policy.limits(), &events)?;
        Some((Some(keys.name(admitted[0].key).to_owned()), found.to_string()))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What threads would have written down of these keys, times and units.
    fn records(admitted: &[(usize, u64, u64)]) -> Vec<(ThreadRecord, Option<ClockDriver>)> {
        let admitted = admitted.iter().map(|(key, at, units)| {
            let at = Timestamp::saturating(1_700_000_000_000_000 + at);
            Admission { key: *key, event: Event { at, units: *units } }
        });
        // In turns, so that times of one key are spread over both.
        let mut all = [ThreadRecord::default(), ThreadRecord::default()];
        for (index, admitted) in admitted.enumerate() {
            all[index % 2].admitted.push(admitted);
        }
        all.into_iter().map(|record| (record, None)).collect()
    }

    #[test]
    fn a_unit_too_many_is_found_in_its_key() {
        let policy = "3/ms".parse().unwrap();
        let scene = Scene { seed: 1, algorithm: "sliding", policy, pace: None, uniform: false, crowded: false };
        let keys = Keys::new();
        let fine = [(HOT, 999, 1), (7, 500, 3), (HOT, 0, 2), (8, 0, 1), (7, 1_500, 3), (HOT, 1_000, 2)];
        assert_eq!(judge(&scene, &keys, records(&fine)).wrong, []);
        let mut more = fine.to_vec();
        more.push((7, 1_499, 1));
        let what = "3/ms: 4 units in the 1ms from 1700000000000500us, at most 3 promised";
        assert_eq!(judge(&scene, &keys, records(&more)).wrong, [(Some("key:7".to_owned()), what.to_owned())]);
    }

    #[test]
    fn a_key_that_is_not_full_is_found_where_the_clock_is_advanced() {
        let scene = (0..).map(Scene::of).find(|scene| scene.pace.is_some()).unwrap();
        let (_, driver) = open(&scene).unwrap();
        let wrong = judge(&scene, &Keys::new(), vec![(ThreadRecord::default(), driver)]).wrong;
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].1.starts_with("0 units admitted, "), "{wrong:?}");
    }
}
