//! The counts of a replay, for each policy: by the key's number while it runs, and by name at the end, so that the
//! counts of several deciders can be combined.

use tollgate_kernel::{Decision, Micros, Policy, Wait};

use super::keys::ReplayKeys;

/// The counts of one policy that do not name a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TallyCounts {
    /// Requests that passed, in whole or in part.
    pub(crate) allowed: u64,
    /// Of these, the ones that were granted less than they asked for (nary).
    pub(crate) partial: u64,
    /// Requests that did not pass.
    pub(crate) refused: u64,
    /// Units granted.
    pub(crate) granted: u128,
    /// Refused requests by the first limit that refused, in policy order.
    pub(crate) by_limit: Vec<u64>,
    /// Keys refused at least once.
    pub(crate) keys_refused: u64,
}

/// The counts of one policy.
pub(crate) struct ReplayTally {
    counts: TallyCounts,
    /// By the key's number, up to the last key that was refused.
    refusals: Vec<Refusals>,
}

/// The refusals of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// The number of refusals.
    pub(crate) count: u64,
    /// The time of the first refusal.
    pub(crate) first: u64,
    longest: u64,
    never: bool,
}

impl Refusals {
    /// Returns the longest wait that the key was given.
    pub(crate) fn longest(&self) -> Wait {
        if self.never { Wait::Never } else { Wait::After(Micros::new(self.longest)) }
    }
}

impl ReplayTally {
    /// Returns a tally with all counts at zero.
    pub(crate) fn new(policy: &Policy) -> Self {
        let by_limit = vec![0; policy.limits().len()];
        Self { counts: TallyCounts { by_limit, ..TallyCounts::default() }, refusals: Vec::new() }
    }

    /// Counts a decision on `key`, which asked for `cost`.
    #[inline]
    pub(crate) fn add(&mut self, key: u32, cost: u64, decision: &Decision) {
        self.counts.granted += u128::from(decision.granted);
        if decision.allowed {
            self.counts.allowed += 1;
            self.counts.partial += u64::from(decision.granted < cost);
        } else {
            self.refuse(key, decision);
        }
    }

    fn refuse(&mut self, key: u32, decision: &Decision) {
        self.counts.refused += 1;
        if let Some(count) = decision.limited_by.and_then(|limit| self.counts.by_limit.get_mut(limit)) {
            *count += 1;
        }
        let key = key as usize;
        if key >= self.refusals.len() {
            self.refusals.resize(key + 1, Refusals::default());
        }
        let own = &mut self.refusals[key];
        if own.count == 0 {
            own.first = decision.at.get();
            self.counts.keys_refused += 1;
        }
        own.count += 1;
        match decision.retry_after {
            Wait::After(span) => own.longest = own.longest.max(span.get()),
            Wait::Never => own.never = true,
        }
    }

    /// Returns the result, with the `top` keys hit hardest.
    pub(crate) fn finish(self, keys: &ReplayKeys, top: usize) -> PolicyResult {
        let longest = self.refusals.iter().map(Refusals::longest).max().unwrap_or(Wait::NONE);
        let mut refused: Vec<u32> =
            (0..).zip(&self.refusals).filter(|(_, own)| own.count > 0).map(|(key, _)| key).collect();
        let count = |key: u32| self.refusals[key as usize].count;
        refused.sort_unstable_by(|&one, &other| {
            count(other).cmp(&count(one)).then_with(|| keys.bytes(one).cmp(keys.bytes(other)))
        });
        refused.truncate(top);
        let hit = |key: u32| RefusedKey {
            key: keys.bytes(key).to_vec(),
            requests: keys.requests(key),
            refusals: self.refusals[key as usize],
        };
        PolicyResult { longest, hardest: refused.into_iter().map(hit).collect(), counts: self.counts }
    }
}

/// The result of one policy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PolicyResult {
    /// The counts.
    pub(crate) counts: TallyCounts,
    /// The longest wait that any key was given.
    pub(crate) longest: Wait,
    /// The keys with the most refusals; of equals, the key that sorts first.
    pub(crate) hardest: Vec<RefusedKey>,
}

/// A key that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedKey {
    /// Its bytes.
    pub(crate) key: Vec<u8>,
    /// All its requests.
    pub(crate) requests: u64,
    /// Its refusals.
    pub(crate) refusals: Refusals,
}

impl PolicyResult {
    /// Adds the result of another decider for the same policy and other keys.
    pub(crate) fn join(&mut self, other: Self, top: usize) {
        let (own, more) = (&mut self.counts, other.counts);
        own.allowed += more.allowed;
        own.partial += more.partial;
        own.refused += more.refused;
        own.granted += more.granted;
        own.keys_refused += more.keys_refused;
        for (own, more) in own.by_limit.iter_mut().zip(more.by_limit) {
            *own += more;
        }
        self.longest = self.longest.max(other.longest);
        self.hardest.extend(other.hardest);
        self.hardest
            .sort_by(|one, other| other.refusals.count.cmp(&one.refusals.count).then_with(|| one.key.cmp(&other.key)));
        self.hardest.truncate(top);
    }
}
