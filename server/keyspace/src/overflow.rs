//! The shared states: at the cap, the limiters of new keys share 1,024 states for each dialect, so that these keys are
//! limited together instead of all being allowed or all being refused. Callers cannot predict which state a key shares.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

use tollgate_dialects::{Action, ApiCounterUsage, DIALECTS, DialectOutcome};
use tollgate_kernel::{Cell, KeyState, Timestamp};

use super::entry::state_bytes;
use crate::call::DialectCall;
use crate::fault::{Fault, FaultCode};

/// The number of states that a dialect's keys share, if there is memory for that many.
const BUCKETS: u64 = 1_024;
/// The estimated bytes of one state.
const BUCKET_BYTES: usize = 1 << 10;
/// The number of states that are examined to make room.
const SWEPT: usize = 64;

/// The shared states.
#[derive(Debug)]
pub(super) struct SharedLimiters {
    states: BTreeMap<SharedLimiterId, SharedLimiter>,
    /// The state at which the next search for expired states begins.
    looked: SharedLimiterId,
    buckets: u64,
    bytes: usize,
    cap: usize,
    uses: u64,
    /// The prefix of every key that is hashed. It persists across restarts, so that keys share the same states.
    secret: [u64; 2],
}

/// A state that keys share.
#[derive(Debug)]
pub(super) struct SharedLimiter {
    pub(super) state: KeyState,
    pub(super) usage: ApiCounterUsage,
    /// The last microsecond at which it is needed.
    pub(super) until: Timestamp,
    bytes: usize,
}

/// The identity of a shared state: the dialect, and its number.
pub(crate) type SharedLimiterId = (&'static str, u64);

impl SharedLimiter {
    pub(super) fn new(state: KeyState, usage: ApiCounterUsage, until: Timestamp) -> Self {
        Self { state, usage, until, bytes: 0 }
    }

    /// Returns the bytes it takes.
    fn takes(&self) -> usize {
        state_bytes(&self.state) + 2 * size_of::<(SharedLimiterId, Self)>()
    }
}

impl SharedLimiters {
    /// Returns an empty set of states with a memory cap of `cap` bytes.
    pub(super) fn new(cap: usize) -> Self {
        let buckets = (cap / BUCKET_BYTES / DIALECTS.len()).clamp(1, BUCKETS as usize) as u64;
        let (states, looked) = (BTreeMap::new(), ("", 0));
        Self {
            states,
            looked,
            buckets,
            bytes: 0,
            cap,
            uses: 0,
            secret: [0, 1].map(|word| RandomState::new().hash_one(word)),
        }
    }

    /// Returns the bytes of all states.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of calls that were decided on shared states.
    pub(super) fn uses(&self) -> u64 {
        self.uses
    }

    pub(super) fn flush(&mut self) {
        (self.states, self.bytes) = (BTreeMap::new(), 0);
    }

    /// Returns the state that a new key starts with: the shared state, because it may include what this key was
    /// charged.
    pub(super) fn state_of(&self, dialect_call: &DialectCall, now: Timestamp) -> KeyState {
        if self.states.is_empty() {
            return KeyState::default();
        }
        let shared = self.states.get(&self.bucket(dialect_call)).filter(|shared| now <= shared.until);
        let Some(shared) = shared else { return KeyState::default() };
        let policy = dialect_call.call.policy_of(&shared.state, now);
        let own = |limit| shared.state.find(limit).cloned();
        let cells = policy.limits().iter().map(|limit| own(limit).unwrap_or_else(|| limit.fresh()));
        KeyState::of(&policy, cells.collect())
    }

    /// Decides a call on the state that its keys share with others. Limits that its keys know are decided on the cells
    /// in `own`, one for each limit, instead of the shared ones.
    pub(super) fn decide(
        &mut self,
        dialect_call: &DialectCall,
        now: Timestamp,
        own: &mut [Option<Cell>],
    ) -> Result<DialectOutcome, Fault> {
        let (bucket, call) = (self.bucket(dialect_call), &dialect_call.call);
        let t = call.time(now)?;
        self.uses += 1;
        let live = self.states.get(&bucket).filter(|shared| now <= shared.until);
        if let (Some(shared), Action::Check(_)) = (live, call.action()) {
            shared.state.check_place_for(call.policy(), t)?;
        }
        let known = live.is_some_and(|shared| call.policy().limits().iter().all(|it| shared.state.find(it).is_some()));
        if !known {
            self.make_room(dialect_call.new_bytes(), now)?;
        }
        let tight = self.bytes > self.cap / 2;
        let empty = || SharedLimiter::new(KeyState::default(), ApiCounterUsage::default(), now);
        let shared = self.states.entry(bucket).or_insert_with(empty);
        if shared.until < now {
            *shared = SharedLimiter { bytes: shared.bytes, ..empty() };
        }
        // A shared state grows with the number of its callers, so it is kept short.
        if dialect_call.may_charge() && (tight || shared.bytes > BUCKET_BYTES) {
            shared.state.thin();
        }
        let policy = call.policy_of(&shared.state, t);
        let cells = shared.state.cells_of(&policy, t);
        let mut swap = |cells: &mut [Cell]| {
            let each = cells.iter_mut().zip(own.iter_mut());
            each.for_each(|(cell, own)| _ = own.as_mut().map(|own| std::mem::swap(cell, own)));
        };
        swap(cells);
        let outcome = call.run_under(&policy, cells, &mut shared.usage, t);
        swap(cells);
        shared.state.settle();
        if let Ok(Some(decision)) = outcome.as_ref().map(|outcome| outcome.decision)
            && let Some(ttl) = call.ttl(&decision, now)
        {
            // A log that several calls share is kept for the longest window of them all.
            let ttl = if *policy == *call.policy() { ttl } else { ttl.max(shared.state.expires_after(t)) };
            shared.until = shared.until.max(now.plus(ttl));
        }
        let bytes = shared.takes();
        self.bytes = self.bytes.saturating_sub(shared.bytes) + bytes;
        shared.bytes = bytes;
        Ok(outcome?)
    }

    fn make_room(&mut self, bytes: usize, now: Timestamp) -> Result<(), Fault> {
        if self.bytes + bytes > self.cap {
            self.sweep(now);
        }
        // One state is always allowed, however small the cap.
        if self.bytes + bytes <= self.cap || self.states.is_empty() {
            return Ok(());
        }
        let text = "expected room for another limiter, found all memory for keys taken, and what new keys share at \
                    the cap too; start the server with more memory for keys: --keys SIZE";
        Err(Fault::new(FaultCode::Full, text))
    }

    /// Removes some of the states that have expired.
    fn sweep(&mut self, now: Timestamp) {
        let some: Vec<_> =
            self.states.range(self.looked..).take(SWEPT).map(|(at, shared)| (*at, shared.until)).collect();
        // After the last state, begins again with the first.
        self.looked = if some.len() < SWEPT { ("", 0) } else { some.last().map_or(("", 0), |(at, _)| *at) };
        for (at, _) in some.into_iter().filter(|(_, until)| *until < now) {
            let gone = self.states.remove(&at).map_or(0, |shared| shared.bytes);
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }

    /// Returns the state that the keys of a call share.
    pub(super) fn bucket(&self, dialect_call: &DialectCall) -> SharedLimiterId {
        let mut hasher = DefaultHasher::new();
        (self.secret, dialect_call.db, dialect_call.call.state_key()).hash(&mut hasher);
        (dialect_call.dialect.name, hasher.finish() % self.buckets)
    }

    /// Returns all states from a bucket on.
    pub(super) fn each(&self, from: SharedLimiterId) -> impl Iterator<Item = (SharedLimiterId, &SharedLimiter)> {
        self.states.range(from..).map(|(bucket, shared)| (*bucket, shared))
    }

    pub(super) fn get(&self, bucket: SharedLimiterId) -> Option<&SharedLimiter> {
        self.states.get(&bucket)
    }

    /// Stores a state that was persisted across a restart.
    pub(super) fn put(&mut self, bucket: SharedLimiterId, mut shared: SharedLimiter) {
        shared.bytes = shared.takes();
        self.bytes += shared.bytes;
        if let Some(before) = self.states.insert(bucket, shared) {
            self.bytes = self.bytes.saturating_sub(before.bytes);
        }
    }

    /// Returns the secret that determines which state a key shares.
    pub(super) fn secret(&self) -> [u64; 2] {
        self.secret
    }

    pub(super) fn set_secret(&mut self, secret: [u64; 2]) {
        self.secret = secret;
    }
}
