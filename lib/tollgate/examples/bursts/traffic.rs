//! The traffic, the policies, and what comes of them.

use tollgate::{Error, Gate, ManualClock, Policy, Timestamp};
use tollgate_kernel::algorithms::ALGORITHMS;

pub(crate) const SECONDS: u64 = 150;
pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// The seconds in which everything comes at once.
pub(crate) const BURSTS: [u64; 2] = [58, 61];
pub(crate) const BURST: usize = 100;
pub(crate) const WORDS: &str = "one request every 4 s; 100 at 58 s; 100 at 61 s; then 2 a second";

/// The moments of all requests in microseconds: what [`WORDS`] says. The clock begins at a full
/// minute, where the windows of a clock begin too.
pub(crate) fn offered() -> Vec<u64> {
    let mut moments = Vec::new();
    for second in 0..SECONDS {
        let start = second * SECOND;
        if BURSTS.contains(&second) {
            moments.extend([start; BURST]);
        } else if second > BURSTS[1] {
            moments.extend([start, start + SECOND / 2]);
        } else if second.is_multiple_of(4) {
            moments.push(start);
        }
    }
    moments
}

/// 60 a minute by every algorithm that policy text can name, with the options it needs.
pub(crate) fn policies() -> Vec<String> {
    let text = |name: &str, takes: tollgate_kernel::AlgorithmOptions| match name {
        // The default algorithm is not written.
        "sliding" => "60/min".to_owned(),
        // The period is that of a step: a sixth of 60 goes in each 10 s, which is 60 a minute in the long run.
        _ if takes.factor => format!("60/10s {name} factor=1.2"),
        _ if takes.resolution => format!("60/min {name} resolution=10s"),
        _ if takes.burst => format!("60/min {name} burst=20"),
        _ => format!("60/min {name}"),
    };
    ALGORITHMS.iter().filter(|listed| listed.takes.in_text).map(|listed| text(listed.name, listed.takes)).collect()
}

/// What a policy admits of the traffic.
pub(crate) struct Run {
    pub(crate) policy: Policy,
    /// The moments of the requests that were allowed.
    admitted: Vec<u64>,
}

impl Run {
    pub(crate) fn of(text: &str) -> Result<Self, Error> {
        let clock = ManualClock::default();
        let gate = Gate::builder().policy(text).clock(clock.clone()).build()?;
        let mut admitted = Vec::new();
        for moment in offered() {
            clock.set(Timestamp::saturating(moment));
            if gate.check("client")?.allowed {
                admitted.push(moment);
            }
        }
        Ok(Self { policy: gate.current().clone(), admitted })
    }

    pub(crate) fn total(&self) -> usize {
        self.admitted.len()
    }

    pub(crate) fn in_second(&self, second: u64) -> usize {
        count(&self.admitted, second, 1)
    }

    /// The requests admitted in each `seconds`, from the beginning on.
    pub(crate) fn every(&self, seconds: u64) -> Vec<usize> {
        every(&self.admitted, seconds)
    }

    /// Requests admitted in the fullest minute, wherever it begins.
    pub(crate) fn in_fullest_minute(&self) -> u64 {
        let from = |first: usize| {
            let end = self.admitted[first] + MINUTE;
            self.admitted[first..].iter().take_while(|moment| **moment < end).count()
        };
        (0..self.admitted.len()).map(from).max().unwrap_or(0) as u64
    }
}

/// The moments in each `seconds`, from the beginning on.
pub(crate) fn every(moments: &[u64], seconds: u64) -> Vec<usize> {
    (0..SECONDS / seconds).map(|index| count(moments, index * seconds, seconds)).collect()
}

fn count(moments: &[u64], second: u64, seconds: u64) -> usize {
    let span = second * SECOND..(second + seconds) * SECOND;
    moments.iter().filter(|moment| span.contains(moment)).count()
}
