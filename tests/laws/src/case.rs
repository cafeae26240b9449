//! A random case: policies that follow one another, and what happens to one key under them.
//!
//! Most numbers are tiny, so that edges meet often and waits can be checked tick by tick; the rest
//! are of a size people use, so that products pass 2^64.

use tollgate_kernel::algorithms::{ALGORITHMS, AlgorithmInfo};
use tollgate_kernel::{Alignment, Cost, Limit, Micros, Mode, Options, Policy, Request};

use tollgate_random::Rng;

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Time goes on.
    Pass(u64),
    /// The clock is set back while time stands still.
    Back(u64),
    /// Time goes on to the moment the key may be forgotten.
    Expire,
    /// A request.
    Ask(Request),
    /// Units of an earlier decision are given back: which decision, how many of its units (permille).
    Refund { which: usize, permille: u64 },
    /// The policy changes to the stage of this number.
    Change(usize),
}

/// What a law needs of its cases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CaseNeeds {
    /// Clocks are set back.
    pub(crate) back: bool,
    /// Units are given back.
    pub(crate) refunds: bool,
    /// Policies change in mid-traffic.
    pub(crate) changes: bool,
    /// Waits will be checked tick by tick.
    pub(crate) tiny: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) start: u64,
    pub(crate) stages: Vec<Policy>,
    pub(crate) ops: Vec<Op>,
}

impl Case {
    /// The case of this seed for an algorithm: its first limit is by it.
    pub(crate) fn random(listed: &AlgorithmInfo, seed: u64, needs: CaseNeeds) -> Self {
        let mut rng = Rng::new(seed);
        let tiny = needs.tiny || rng.chance(70);
        let first = limit(&mut rng, listed, tiny);
        let first = policy(&mut rng, first, tiny);
        let mut stages = vec![first];
        if needs.changes {
            for _ in 0..rng.within(1, 3) {
                stages.push(changed(&mut rng, &stages[0], tiny));
            }
        }
        let start =
            if needs.back || rng.chance(80) { 1_700_000_000_000_000 + rng.below(1 << 40) } else { rng.below(3) };
        let count = rng.within(4, 36) as usize;
        let mut ops = Vec::new();
        while ops.len() < count {
            phrase(&mut rng, &stages, needs, &mut ops);
        }
        Self { start, stages, ops }
    }

    /// Smaller cases that might fail too, the smallest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut chunk = self.ops.len() / 2;
        while chunk > 0 {
            for start in (0..self.ops.len()).step_by(chunk) {
                let mut ops = self.ops.clone();
                ops.drain(start..(start + chunk).min(ops.len()));
                cases.push(Self { ops, ..self.clone() });
            }
            chunk /= 2;
        }
        cases
    }
}

fn policy(rng: &mut Rng, first: Limit, tiny: bool) -> Policy {
    let more = rng.pick(&[0, 0, 1, 1, 2, 3]);
    let mut limits = vec![first];
    for _ in 0..more {
        let listed = &ALGORITHMS[rng.index(ALGORITHMS.len())];
        limits.push(limit(rng, listed, tiny));
        if Policy::new(limits.clone()).is_err() {
            limits.pop();
        }
    }
    if rng.chance(50) {
        limits.reverse();
    }
    built(limits).with_mode(rng.pick(&Mode::ALL))
}

/// A stage after `before`: counts changed, limits added, removed and reordered.
fn changed(rng: &mut Rng, before: &Policy, tiny: bool) -> Policy {
    let mut limits: Vec<Limit> = Vec::new();
    for limit in before.limits() {
        if before.limits().len() > 1 && rng.chance(20) {
            continue;
        }
        limits.push(recounted(rng, limit));
    }
    if rng.chance(60) {
        let listed = &ALGORITHMS[rng.index(ALGORITHMS.len())];
        limits.push(limit(rng, listed, tiny));
        if Policy::new(limits.clone()).is_err() {
            limits.pop();
        }
    }
    if limits.is_empty() {
        limits.push(Limit::clone(&before.limits()[0]));
    }
    if rng.chance(30) {
        limits.reverse();
    }
    match Policy::new(limits) {
        Ok(policy) => policy.with_mode(before.mode()),
        Err(_) => before.clone(),
    }
}

/// The same limit with another count, and so another burst.
fn recounted(rng: &mut Rng, limit: &Limit) -> Limit {
    let (count, period, mut options) = limit.rule().numbers();
    let count = if rng.chance(60) { (count * rng.within(1, 6) / 3).max(1) } else { count };
    if let Some(burst) = options.burst {
        options.burst = Some(if limit.rule().name() == "bucket" { burst.min(count) } else { burst });
    }
    let rebuilt = Limit::build(limit.rule().name(), count, period, &options);
    let rebuilt = rebuilt.and_then(|new| new.spaced(limit.spacing().unwrap_or_default()));
    let rebuilt = match limit.given_name() {
        Some(name) => rebuilt.and_then(|new| new.named(name)),
        None => rebuilt,
    };
    rebuilt.unwrap_or_else(|_| limit.clone())
}

/// A random limit by an algorithm, from the options the registry says it takes.
fn limit(rng: &mut Rng, listed: &AlgorithmInfo, tiny: bool) -> Limit {
    loop {
        let (count, period) = if tiny {
            (rng.within(1, 9), rng.within(1, 90))
        } else {
            let unit = rng.pick(&[1_000, 1_000_000, 60_000_000, 3_600_000_000]);
            (rng.pick(&[1, 3, 7, 10, 100, 999, 65_537, 1_000_000]), unit * rng.within(1, 5))
        };
        let takes = listed.takes;
        let part = |rng: &mut Rng| Micros::new(rng.within(1, period.min(20 * count.max(period / 50 + 1))));
        let options = Options {
            burst: (takes.burst && rng.chance(80)).then(|| rng.within(1, count + 3)),
            grain: (takes.grain && rng.chance(30)).then(|| part(rng)),
            resolution: takes.resolution.then(|| if rng.chance(25) { Micros::new(period) } else { part(rng) }),
            factor: takes.factor.then(|| rng.pick(&[2.0, 1.5, 3.0, 1.1, 10.0])),
            align: (takes.align && rng.chance(50)).then_some(Alignment::Clock),
            buckets: takes.buckets.then(|| rng.pick(&[1, 2, 3, 7, 10, 100])),
            level: None,
        };
        let limit = Limit::build(listed.name, count, Micros::new(period), &options);
        let spaced = |limit: Limit, rng: &mut Rng| {
            // A bucket can lose room while a spacing has one wait, so the two meet often.
            let often = if listed.name == "bucket" { 50 } else { 15 };
            if rng.chance(often) { limit.spaced(Micros::new(rng.within(1, period / 2 + 1))) } else { Ok(limit) }
        };
        let limit = limit.and_then(|limit| spaced(limit, rng));
        let limit =
            if rng.chance(10) { limit.and_then(|limit| limit.named(rng.pick(&["a", "b", "c"]))) } else { limit };
        if let Ok(limit) = limit {
            return limit;
        }
    }
}

/// One limit always makes a policy.
fn built(limits: Vec<Limit>) -> Policy {
    match Policy::new(limits) {
        Ok(policy) => policy,
        Err(error) => unreachable!("{error}"),
    }
}

/// One thing that happens, or a few that belong together.
fn phrase(rng: &mut Rng, stages: &[Policy], needs: CaseNeeds, ops: &mut Vec<Op>) {
    match rng.below(20) {
        // Use all there is, so that what comes next meets a full limit.
        0 => ops.extend((0..rng.within(2, 8)).map(|_| Op::Ask(Request::ONE))),
        // Give back an old charge to a limit that is full again, and try to use it.
        1 if needs.refunds => {
            ops.push(op(rng, stages, needs));
            ops.extend((0..4).map(|_| Op::Ask(Request::ONE)));
            ops.push(Op::Refund { which: rng.next_u64() as usize, permille: 1_000 });
            ops.extend((0..3).map(|_| Op::Ask(Request::ONE)));
        }
        // The clock is set back while callers poll.
        2 if needs.back => {
            let period = stages[0].limits()[0].period().get();
            ops.extend((0..3).map(|_| Op::Ask(Request::ONE)));
            ops.push(Op::Back(rng.pick(&[period / 3, 2 * period, 3_600_000_000])));
            ops.extend((0..8).flat_map(|_| [Op::Ask(Request::ONE), Op::Pass(period / 3 + 1)]));
        }
        _ => ops.push(op(rng, stages, needs)),
    }
}

fn op(rng: &mut Rng, stages: &[Policy], needs: CaseNeeds) -> Op {
    let policy = &stages[rng.index(stages.len())];
    let limit = &policy.limits()[rng.index(policy.limits().len())];
    let (count, period) = (limit.count().max(1), limit.period().get());
    match rng.below(100) {
        0..52 => Op::Ask(ask(rng, count)),
        52..58 if needs.refunds => {
            Op::Refund { which: rng.next_u64() as usize, permille: rng.pick(&[1_000, 1_000, 500, 1]) }
        }
        58..63 if needs.changes => Op::Change(rng.index(stages.len())),
        63..67 if needs.back => {
            Op::Back(rng.pick(&[1, period / 2, period, period + 1, 2 * period + 3, 5 * period, 3_600_000_000]))
        }
        67..69 => Op::Expire,
        _ => {
            let (_, _, options) = limit.rule().numbers();
            let cell = options.resolution.or(options.grain).map_or(1, Micros::get);
            let random = rng.below(2 * period + 1);
            let spacing = limit.spacing().map_or(1, Micros::get);
            let some =
                [0, 1, period - 1, period, period + 1, period / count, period / 2, cell, random, random, spacing];
            Op::Pass(if rng.chance(4) { 10 * period } else { rng.pick(&some) })
        }
    }
}

fn ask(rng: &mut Rng, count: u64) -> Request {
    let cost = match rng.below(10) {
        0 => 0,
        1..6 => 1,
        6..9 => rng.within(1, count),
        _ => rng.within(count, count + 2),
    };
    let request = Request::cost(Cost::new(cost).unwrap_or(Cost::ONE));
    if rng.chance(8) { request.peek() } else { request }
}
