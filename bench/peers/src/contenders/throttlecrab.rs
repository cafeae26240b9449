//! throttlecrab as a library, with its periodic store.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contender, Limiter};
use crate::workload::Limit;

pub(crate) const PERIODIC: Contender = Contender {
    name: "throttlecrab",
    package: Some("throttlecrab"),
    what: "throttlecrab with its periodic store; for two threads in a Mutex",
    most_keys: u64::MAX,
    slow: 1,
    build: |limit, _| {
        // Its sweep of all keys comes every minute by default; it would hit one measurement in many.
        let store = PeriodicStore::builder().cleanup_interval(Duration::from_secs(3_600)).build();
        Box::new(Periodic { limiter: Mutex::new(RateLimiter::new(store)), limit })
    },
};

struct Periodic {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    limit: Limit,
}

impl Limiter for Periodic {
    #[inline]
    fn check(&self, key: &str) -> bool {
        ask(&mut self.limiter.lock().expect("no thread panics in it"), key, self.limit)
    }

    fn check_alone(&mut self, keys: &[&str]) -> usize {
        let limiter = self.limiter.get_mut().expect("no thread panics in it");
        keys.iter().filter(|key| ask(limiter, key, self.limit)).count()
    }

    fn insert(&mut self, key: &str) {
        ask(self.limiter.get_mut().expect("no thread panics in it"), key, self.limit);
    }
}

#[inline]
fn ask(limiter: &mut RateLimiter<PeriodicStore>, key: &str, limit: Limit) -> bool {
    let (count, seconds) = (limit.count.into(), limit.seconds.into());
    limiter.rate_limit(key, count, count, seconds, 1, SystemTime::now()).expect("the limit is valid").0
}
