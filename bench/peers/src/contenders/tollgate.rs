//! Tollgate: `gcra` and the exact sliding window, a key a call and sixteen.

use ::tollgate::{Decision, Gate};

use super::{Contender, Limiter};
use crate::workload::Limit;

pub(crate) const GCRA: Contender = Contender {
    name: "tollgate",
    package: Some("tollgate"),
    what: "tollgate, gcra, a key a call",
    most_keys: u64::MAX,
    slow: 1,
    build: |limit, keys| Box::new(One(gate(gcra(limit), keys))),
};

pub(crate) const GCRA_16: Contender = Contender {
    name: "tollgate-x16",
    what: "tollgate, gcra, 16 keys a call",
    build: |limit, keys| Box::new(Sixteen(gate(gcra(limit), keys))),
    ..GCRA
};

pub(crate) const SLIDING: Contender = Contender {
    name: "tollgate-sliding",
    what: "tollgate, the exact sliding window, a key a call",
    // Its log of ten million keys is gigabytes, which the others' tables need.
    most_keys: 1_000_000,
    build: |limit, keys| Box::new(One(gate(sliding(limit), keys))),
    ..GCRA
};

struct One(Gate);

impl Limiter for One {
    #[inline]
    fn check(&self, key: &str) -> bool {
        self.0.check(key).is_ok_and(|decision| decision.allowed)
    }
}

struct Sixteen(Gate);

impl Limiter for Sixteen {
    fn check(&self, key: &str) -> bool {
        self.0.check(key).is_ok_and(|decision| decision.allowed)
    }

    fn check_many(&self, keys: &[&str]) -> usize {
        let mut decisions: Vec<Decision> = Vec::with_capacity(16);
        let mut allowed = 0;
        for keys in keys.chunks(16) {
            if self.0.check_many_into(keys, &mut decisions).is_ok() {
                allowed += decisions.iter().filter(|decision| decision.allowed).count();
            }
        }
        allowed
    }
}

fn gcra(limit: Limit) -> String {
    format!("{}/{}s gcra", limit.count, limit.seconds)
}

/// Its counts end at a million: what never refuses is a million in ten milliseconds.
fn sliding(limit: Limit) -> String {
    if limit.count > 1_000_000 { "1M/10ms".to_owned() } else { format!("{}/{}s", limit.count, limit.seconds) }
}

/// A cap that all keys fit under, with their logs.
fn gate(policy: String, keys: u64) -> Gate {
    let cap = (64 << 20) + 2_048 * keys as usize;
    Gate::builder().policy(&policy).memory_cap(cap).build().expect("a policy and a cap that are valid")
}
