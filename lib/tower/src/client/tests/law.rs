//! The law of `tracker.rs`: a client that obeys it is never refused, in whatever order the service receives the
//! requests and the client receives the answers, as long as an answer takes less than a second and no other client
//! uses the limits.

use tollgate::Gate;
use tollgate_kernel::{Decision, Detail, Micros, Timestamp};
use tollgate_random::Rng;

use crate::client::tracker::{KeyTracker, LimitReport, ResponseReport, SendCapacity, SendRecord};
use crate::testing::TestClock;
use crate::timer::Timer;

/// No `bucket`: its remaining units are those of its window and not those for which it has room, so a client cannot
/// comply with its report by counting.
const POLICIES: &[&str] = &[
    "10/s",
    "10/s fixed",
    "3/s gcra burst=7",
    "20/min gcra burst=5",
    "5/s sliding",
    "8/2s slots resolution=500ms",
    "5/s fixed, 20/min fixed",
    "10/s gcra burst=10, 30/min sliding",
    "1/s",
    "2/s, 7/5s, 40/min",
];

struct Network {
    clock: TestClock,
    gate: Gate,
    tracker: KeyTracker,
    rng: Rng,
    /// On their way to the service, since this time.
    going: Vec<(SendRecord, Timestamp)>,
    /// Answered, on their way back.
    coming: Vec<(SendRecord, Timestamp, ResponseReport)>,
    passed: u64,
    heard_first: bool,
    naming: ReportForm,
}

/// Which limits an answer reports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ReportForm {
    All,
    /// The tightest limit, by its name.
    Tightest,
    /// The tightest limit, as in fields without names.
    Unnamed,
}

impl Network {
    fn now(&self) -> Timestamp {
        Timer::now(&self.clock)
    }

    fn send(&mut self) {
        let now = self.now();
        // The first answer reports the limits; before it nothing is known, and the law does not apply.
        let first = self.heard_first || self.going.is_empty() && self.coming.is_empty();
        if first && self.tracker.capacity(now) == SendCapacity::Free {
            let sent = self.tracker.record_send(now);
            self.going.push((sent, now));
        }
    }

    fn arrive(&mut self) {
        if self.going.is_empty() {
            return;
        }
        let at = self.rng.index(self.going.len());
        let (sent, since) = self.going.swap_remove(at);
        let (decision, details) = self.gate.ask("key").check_full().unwrap();
        assert!(decision.allowed, "refused after {} passed, with {} in flight", self.passed, self.going.len());
        self.passed += 1;
        let heard = self.heard(&decision, &details);
        self.coming.push((sent, since, heard));
    }

    fn heard(&self, decision: &Decision, details: &[Detail]) -> ResponseReport {
        let limits = details.iter().enumerate().map(|(name, detail)| LimitReport {
            name: name as u64,
            left: detail.remaining.try_into().unwrap(),
            wait: Some(Micros::from_secs(detail.reset_after.secs_up())),
        });
        let tightest = limits.clone().min_by_key(|limit| (limit.left, std::cmp::Reverse(limit.wait)));
        let limits = match self.naming {
            ReportForm::All => limits.collect(),
            ReportForm::Tightest => tightest.into_iter().collect(),
            ReportForm::Unnamed => tightest.into_iter().map(|limit| LimitReport { name: 0, ..limit }).collect(),
        };
        ResponseReport { refused: !decision.allowed, retry_after: None, limits }
    }

    fn hear(&mut self) {
        if !self.coming.is_empty() {
            let at = self.rng.index(self.coming.len());
            let (sent, _, heard) = self.coming.swap_remove(at);
            let line = self.rng.one_in(2);
            self.tracker.record_answer(sent, &heard, line, self.now());
            self.heard_first = true;
        }
    }

    /// Loses a request on its way there or back. None is lost after a hold until something is reported: that
    /// request would have reported the limits, and a client cannot obey limits that it does not know. For the same
    /// reason none is lost if each answer names only one limit.
    fn lose(&mut self) {
        let now = self.now();
        if !self.heard_first || self.naming != ReportForm::All || self.tracker.is_opening(now) {
            return;
        }
        if self.rng.one_in(2) && !self.going.is_empty() {
            self.going.pop();
            self.tracker.record_loss();
        } else if self.coming.pop().is_some() {
            self.tracker.record_loss();
        }
    }

    /// Lets time pass, such that no request is in flight for a second.
    fn pass_time(&mut self, most: u64) {
        let under_way = self.going.iter().map(|(_, since)| since).chain(self.coming.iter().map(|(_, since, _)| since));
        let oldest = under_way.min().map_or(most, |since| 999_999 - self.now().since(*since).get());
        let span = self.rng.below(most.min(oldest) + 1);
        self.clock.advance(Micros::new(span));
    }
}

fn play(seed: u64, policy: &str, naming: ReportForm) -> u64 {
    let clock = TestClock::new();
    let gate = clock.gate(policy).unwrap();
    let (going, coming) = (Vec::new(), Vec::new());
    let rng = Rng::new(seed);
    let mut network = Network {
        clock,
        gate,
        tracker: KeyTracker::default(),
        rng,
        going,
        coming,
        passed: 0,
        heard_first: false,
        naming,
    };
    for _ in 0..5_000 {
        match network.rng.below(100) {
            0..40 => network.send(),
            40..65 => network.arrive(),
            65..90 => network.hear(),
            90..91 => network.lose(),
            91..99 => network.pass_time(200_000),
            _ => network.pass_time(5_000_000),
        }
    }
    network.passed
}

#[test]
fn who_keeps_to_what_was_said_is_never_refused() {
    for policy in POLICIES {
        for naming in [ReportForm::All, ReportForm::Tightest, ReportForm::Unnamed] {
            let mut passed = 0;
            for seed in 0..300 {
                let run = std::panic::catch_unwind(|| play(seed, policy, naming));
                passed += run.unwrap_or_else(|_| panic!("{policy}, seed {seed}, {naming:?}"));
            }
            assert!(passed > 200, "{policy}: the law is not kept by sending nothing, {passed} passed");
        }
    }
}
