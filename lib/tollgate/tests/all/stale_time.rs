//! A thread that is suspended between reading the clock and its slot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollgate::{Clock, Gate, Timestamp};

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
struct HookedClock {
    time: Arc<AtomicU64>,
    may_be_set_back: bool,
    /// How many more readings come before the one after which the hook runs.
    before: Arc<AtomicU64>,
    /// Runs once, right after the next caller has read the time.
    hook: Arc<Mutex<Option<Hook>>>,
}

impl HookedClock {
    fn due(&self) -> Option<Hook> {
        let mut hook = self.hook.lock().unwrap();
        if hook.is_some() && self.before.fetch_sub(1, Ordering::SeqCst) == 0 { hook.take() } else { None }
    }
}

impl Clock for HookedClock {
    fn now(&self) -> Timestamp {
        let t = self.time.load(Ordering::SeqCst);
        let hook = self.due();
        if let Some(hook) = hook {
            hook();
        }
        Timestamp::new(t).unwrap()
    }

    fn is_monotonic(&self) -> bool {
        !self.may_be_set_back
    }
}

#[test]
fn a_key_charged_meanwhile_is_not_decided_at_a_stale_time() {
    let policies = ["1/ms, 3/ms gcra", "1/ms fixed", "1/ms gcra"];
    let runs = policies.into_iter().flat_map(|text| [false, true].map(|back| (text, back)));
    for (text, may_be_set_back, before) in runs.flat_map(|(text, back)| (0..3).map(move |before| (text, back, before)))
    {
        let clock = HookedClock { may_be_set_back, before: Arc::new(before.into()), ..HookedClock::default() };
        clock.time.store(1_700_000_000_000_000, Ordering::SeqCst);
        let gate = Gate::builder().policy(text).clock(clock.clone()).build().unwrap();
        assert!(gate.check("k").unwrap().allowed);
        // A caller that looks at "k" reads the time, and is suspended. Meanwhile, much later, another thread charges it.
        let (charging, ticking) = (gate.clone(), clock.clone());
        *clock.hook.lock().unwrap() = Some(Box::new(move || {
            ticking.time.fetch_add(60_000_000, Ordering::SeqCst);
            assert!(charging.check("k").unwrap().allowed);
        }));
        let seen = gate.peek("k").unwrap();
        if clock.hook.lock().unwrap().is_some() {
            // It was not read so often.
            assert!(before > 0 && seen.at.get() == clock.time.load(Ordering::SeqCst));
            continue;
        }
        assert!(!seen.allowed, "{text}, {before}: {seen:?}");
        assert_eq!(seen.at.get(), clock.time.load(Ordering::SeqCst), "{text}");
    }
}

#[test]
fn a_key_forgotten_and_placed_again_meanwhile_is_not_decided_at_a_stale_time() {
    let clock = HookedClock::default();
    clock.time.store(1_700_000_000_000_000, Ordering::SeqCst);
    let users = Gate::builder().named("user", "1/ms fixed").named("team", "1/h fixed").clock(clock.clone());
    let users = users.build().unwrap();
    let teams = users.policy("team").unwrap();
    assert!(teams.check("full").unwrap().allowed);
    // Many keys, so that keys that may be forgotten are.
    (0..14_000).for_each(|n| assert!(users.check(format!("crowd:{n}")).unwrap().allowed));
    clock.time.fetch_add(5_000, Ordering::SeqCst);
    let _ = users.check("k").unwrap();
    clock.time.fetch_add(1_000, Ordering::SeqCst);
    // A thread checks "k", reads the time, and is suspended. Meanwhile another thread runs this:
    let first = Arc::new(Mutex::new(None));
    let (gate, ticking, told) = (users.clone(), clock.clone(), Arc::clone(&first));
    *clock.hook.lock().unwrap() = Some(Box::new(move || {
        *told.lock().unwrap() = Some(gate.check("k").unwrap());
        ticking.time.fetch_add(1_000, Ordering::SeqCst);
        (0..20_000).for_each(|n| assert!(gate.check(format!("more:{n}")).unwrap().allowed));
        let teams = gate.policy("team").unwrap();
        assert!(!gate.check_all(&[gate.ask("k"), teams.ask("full")]).unwrap().allowed);
    }));
    let second = users.check("k").unwrap();
    let first = first.lock().unwrap().unwrap();
    assert!(!(second.allowed && second.at == first.at), "two units of 1/ms at one time");
}
