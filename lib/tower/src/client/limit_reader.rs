//! What a response reports, with its waits as they are obeyed: rounded, spread and bounded.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http::header::{AGE, DATE};
use http::{HeaderMap, StatusCode};
use tollgate_kernel::Micros;

use super::tracker::{LimitReport, ResponseReport};

/// Reads the limits from responses, and spreads and bounds their waits.
#[derive(Debug)]
pub(super) struct LimitReader {
    /// The longest wait.
    pub(super) at_most: Micros,
    /// Waits are lengthened at random by up to this percentage.
    pub(super) spread: u8,
    random: RandomState,
    draws: AtomicU64,
}

impl LimitReader {
    pub(super) fn new(at_most: Micros, spread: u8) -> Self {
        Self { at_most, spread, random: RandomState::new(), draws: AtomicU64::new(0) }
    }

    /// Returns what a response reports; `None` if it came from a cache, since it may be outdated. A refusal counts
    /// in any case: caches on the way also add an age to responses that they just fetched, and waiting too long is
    /// better than sending too early.
    pub(super) fn read(&self, status: StatusCode, headers: &HeaderMap) -> Option<ResponseReport> {
        let refused = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if headers.contains_key(AGE) && !refused {
            return None;
        }
        let reported = tollgate_http::parse_upstream_limits(headers, sent_at(headers));
        // With another status this field means something else: a redirect, or a resource that is being created.
        let retry_after = reported.retry_after.filter(|_| refused).map(|wait| self.bounded(wait));
        let limits = reported.limits.iter().map(|limit| LimitReport {
            name: hash(&limit.name),
            left: limit.remaining,
            // Retry-After takes precedence over the time that an exhausted limit reports.
            wait: retry_after.filter(|_| limit.remaining == 0).or(limit.wait.map(|wait| self.bounded(wait))),
        });
        Some(ResponseReport { refused, retry_after, limits: limits.collect() })
    }

    fn bounded(&self, wait: Duration) -> Micros {
        let wait = Micros::from(wait).min(self.at_most).get();
        let part = wait / 100 * u64::from(self.spread);
        let more = if part == 0 { 0 } else { self.random() % (part + 1) };
        Micros::new(wait.saturating_add(more)).min(self.at_most)
    }

    fn random(&self) -> u64 {
        self.random.hash_one(self.draws.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns the time by the service's own clock, if reported, so that a wrong local clock does not change any wait.
fn sent_at(headers: &HeaderMap) -> SystemTime {
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    date.unwrap_or_else(SystemTime::now)
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
