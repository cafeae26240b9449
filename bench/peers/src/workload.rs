//! The traffic: which keys come in which order, under which limit.

use crate::draw::{Random, Zipf};
use crate::keys::Keys;

/// `count` in `seconds`, with a burst of `count`. Contenders that know no burst (limitador counts
/// in fixed windows) take it as `count` in `seconds`.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) count: u32,
    pub(crate) seconds: u32,
}

pub(crate) const HUNDRED_A_MINUTE: Limit = Limit { count: 100, seconds: 60 };
/// A key that was asked once is remembered for a quarter of an hour: who forgets what is as new would
/// otherwise be measured with fewer keys.
pub(crate) const REMEMBERED: Limit = Limit { count: 100, seconds: 86_400 };
/// One a nanosecond: no run asks as fast.
const NEVER_REFUSES: Limit = Limit { count: 1_000_000_000, seconds: 1 };

#[derive(Clone, Copy)]
enum Spread {
    Uniform,
    Zipf(f64),
}

#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) keys: u64,
    /// Checks a measurement and thread.
    pub(crate) checks: u64,
    pub(crate) limit: Limit,
    spread: Spread,
}

const CHECKS: u64 = 2_000_000;

pub(crate) const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "hot-deny",
        what: "one key, all refused",
        keys: 1,
        checks: CHECKS,
        limit: HUNDRED_A_MINUTE,
        spread: Spread::Uniform,
    },
    Workload {
        name: "hot-allow",
        what: "one key, all allowed",
        keys: 1,
        checks: CHECKS,
        limit: NEVER_REFUSES,
        spread: Spread::Uniform,
    },
    Workload {
        name: "1M",
        what: "a million keys, uniform",
        keys: 1_000_000,
        checks: CHECKS,
        limit: REMEMBERED,
        spread: Spread::Uniform,
    },
    Workload {
        name: "zipf",
        what: "a million keys, Zipf 1.1",
        keys: 1_000_000,
        checks: CHECKS,
        limit: REMEMBERED,
        spread: Spread::Zipf(1.1),
    },
    Workload {
        name: "10M",
        what: "ten million keys, uniform",
        keys: 10_000_000,
        checks: CHECKS,
        limit: REMEMBERED,
        spread: Spread::Uniform,
    },
];

/// A hot key's sequence is short and asked again and again: it stays in the cache, where a long
/// list of one and the same key would be streamed from memory at the cost of the fastest.
const HOT_SEQUENCE: u64 = 10_000;

/// What `--quick` divides keys and checks by.
pub(crate) const QUICK: u64 = 20;

impl Workload {
    pub(crate) fn quick(self) -> Self {
        Self { keys: (self.keys / QUICK).max(1), checks: self.checks / QUICK, ..self }
    }

    /// The keys that thread number `thread` asks for, in order; from the start again at its end.
    pub(crate) fn sequence(&self, thread: usize) -> Keys {
        let mut random = Random::new(4_711 + thread as u64);
        let calls = 0..if self.keys == 1 { HOT_SEQUENCE } else { self.checks } as usize;
        match self.spread {
            Spread::Uniform => Keys::of(calls.map(|_| random.below(self.keys))),
            Spread::Zipf(exponent) => {
                let zipf = Zipf::new(self.keys, exponent);
                Keys::of(calls.map(|_| zipf.draw(&mut random)))
            }
        }
    }
}
