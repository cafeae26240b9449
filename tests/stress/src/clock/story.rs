//! Stories: courses of whole seconds with jumps in them, and the policies that live through them.

use tollgate_kernel::Policy;

use crate::Failure;
use tollgate_random::Rng;

/// An hour, in seconds.
const HOUR: i64 = 3_600;

/// Every algorithm, and windows that follow the clock.
const LIMITS: [&str; 10] = [
    "fixed",
    "fixed align=clock",
    "sliding",
    "sliding grain=1s",
    "slots resolution=1s",
    "gcra",
    "gcra burst=2",
    "bucket burst=2",
    "estimate",
    "decay factor=2",
];

/// What happens, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Every policy is asked until it refuses.
    Ask,
    /// So many seconds pass.
    Pass(i64),
    /// The clock is set so many seconds ahead, or back.
    Jump(i64),
}

pub(super) struct Story {
    pub(super) name: String,
    /// Of the limits, in seconds.
    pub(super) period: i64,
    pub(super) acts: Vec<Act>,
}

impl Story {
    /// The policies, each with a key of its own.
    pub(super) fn policies(&self) -> Result<Vec<Policy>, Failure> {
        LIMITS.iter().map(|limit| Ok(format!("5/{}s {limit}", self.period).parse()?)).collect()
    }

    /// How often the clock is set forward.
    pub(super) fn jumps_forward(&self) -> u64 {
        self.acts.iter().filter(|act| matches!(act, Act::Jump(by) if *by > 0)).count() as u64
    }

    /// What its jumps back may add to a wait, in microseconds: each its own length, at most `refill`.
    pub(super) fn may_add(&self, refill: i64) -> i64 {
        let back = |act: &Act| if let Act::Jump(by) = act { (-by * 1_000_000).clamp(0, refill) } else { 0 };
        self.acts.iter().map(back).sum()
    }
}

/// No jump at all.
pub(super) fn control(period: i64) -> Story {
    story("no jump", period, &[])
}

/// All stories with jumps.
pub(super) fn all(period: i64, jumps: u64, seed: u64) -> Vec<Story> {
    let mut stories = vec![
        story("an hour back", period, &[-HOUR]),
        story("an hour forward", period, &[HOUR]),
        story("an hour back and forward again", period, &[-HOUR, HOUR]),
        story("an hour forward and back again", period, &[HOUR, -HOUR]),
        story("a second back", period, &[-1]),
        story("half a window back", period, &[-period / 2]),
        story("a window back", period, &[-period]),
        story("an hour back, twice", period, &[-HOUR, -HOUR]),
    ];
    stories.push(walk(period, jumps, seed));
    stories
}

/// All is used up; a quarter of a window later come the jumps, half a window apart; then three windows pass
/// in small steps.
fn story(name: &str, period: i64, jumps: &[i64]) -> Story {
    let mut acts = vec![Act::Ask, Act::Pass(period / 4), Act::Ask];
    for jump in jumps {
        acts.extend([Act::Jump(*jump), Act::Ask]);
        steps(&mut acts, period, 5);
    }
    // Without a jump as long as with one.
    steps(&mut acts, period, if jumps.is_empty() { 35 } else { 30 });
    Story { name: name.to_owned(), period, acts }
}

/// Tenths of a window.
fn steps(acts: &mut Vec<Act>, period: i64, count: usize) {
    (0..count).for_each(|_| acts.extend([Act::Pass(period / 10), Act::Ask]));
}

/// Jumps of up to five seconds either way, a little time between them.
fn walk(period: i64, jumps: u64, seed: u64) -> Story {
    let mut rng = Rng::of_part(seed, period as u64);
    let mut acts = vec![Act::Ask];
    for _ in 0..jumps {
        let by = rng.below(11) as i64 - 5;
        acts.extend([Act::Pass(rng.below(3) as i64), Act::Jump(by), Act::Ask]);
    }
    steps(&mut acts, period, 30);
    Story { name: format!("{jumps} jumps of up to 5 s"), period, acts }
}
