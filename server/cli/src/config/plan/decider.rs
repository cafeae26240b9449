//! Both sides of every change decide each request of a share of the keys, and the differences are counted. Reading, the
//! virtual clock, the keys and the threads are those of `tollgate replay`.

use std::borrow::Cow;
use std::collections::HashMap;

use tollgate_kernel::{Cost, KeyState, Request, Timestamp};

use super::policy_pair::PolicyPair;
use super::policy_side::{KeyRule, PolicySide};
use crate::error::CliError;
use crate::replay::{BatchDecider, ReplayItem, ReplayKeys, RequestBatch, Totals};
use crate::text::KEY_SEPARATOR;

/// The number of requests for each of which one case is checked, to drop state that has expired.
const REQUESTS_PER_CASE: usize = 8;

/// A share of the keys under all pairs.
pub(super) struct PlanDecider<'a> {
    pairs: &'a [PolicyPair],
    /// The pair of each policy name, if lines name policies; otherwise every pair decides every request.
    named: Option<&'a HashMap<&'a str, usize>>,
    top: usize,
    keys: ReplayKeys,
    /// Indexed by key number, then pair; one for each key if lines name policies.
    cases: Vec<Option<Box<KeyCase>>>,
    next: usize,
    totals: Totals,
    counts: Vec<FlipCounts>,
}

/// A key under a pair.
struct KeyCase {
    before: SideState,
    after: SideState,
    counts: FlipCounts,
}

/// The state of a key on one side of a pair.
struct SideState {
    rule: KeyRule,
    state: KeyState,
}

/// The counts of decisions, of one key or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlipCounts {
    pub(super) requests: u64,
    pub(super) refused_before: u64,
    pub(super) refused_after: u64,
    pub(super) newly_refused: u64,
    pub(super) newly_allowed: u64,
}

impl FlipCounts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.refused_before += other.refused_before;
        self.refused_after += other.refused_after;
        self.newly_refused += other.newly_refused;
        self.newly_allowed += other.newly_allowed;
    }

    fn flips(&self) -> u64 {
        self.newly_refused + self.newly_allowed
    }
}

/// The result of a pair.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PairResult {
    pub(super) counts: FlipCounts,
    /// The keys that made requests, and those of them with a different decision.
    pub(super) keys: u64,
    pub(super) keys_changed: u64,
    /// The keys with the most decisions that differ, new refusals first.
    pub(super) hardest: Vec<(Vec<u8>, FlipCounts)>,
}

/// The result of a decider: the totals of the requests, and the result of each pair.
pub(super) struct PlanResult {
    pub(super) totals: Totals,
    pub(super) pairs: Vec<PairResult>,
}

impl<'a> PlanDecider<'a> {
    pub(super) fn new(pairs: &'a [PolicyPair], named: Option<&'a HashMap<&'a str, usize>>, top: usize) -> Self {
        Self {
            pairs,
            named,
            top,
            keys: ReplayKeys::default(),
            cases: Vec::new(),
            next: 0,
            totals: Totals::default(),
            counts: vec![FlipCounts::default(); pairs.len()],
        }
    }

    fn width(&self) -> usize {
        if self.named.is_some() { 1 } else { self.pairs.len() }
    }

    fn item(&mut self, whole: &[u8], item: &ReplayItem) {
        let number = self.keys.count(item.hash, whole) as usize;
        self.totals.requests += 1;
        self.totals.peeks += u64::from(item.cost == 0);
        self.totals.units += u128::from(item.cost);
        let width = self.width();
        if self.cases.len() < (number + 1) * width {
            self.cases.resize_with((number + 1) * width, || None);
        }
        let Some(named) = self.named else {
            (0..width).for_each(|place| self.decide(number * width + place, place, whole, item));
            return;
        };
        let (name, key) = split_name(whole);
        if let Some(&place) = std::str::from_utf8(name).ok().and_then(|name| named.get(name)) {
            self.decide(number, place, key, item);
        }
    }

    fn decide(&mut self, case: usize, place: usize, key: &[u8], item: &ReplayItem) {
        let (pair, now) = (&self.pairs[place], Timestamp::saturating(item.at));
        let case = self.cases[case].get_or_insert_with(|| Box::new(KeyCase::new(pair, key)));
        // The formats refuse costs from 2^53 on.
        let request = Request::cost(Cost::new(item.cost).unwrap_or(Cost::ONE));
        let before = case.before.passes(pair.before.as_ref(), now, &request);
        let after = case.after.passes(pair.after.as_ref(), now, &request);
        let one = FlipCounts {
            requests: 1,
            refused_before: u64::from(!before),
            refused_after: u64::from(!after),
            newly_refused: u64::from(before && !after),
            newly_allowed: u64::from(!before && after),
        };
        case.counts.add(one);
        self.counts[place].add(one);
    }

    /// Drops some states that have expired: an expired state decides as no state does.
    fn sweep(&mut self, now: Timestamp, requests: usize) {
        for _ in 0..requests.div_ceil(REQUESTS_PER_CASE).min(self.cases.len()) {
            self.next = (self.next + 1) % self.cases.len();
            let Some(case) = &mut self.cases[self.next] else { continue };
            for side_state in [&mut case.before, &mut case.after] {
                if side_state.state.heap_bytes() > 0 && side_state.state.expires_after(now).get() == 0 {
                    side_state.state = KeyState::default();
                }
            }
        }
    }
}

impl KeyCase {
    fn new(pair: &PolicyPair, key: &[u8]) -> Self {
        let key = as_configured(key);
        let side_state = |side: Option<&PolicySide>| SideState {
            rule: side.map_or(KeyRule::Allowed, |side| side.rule(&key)),
            state: KeyState::default(),
        };
        Self {
            before: side_state(pair.before.as_ref()),
            after: side_state(pair.after.as_ref()),
            counts: FlipCounts::default(),
        }
    }
}

impl SideState {
    fn passes(&mut self, side: Option<&PolicySide>, now: Timestamp, request: &Request) -> bool {
        side.is_none_or(|side| side.allows(&self.rule, &mut self.state, now, request))
    }
}

impl BatchDecider for PlanDecider<'_> {
    type Output = PlanResult;

    fn batch(&mut self, batch: &RequestBatch) -> Result<(), CliError> {
        for item in &batch.items {
            self.item(batch.key(item), item);
        }
        if let Some(last) = batch.items.last() {
            self.sweep(Timestamp::saturating(last.at), batch.items.len());
        }
        Ok(())
    }

    fn finish(self) -> Result<PlanResult, CliError> {
        let width = self.width();
        let mut results: Vec<_> =
            self.counts.iter().map(|&counts| PairResult { counts, ..PairResult::default() }).collect();
        for (number, case) in self.cases.iter().enumerate() {
            let Some(case) = case else { continue };
            let whole = self.keys.bytes((number / width) as u32);
            let (place, key) = match self.named {
                None => (number % width, whole),
                Some(named) => {
                    let (name, key) = split_name(whole);
                    let place = std::str::from_utf8(name).ok().and_then(|name| named.get(name));
                    (place.copied().unwrap_or_default(), key)
                }
            };
            let result = &mut results[place];
            result.keys += 1;
            if case.counts.flips() > 0 {
                result.keys_changed += 1;
                result.hardest.push((key.to_vec(), case.counts));
                // Only the first are kept, even of very many.
                if result.hardest.len() >= 4_096 + 2 * self.top {
                    result.cut(self.top);
                }
            }
        }
        results.iter_mut().for_each(|result| result.cut(self.top));
        Ok(PlanResult { totals: Totals { keys: self.keys.len() as u64, ..self.totals }, pairs: results })
    }
}

impl PairResult {
    fn cut(&mut self, top: usize) {
        self.hardest.sort_by(|(one_key, one), (other_key, other)| {
            let by = |counts: &FlipCounts| (counts.newly_refused, counts.newly_allowed);
            by(other).cmp(&by(one)).then_with(|| one_key.cmp(other_key))
        });
        self.hardest.truncate(top);
    }
}

impl PlanResult {
    /// Combines the results of deciders of different keys.
    pub(super) fn join(mut self, other: Self, top: usize) -> Self {
        self.totals.requests += other.totals.requests;
        self.totals.peeks += other.totals.peeks;
        self.totals.units += other.totals.units;
        self.totals.keys += other.totals.keys;
        for (own, more) in self.pairs.iter_mut().zip(other.pairs) {
            own.counts.add(more.counts);
            own.keys += more.keys;
            own.keys_changed += more.keys_changed;
            own.hardest.extend(more.hardest);
            own.cut(top);
        }
        self
    }
}

/// Splits off the name of the policy, where lines name policies.
fn split_name(whole: &[u8]) -> (&[u8], &[u8]) {
    let end = whole.iter().position(|&byte| byte == KEY_SEPARATOR).unwrap_or(whole.len());
    (&whole[..end], whole.get(end + 1..).unwrap_or_default())
}

/// Returns the key as lists and overrides see it: several fields are the parts of a key.
fn as_configured(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.contains(&KEY_SEPARATOR) {
        return Cow::Borrowed(key);
    }
    let parts: Vec<_> = key.split(|&byte| byte == KEY_SEPARATOR).collect();
    Cow::Owned(tollgate_config::join(&parts))
}
