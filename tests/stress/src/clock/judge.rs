//! What a story admitted against what it may, by true time.

use tollgate_kernel::Micros;

use super::play::{PolicyHistory, Refusal};
use super::story::Story;
use crate::Report;

/// Clocks are set to whole seconds, units share grains of one, and asking takes its time.
const SLACK: i64 = 1_500_000;

pub(super) fn judge(report: &mut Report, how: &str, story: &Story, lives: &[PolicyHistory], control: &[PolicyHistory]) {
    let (mut extra, mut longest) = (0, 0);
    for (life, control) in lives.iter().zip(control) {
        let name = format!("{how}, {}, {}", story.name, life.policy);
        extra = extra.max(judge_admitted(report, &name, story, life));
        longest = longest.max(judge_waits(report, &name, story, life, control));
        report.demand(!life.immortal, || format!("{how}, {}: a key without TTL", story.name));
        if let Some(broken) = life.broken_waits.first() {
            report.violated(format!("{name}: {broken}, {} times", life.broken_waits.len()));
        }
    }
    let admitted: usize = lives.iter().map(|life| life.admitted.len()).sum();
    report.say(format!(
        "5/{}s, {}: {}; {} policies, {admitted} admitted, at most {extra} beyond the promise in any interval, \
         at most {:.1} s added to a wait by a jump",
        story.period,
        how,
        story.name,
        lives.len(),
        longest as f64 / 1e6,
    ));
}

/// No interval of true time may hold more than promised and one burst for each jump forward. Answers the
/// most that one held beyond the promise.
fn judge_admitted(report: &mut Report, name: &str, story: &Story, life: &PolicyHistory) -> i64 {
    let Some(limit) = life.policy.limits().first() else { return 0 };
    let most_in = |span: u64| limit.rule().most_in(Micros::new(span)) as i64;
    let burst = most_in(1);
    let mut worst = 0;
    for (index, first) in life.admitted.iter().enumerate() {
        for (more, last) in life.admitted.iter().skip(index).enumerate() {
            let span = last.abs_diff(*first) + 1;
            worst = worst.max(more as i64 + 1 - most_in(span));
        }
    }
    let may = burst * story.jumps_forward() as i64;
    report.demand(worst <= may, || format!("{name}: {worst} admitted beyond the promise, at most {may} by its jumps"));
    worst
}

/// No jump may add more than one window or refill to a wait, no refusal may tell more than that beyond the
/// longest wait without jumps, and no key may be shut longer than its jumps may add. Answers the most that a
/// jump added.
fn judge_waits(report: &mut Report, name: &str, story: &Story, life: &PolicyHistory, control: &PolicyHistory) -> i64 {
    let wait = |refused: &Refusal| refused.wait.unwrap_or(i64::MAX);
    let window = story.period * 1_000_000;
    let refill = control.refused.iter().map(|refused| refused.reset).max().unwrap_or(0).max(window);
    let mut added = 0;
    // If nothing was admitted in between, it is the same wait, which by true time goes on.
    let same = |pair: &&[Refusal]| pair[0].jumps < pair[1].jumps && pair[0].admitted == pair[1].admitted;
    for pair in life.refused.windows(2).filter(same) {
        let left = pair[0].at.saturating_add(wait(&pair[0]));
        added = added.max(pair[1].at.saturating_add(wait(&pair[1])) - left);
    }
    report.demand(added <= refill, || format!("{name}: a jump added {added} us to a wait"));
    let normal = control.refused.iter().map(wait).max().unwrap_or(0).max(window);
    let told = life.refused.iter().map(wait).max().unwrap_or(0);
    report
        .demand(told <= normal + refill + SLACK, || format!("{name}: told to wait {told} us, {normal} without jumps"));
    let (gap, normal) = (longest_gap(life), longest_gap(control).max(window));
    report.demand(gap <= normal + story.may_add(refill) + SLACK, || {
        format!("{name}: nothing admitted for {gap} us, {normal} without jumps")
    });
    added
}

/// The longest true time without an admission, up to the last refusal.
fn longest_gap(life: &PolicyHistory) -> i64 {
    let end = life.refused.last().map(|refused| refused.at);
    let times: Vec<i64> = life.admitted.iter().copied().chain(end).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}
