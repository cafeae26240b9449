//! governor, keyed, on a DashMap: as most call it, and as fast as it gets.

use std::num::NonZeroU32;
use std::time::Duration;

use foldhash::fast::RandomState;
use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, DefaultKeyedStateStore};
use governor::{Quota, RateLimiter};

use super::{Contender, Limiter};
use crate::keys::{LENGTH, inline};
use crate::workload::Limit;

pub(crate) const STR: Contender = Contender {
    name: "governor-str",
    package: Some("governor"),
    what: "governor on DashMap, String keys; called with &str, so a String is built each time",
    most_keys: u64::MAX,
    slow: 1,
    build: |limit, _| Box::new(Str(RateLimiter::dashmap(quota(limit)))),
};

pub(crate) const INLINE: Contender = Contender {
    name: "governor-inline",
    package: Some("governor"),
    what: "governor on DashMap, [u8; 16] keys, foldhash",
    most_keys: u64::MAX,
    slow: 1,
    build: |limit, _| {
        let store = DashMapStateStore::with_hasher(RandomState::default());
        Box::new(Inline(RateLimiter::new(quota(limit), store, DefaultClock::default())))
    },
};

struct Str(RateLimiter<String, DefaultKeyedStateStore<String>, DefaultClock>);

impl Limiter for Str {
    #[inline]
    fn check(&self, key: &str) -> bool {
        // It looks up by `&String` only.
        self.0.check_key(&key.to_owned()).is_ok()
    }
}

type Key = [u8; LENGTH];

struct Inline(RateLimiter<Key, DashMapStateStore<Key, RandomState>, DefaultClock>);

impl Limiter for Inline {
    #[inline]
    fn check(&self, key: &str) -> bool {
        self.0.check_key(inline(key)).is_ok()
    }
}

fn quota(limit: Limit) -> Quota {
    let count = NonZeroU32::new(limit.count).expect("limits here allow something");
    let interval = Duration::from_secs(limit.seconds.into()) / limit.count;
    Quota::with_period(interval).expect("an interval of a nanosecond or more").allow_burst(count)
}
