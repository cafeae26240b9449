//! Who takes part. A new contender is a file here with a `Contender` in it and a line in `CONTENDERS`.

mod floor;
mod governor;
mod limitador;
mod throttlecrab;
mod tollgate;

use crate::workload::Limit;

/// The order is that of the tables.
pub(crate) const CONTENDERS: &[Contender] = &[
    tollgate::GCRA,
    tollgate::GCRA_16,
    tollgate::SLIDING,
    governor::STR,
    governor::INLINE,
    throttlecrab::PERIODIC,
    limitador::MEMORY,
    floor::FLOOR,
];

/// What others are compared with: what most users have, and the best a careful user gets.
pub(crate) const BASELINES: [&str; 2] = [governor::STR.name, governor::INLINE.name];

/// A limiter that can take part.
pub(crate) struct Contender {
    /// One word, for tables and `--only`.
    pub(crate) name: &'static str,
    /// The package its version is told of, if it is one.
    pub(crate) package: Option<&'static str>,
    pub(crate) what: &'static str,
    /// Workloads of more keys leave it out.
    pub(crate) most_keys: u64,
    /// A slow one makes only every `slow`th part of the checks; 1 is all.
    pub(crate) slow: usize,
    /// Makes it empty. The number of keys to come is for those that need a bound: nobody else gets
    /// its table made to measure, since a user does not know the number.
    pub(crate) build: fn(Limit, u64) -> Box<dyn Limiter>,
}

/// What is asked of a limiter. The loops over keys are here and not where they are timed: a default
/// method is compiled for each limiter, so that `check` is no virtual call and can be inlined.
pub(crate) trait Limiter: Send + Sync {
    /// One check of one key: is it allowed?
    fn check(&self, key: &str) -> bool;

    /// How many of these checks are allowed. A limiter with batches makes them of `keys` here, and
    /// is a contender beside the one without.
    fn check_many(&self, keys: &[&str]) -> usize {
        keys.iter().filter(|key| self.check(key)).count()
    }

    /// The same when no other thread calls: who needs a lock for two threads leaves it out.
    fn check_alone(&mut self, keys: &[&str]) -> usize {
        self.check_many(keys)
    }

    /// The first check of a key, before the timing. Not a check for who cannot insert while others call.
    fn insert(&mut self, key: &str) {
        self.check(key);
    }
}
