//! Dialects against slow models written from the definitions, where the vectors are too few: on
//! grids that are not whole microseconds, and over several limits at once.

use tollgate_dialects::{Dialect, find};
use tollgate_kernel::{KeyState, Timestamp};
use tollgate_random::Rng;

fn ask(dialect: &Dialect, state: &mut KeyState, keys: &[String], args: &[String]) -> String {
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    let call = (dialect.parse)(&keys, &args).unwrap();
    call.run(state, Timestamp::default()).unwrap().to_string()
}

/// One limit of the rolling model. Entry times are in microseconds times buckets, so that they are whole numbers.
struct Rolling {
    interval: i128,
    max: i128,
    spacing: i128,
    buckets: i128,
    entries: Vec<(i128, i128)>,
    last: Option<i128>,
}

impl Rolling {
    fn life(&self) -> i128 {
        self.interval + self.interval / self.buckets / 2
    }

    fn sum(&self) -> i128 {
        self.entries.iter().map(|(_, count)| count).sum()
    }

    fn record(&mut self, now: i128, count: i128) {
        let scaled = now * self.buckets;
        match self.entries.last_mut() {
            Some((time, counted)) if *time + self.interval >= scaled => *counted += count,
            Some((time, _)) => {
                let time = *time + (scaled - *time) / self.interval * self.interval;
                self.entries.push((time, count));
            }
            None => self.entries.push((scaled, count)),
        }
        self.last = Some(now);
    }

    fn wait(&self, now: i128, n: i128) -> i128 {
        let mut sum = self.sum();
        let mut wait = 0;
        for (time, count) in &self.entries {
            if sum + n <= self.max {
                break;
            }
            sum -= count;
            wait = time.div_euclid(self.buckets) + i128::from(time % self.buckets > 0) + self.life() - now;
        }
        wait
    }
}

/// Section 6 of the semantics, step by step.
fn roll(limits: &mut [Rolling], mode: u64, n: i128, now: i128) -> String {
    for limit in limits.iter_mut() {
        let gone = (now - limit.life()) * limit.buckets;
        limit.entries.retain(|(time, _)| *time > gone);
    }
    let remaining = limits.iter().map(|limit| limit.max - limit.sum()).min().unwrap();
    let spaced = |limit: &Rolling| limit.last.map_or(0, |last| last + limit.spacing - now).max(0);
    let too_soon = limits.iter().any(|limit| spaced(limit) > 0);
    let acknowledged = match mode {
        0 => n,
        _ if too_soon => 0,
        1 => {
            if remaining >= n {
                n
            } else {
                0
            }
        }
        _ => n.min(remaining).max(0),
    };
    if acknowledged > 0 {
        limits.iter_mut().for_each(|limit| limit.record(now, acknowledged));
    }
    let wait = limits.iter().map(|limit| limit.wait(now, n).max(spaced(limit))).max().unwrap();
    format!("[{}, {acknowledged}, {}]", remaining - acknowledged, wait.max(0))
}

#[test]
fn rolling_is_its_definition_on_any_grid() {
    let dialect = find("rolling").unwrap();
    let mut rng = Rng::new(7);
    for _ in 0..400 {
        let mut limits: Vec<Rolling> = (0..1 + rng.below(3))
            .map(|_| Rolling {
                interval: rng.pick(&[1, 7, 100, 1_000, 1_001, 60_000]).into(),
                max: (1 + rng.below(9)).into(),
                spacing: rng.pick(&[0, 0, 1, 30, 2_000]).into(),
                buckets: rng.pick(&[1, 2, 3, 7, 10, 999, 10_000]).into(),
                entries: Vec::new(),
                last: None,
            })
            .collect();
        let keys: Vec<String> = (0..limits.len()).map(|index| format!("{index}:id")).collect();
        let (mode, mut now, mut state) = (rng.below(3), 1_700_000_000_000_000, KeyState::default());
        for _ in 0..200 {
            let (pause, n) = (rng.pick(&[0, 1, 2, 40, 300, 1_000, 90_000]), 1 + rng.below(6));
            now += rng.below(1 + pause);
            let mut args = vec![mode.to_string(), n.to_string(), now.to_string()];
            args.extend(limits.iter().map(|limit| limit.spacing.to_string()));
            args.extend(limits.iter().map(|limit| limit.max.to_string()));
            args.extend(limits.iter().map(|limit| (limit.interval as f64 / limit.buckets as f64).to_string()));
            args.extend(limits.iter().map(|limit| limit.buckets.to_string()));
            // In uniform mode the excess of one call may still count in the next one.
            let told = ask(dialect, &mut state, &keys, &args);
            assert_eq!(told, roll(&mut limits, mode, n.into(), now.into()), "{args:?}");
        }
    }
}

/// One limit of the slotted model: every event by its slot.
struct Slots {
    max: u64,
    duration: u64,
    resolution: u64,
    slots: Vec<u64>,
}

impl Slots {
    fn total(&self, now: u64) -> u64 {
        let oldest = (now as i64 - self.duration as i64).div_euclid(self.resolution as i64);
        self.slots.iter().filter(|slot| **slot as i64 > oldest).count() as u64
    }
}

#[test]
fn slot_window_is_its_definition_over_several_limits() {
    let dialect = find("slot_window").unwrap();
    let mut rng = Rng::new(11);
    for _ in 0..300 {
        let mut limits: Vec<Slots> = (0..1 + rng.below(3))
            .map(|_| {
                let resolution = 1 + rng.below(9);
                let duration = resolution + rng.below(60);
                Slots { max: 1 + rng.below(6), duration, resolution, slots: Vec::new() }
            })
            .collect();
        let rows: Vec<_> =
            limits.iter().map(|limit| format!("[{},{},{}]", limit.max, limit.duration, limit.resolution)).collect();
        let (json, mut now, mut state) = (format!("[{}]", rows.join(",")), 1_000, KeyState::default());
        for _ in 0..150 {
            now += rng.pick(&[0, 0, 1, 3, 20, 90]);
            let count = rng.pick(&[0, 1, 1, 1, 2, 5]);
            for limit in &mut limits {
                limit.slots.extend((0..count).map(|_| now / limit.resolution));
            }
            let exceeded = limits.iter().any(|limit| limit.total(now) > limit.max);
            let fits = |at: u64| limits.iter().all(|limit| limit.total(at) < limit.max);
            let wait = if exceeded { (1..).find(|wait| fits(now + wait)).unwrap() } else { 0 };
            let args = [count.to_string(), "ns".to_owned(), json.clone(), now.to_string(), "1".to_owned()];
            assert_eq!(ask(dialect, &mut state, &["k".to_owned()], &args), wait.to_string(), "{args:?}");
        }
    }
}
