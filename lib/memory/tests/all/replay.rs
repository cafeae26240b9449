//! A store that replays the decisions of another has the same state and decides the same.

use tollgate_kernel::{Cell, Clock, Cost, KeyState, LimitId, Micros, Mode, Policy, Reader, Request, Timestamp, Writer};
use tollgate_memory::{MIN_CAP, ManualClock, Memory, MemoryPolicy};
use tollgate_random::Rng;

const START: u64 = 1_700_000_000_000_000;
const KEYS: u64 = 16;

/// Every algorithm alone, several limits, spacings; and changed versions of them under the same names.
const POLICIES: [(&str, &str, Mode); 30] = [
    ("", "5/s gcra", Mode::Binary),
    ("", "7/s gcra", Mode::Binary),
    ("", "6/s, 5/s gcra", Mode::Nary),
    ("", "4/s fixed", Mode::Uniform),
    ("sliding", "5/s", Mode::Binary),
    ("sliding", "9/s", Mode::Binary),
    ("sliding", "5/s, 40/min fixed", Mode::Binary),
    ("grain", "50/min grain=1s", Mode::Nary),
    ("gcra", "10/s gcra burst=20", Mode::Binary),
    ("gcra", "3/s gcra burst=4", Mode::Binary),
    ("gcra", "20/s gcra", Mode::Uniform),
    ("fixed", "7/s fixed", Mode::Binary),
    ("fixed", "70/min fixed align=clock", Mode::Binary),
    ("bucket", "15/10s bucket burst=3", Mode::Binary),
    ("bucket", "9/10s bucket burst=9", Mode::Nary),
    ("slots", "12/10s slots resolution=1s", Mode::Uniform),
    ("slots", "20/10s slots resolution=1s", Mode::Binary),
    ("estimate", "9/s estimate", Mode::Binary),
    ("decay", "5/s decay factor=1.5", Mode::Nary),
    ("decay", "9/s decay factor=1.5", Mode::Uniform),
    ("spaced", "5/s spacing=50ms", Mode::Uniform),
    ("spaced", "5/s gcra spacing=20ms", Mode::Binary),
    ("named", "5/s name=a, 30/min gcra name=b", Mode::Binary),
    ("named", "8/s name=a, 60/min gcra name=b, 3/s estimate", Mode::Binary),
    ("three", "3/s, 20/min gcra, 100/h fixed align=clock", Mode::Binary),
    ("three", "3/s, 10/min gcra", Mode::Uniform),
    ("uniform", "3/s", Mode::Uniform),
    ("uniform", "2/s, 40/min gcra", Mode::Uniform),
    ("uniform", "2/s gcra", Mode::Uniform),
    ("uniform", "2/10s decay factor=4, 6/s", Mode::Uniform),
];

fn policies() -> Vec<Policy> {
    let named = |(name, text, mode): &(&str, &str, Mode)| {
        let policy = text.parse::<Policy>().unwrap().with_mode(*mode);
        if name.is_empty() { policy } else { policy.with_name(name).unwrap() }
    };
    POLICIES.iter().map(named).collect()
}

struct TestStore {
    memory: Memory,
    prepared: Vec<MemoryPolicy>,
}

impl TestStore {
    fn new(clock: &ManualClock) -> Self {
        let memory = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
        let prepared = policies().iter().map(|policy| memory.prepare(policy).unwrap()).collect();
        Self { memory, prepared }
    }

    fn state(&self, policy: usize, key: u64) -> Option<KeyState> {
        self.memory.state(&self.prepared[policy], &key.to_le_bytes()).own
    }

    /// Returns the cells by limit id, whatever the numbers of the limits are that were used last under the ids.
    fn remembered(&self, policy: usize, key: u64) -> Vec<(LimitId, Cell)> {
        let state = self.state(policy, key).unwrap_or_default();
        state.each().map(|(limit, cell)| (limit.id().clone(), cell.clone())).collect()
    }
}

/// A store that decides and one that replays its decisions.
struct Run {
    rng: Rng,
    clock: ManualClock,
    replay_clock: ManualClock,
    decides: TestStore,
    replayed: TestStore,
    /// Policies in use.
    some: Vec<usize>,
    charges: Vec<(usize, u64, u64, Timestamp)>,
}

impl Run {
    fn new(seed: u64, some: Vec<usize>) -> Self {
        let clock = ManualClock::at(Timestamp::new(START).unwrap());
        // Long before the decisions, or after all of their effect has expired.
        let replay_clock = ManualClock::at(Timestamp::new(if seed.is_multiple_of(2) { 0 } else { 2 * START }).unwrap());
        let (decides, replayed) = (TestStore::new(&clock), TestStore::new(&replay_clock));
        Self { rng: Rng::new(seed), clock, replay_clock, decides, replayed, some, charges: Vec::new() }
    }

    fn choose(&mut self) -> (usize, u64) {
        let policy = self.some[self.rng.index(self.some.len())];
        (policy, self.rng.below(KEYS))
    }

    fn request(&mut self) -> Request {
        let cost = if self.rng.below(4) > 0 { 1 } else { 1 + self.rng.below(30) };
        let request = Request::cost(Cost::new(cost).unwrap());
        match self.rng.below(12) {
            0 => request.mode(Mode::Nary),
            1 => request.mode(Mode::Uniform),
            2 => request.peek(),
            _ => request,
        }
    }

    fn pass_time(&mut self) {
        let span = match self.rng.below(20) {
            0..8 => 0,
            8..18 => self.rng.below(60_000),
            18 => self.rng.below(3_000_000),
            _ => self.rng.below(200_000_000),
        };
        self.clock.advance(Micros::new(span));
    }

    fn step(&mut self) {
        self.pass_time();
        let ((policy, key), request, t) = (self.choose(), self.request(), self.clock.now());
        let bytes = key.to_le_bytes();
        let (here, there) = (&self.decides.prepared[policy], &self.replayed.prepared[policy]);
        match self.rng.below(20) {
            0 => {
                self.decides.memory.reset(here, &bytes).unwrap();
                self.replayed.memory.reset_at(there, &bytes, t);
            }
            1..3 => {
                let Some((policy, key, units, at)) = self.charges.pop() else { return };
                let (bytes, cost) = (key.to_le_bytes(), Cost::new(units).unwrap());
                let given = self.decides.memory.refund(&self.decides.prepared[policy], &bytes, cost, at).unwrap();
                assert_eq!(
                    self.replayed.memory.refund_at(&self.replayed.prepared[policy], &bytes, units, at, t),
                    given
                );
            }
            3 => {
                let keys = [key, (key + 1) % KEYS].map(u64::to_le_bytes);
                let items = keys.each_ref().map(|key| (here, &key[..], Cost::new(2).unwrap()));
                let all = self.decides.memory.check_all(&items).unwrap();
                for (key, decision) in keys.iter().zip(all.decisions).filter(|_| all.allowed) {
                    self.replayed.memory.charge_at(there, key, 2, decision.at);
                }
            }
            _ => {
                let decision = self.decides.memory.check(here, &bytes, &request).unwrap();
                let units = request.leaves(here.policy(), &decision);
                self.replayed.memory.charge_at(there, &bytes, units, decision.at);
                if decision.charged > 0 {
                    self.charges.push((policy, key, decision.charged, decision.at));
                }
            }
        }
    }

    /// Compares the states of both, and the later decisions of both and of a third store that gets every state through
    /// words. Until here the clock of the replaying store showed another time, since a replay does not read it.
    fn finish(mut self, whole: bool) -> usize {
        self.replay_clock.set(self.clock.now());
        let mut used = 0;
        for policy in self.some.clone() {
            for key in 0..KEYS {
                let (a, b) = (self.decides.remembered(policy, key), self.replayed.remembered(policy, key));
                assert_eq!(a, b, "{:?} {key}", POLICIES[policy]);
                if whole {
                    assert_eq!(self.decides.state(policy, key), self.replayed.state(policy, key));
                }
                used += a.len();
            }
        }
        let third = self.third();
        for _ in 0..50 {
            self.pass_time();
            self.replay_clock.set(self.clock.now());
            let ((policy, key), request) = (self.choose(), self.request());
            let ask = |store: &TestStore| {
                store.memory.check_full(&store.prepared[policy], &key.to_le_bytes(), &request).unwrap()
            };
            let expected = ask(&self.decides);
            assert_eq!(ask(&self.replayed), expected, "replayed: {:?} {key} {request:?}", POLICIES[policy]);
            assert_eq!(ask(&third), expected, "third: {:?} {key} {request:?}", POLICIES[policy]);
        }
        used
    }

    fn third(&self) -> TestStore {
        let third = TestStore::new(&self.clock);
        for (place, policy) in self.some.iter().enumerate() {
            // States belong to policy names.
            if self.some[..place].iter().any(|other| POLICIES[*other].0 == POLICIES[*policy].0) {
                continue;
            }
            for key in 0..KEYS {
                let (prepared, bytes) = (&third.prepared[*policy], key.to_le_bytes());
                // An existing state is replaced.
                third.memory.charge_at(prepared, &bytes, key % 3, self.clock.now());
                let mut to = Writer::default();
                self.decides.state(*policy, key).unwrap_or_default().write(&mut to);
                let state = KeyState::read(&mut Reader::new(&to.into_bytes())).unwrap();
                third.memory.put_state(prepared, &bytes, state);
                assert_eq!(third.remembered(*policy, key), self.decides.remembered(*policy, key));
            }
        }
        third
    }
}

/// Does a run of each length; returns how many cells were compared.
fn runs(seed: u64, some: &[usize], whole: bool) -> usize {
    let run = |steps: usize| {
        let mut run = Run::new(seed + steps as u64, some.to_vec());
        (0..steps).for_each(|_| run.step());
        run.finish(whole)
    };
    [1, 5, 40, 300, 2_000].into_iter().map(run).sum()
}

#[test]
fn a_replayed_store_has_the_same_state() {
    for (policy, replayed) in POLICIES.iter().enumerate() {
        let used: usize = (0..4).map(|seed| runs(seed * 1_000_000, &[policy], true)).sum();
        assert!(used > 50, "{replayed:?}: {used}");
    }
}

#[test]
fn a_replayed_store_has_the_same_state_while_policies_change() {
    let all: Vec<usize> = (0..POLICIES.len()).collect();
    for (first, (name, ..)) in POLICIES.iter().enumerate() {
        let some: Vec<usize> = all.iter().copied().filter(|place| POLICIES[*place].0 == *name).collect();
        let used: usize = (0..4).map(|seed| runs((seed * 100 + first as u64) << 20, &some, false)).sum();
        assert!(used > 50, "{name}: {used}");
    }
    assert!((0..8).map(|seed| runs(seed << 30, &all, false)).sum::<usize>() > 1_000);
}

#[test]
fn keys_make_room_by_the_times_of_replayed_decisions() {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    // By the clock of this store everything that is replayed has expired.
    let replay_clock = ManualClock::at(Timestamp::new(2 * START).unwrap());
    let (decides, replayed) = (TestStore::new(&clock), TestStore::new(&replay_clock));
    let gcra = POLICIES.iter().position(|(_, text, _)| *text == "10/s gcra burst=20").unwrap();
    let (here, there) = (&decides.prepared[gcra], &replayed.prepared[gcra]);
    const MANY: u64 = 40_000;
    for round in 0..6 {
        for key in 0..MANY {
            let request = Request::cost(Cost::new(1 + (key + round) % 4).unwrap());
            let decision = decides.memory.check(here, &key.to_le_bytes(), &request).unwrap();
            replayed.memory.charge_at(there, &key.to_le_bytes(), decision.charged, decision.at);
        }
        clock.advance(Micros::from_millis(170));
    }
    replay_clock.set(clock.now());
    let (a, b) = (decides.memory.stats(), replayed.memory.stats());
    assert_eq!((a.keys, a.overflow_buckets), (b.keys, b.overflow_buckets));
    let used = (0..MANY).filter(|key| {
        let state = decides.state(gcra, *key);
        assert_eq!(replayed.state(gcra, *key), state, "{key}");
        state.is_some()
    });
    assert!(used.count() > MANY as usize / 2);
}

#[test]
fn keys_that_share_a_bucket_are_replayed_in_it() {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let store = TestStore::new(&clock);
    let (memory, policy) = (&store.memory, &store.prepared[8]);
    // Until no key gets a place any more.
    let mut key = 0;
    while memory.stats().overflow_decisions < 5_000 {
        let _ = memory.check(policy, &u64::to_le_bytes(key), &Request::ONE).unwrap();
        key += 1;
        assert!(key < 1_000_000, "the cap is not felt");
    }
    let shares = |key: &u64| {
        let before = memory.stats().overflow_decisions;
        let _ = memory.check(policy, &key.to_le_bytes(), &Request::ONE.peek()).unwrap();
        memory.stats().overflow_decisions > before
    };
    let key = (key..2 * key).find(shares).unwrap();
    let (bytes, t) = (key.to_le_bytes(), clock.now());
    let left = || memory.check(policy, &bytes, &Request::ONE.peek()).unwrap().remaining;
    let (before, shared) = (left(), memory.stats().overflow_decisions);
    assert!(memory.has_buckets(policy) && !memory.has_place(policy, &bytes));
    assert!(memory.state(policy, &bytes).shares);
    memory.charge_bucket_at(policy, &bytes, 2, t);
    assert_eq!(memory.stats().overflow_decisions, shared, "a replayed charge is not counted as a decision");
    assert_eq!(left(), (before - 2).max(0));
    assert!(!memory.has_place(policy, &bytes), "it gets no place");
    let before = left();
    memory.put_state(policy, &bytes, KeyState::default());
    assert_eq!(left(), before, "others may have used what is in the bucket");
    assert!(memory.stats().bytes <= MIN_CAP);
}
