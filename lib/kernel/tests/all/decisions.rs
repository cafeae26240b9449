//! One example of each property of decisions. The laws are in `tests/laws`.

use tollgate_kernel::{Cost, Decision, KeyState, Micros, Mode, Policy, Request, Timestamp, Wait, explain};

/// Midnight of a Monday.
const T: u64 = 1_704_067_200_000_000;
const S: u64 = 1_000_000;

/// A key under a policy, with requests at seconds and microseconds after [`T`].
struct Key {
    policy: Policy,
    state: KeyState,
}

impl Key {
    fn new(policy: &str) -> Self {
        Self { policy: policy.parse().unwrap(), state: KeyState::default() }
    }

    fn change(&mut self, policy: &str) {
        self.policy = policy.parse().unwrap();
    }

    fn ask(&mut self, us: u64, request: Request) -> Decision {
        self.state.decide(&self.policy, at(us), &request)
    }

    fn one(&mut self, us: u64) -> Decision {
        self.ask(us, Request::ONE)
    }

    fn refund(&mut self, us: u64, units: u64, charged: u64) -> u64 {
        self.state.refund(&self.policy, at(us), units, at(charged))
    }
}

fn at(us: u64) -> Timestamp {
    Timestamp::new(T + us).unwrap()
}

fn cost(units: u64) -> Request {
    Request::cost(Cost::new(units).unwrap())
}

fn wait(us: u64) -> Wait {
    Wait::After(Micros::new(us))
}

#[test]
fn a_sliding_event_counts_until_exactly_a_period_later() {
    let mut key = Key::new("1/5s");
    assert!(key.one(0).allowed);
    assert_eq!(key.one(5 * S - 1).retry_after, wait(1));
    assert!(key.one(5 * S).allowed);
}

#[test]
fn the_wait_over_several_limits_is_where_all_fit_together() {
    // Three more tokens are there from 2.5s on, but only until the window ends at 10s; the other
    // limit lets three pass from 12s on, and a new window of the bucket never has three.
    let mut key = Key::new("9/10s bucket burst=1, 3/12s");
    assert!(key.one(0).allowed);
    let refused = key.ask(S, cost(3));
    assert_eq!((refused.allowed, refused.retry_after), (false, Wait::Never));
    let (_, details) = key.state.decide_full(&key.policy, at(S), &cost(3).peek());
    assert_eq!(details[0].retry_after, wait(3_750_000 - S), "the bucket alone");
    assert_eq!(details[1].retry_after, wait(11 * S), "the other limit alone");
}

#[test]
fn more_than_can_ever_fit_is_a_denial_not_an_error() {
    let mut key = Key::new("5/h");
    let refused = key.ask(0, cost(6));
    assert_eq!(refused.flat(), [0, 0, 5, -1, 0, 1]);
    assert_eq!(key.ask(0, cost((1 << 53) - 1)).retry_after, Wait::Never);
}

#[test]
fn cost_0_only_looks() {
    let mut key = Key::new("1/s gcra");
    assert!(key.one(0).allowed);
    let look = key.ask(0, cost(0));
    assert_eq!((look.allowed, look.granted, look.charged, look.remaining), (true, 0, 0, 0));
}

#[test]
fn nary_grants_what_fits_and_names_what_cut_it() {
    let mut key = Key::new("10/s, 4/min");
    let partial = key.ask(0, cost(6).mode(Mode::Nary));
    assert_eq!((partial.allowed, partial.granted, partial.charged, partial.limited_by), (true, 4, 4, Some(1)));
    let refused = key.ask(S, cost(6).mode(Mode::Nary));
    assert_eq!((refused.allowed, refused.granted, refused.retry_after), (false, 0, wait(59 * S)));
}

#[test]
fn uniform_counts_refused_attempts_and_saturates_only_where_they_cost_memory() {
    let hammered = |policy: &str| {
        let mut key = Key::new(policy);
        let decisions = (0..50).map(|_| key.ask(0, Request::ONE.mode(Mode::Uniform)));
        let last = decisions.last().unwrap();
        (last.allowed, last.granted, last.remaining)
    };
    assert_eq!(hammered("5/min fixed"), (false, 0, -45));
    assert_eq!(hammered("5/min slots resolution=1s"), (false, 0, -45));
    assert_eq!(hammered("5/min"), (false, 0, -5));
    assert_eq!(hammered("5/min gcra burst=3"), (false, 0, -3));
}

#[test]
fn a_refusal_charges_no_limit() {
    let mut key = Key::new("1/s, 100/h fixed");
    assert!(key.one(0).allowed);
    assert!(!key.one(0).allowed);
    let (_, details) = key.state.decide_full(&key.policy, at(0), &Request::ONE.peek());
    assert_eq!(details[1].remaining, 99);
}

#[test]
fn two_policies_on_one_key_do_not_count_each_others_events() {
    let mut state = KeyState::default();
    let calls: Policy = "100/min".parse().unwrap();
    let resets: Policy = "5/h".parse().unwrap();
    let both: Policy = "5/h, 100/min".parse().unwrap();
    for _ in 0..50 {
        assert!(state.decide(&calls, at(0), &Request::ONE).allowed);
    }
    assert_eq!(state.decide(&resets, at(0), &Request::ONE).remaining, 4);
    let (_, details) = state.decide_full(&both, at(0), &Request::ONE);
    assert_eq!(details.iter().map(|detail| detail.remaining).collect::<Vec<_>>(), [3, 49]);
}

#[test]
fn a_changed_count_keeps_what_was_consumed() {
    for options in ["", "gcra", "fixed", "slots resolution=1s", "estimate"] {
        let text = |count: u64| format!("{count}/min {options}");
        let mut key = Key::new(&text(100));
        for _ in 0..60 {
            assert!(key.one(0).allowed);
        }
        key.change(&text(200));
        assert_eq!(key.one(0).remaining, 139, "{options} raised");
        key.change(&text(100));
        assert_eq!(key.one(0).remaining, 38, "{options} and lowered again");
        key.change(&text(10));
        assert_eq!(key.one(0).remaining, 0, "{options} far below what is used");
    }
}

#[test]
fn a_gcra_made_smaller_and_larger_again_finds_what_was_consumed() {
    let mut key = Key::new("20/h gcra");
    assert!(key.ask(0, cost(20)).allowed);
    key.change("5/h gcra");
    assert!(!key.one(0).allowed && !key.ask(0, Request::ONE.peek()).allowed);
    key.change("20/h gcra");
    assert!(!key.one(0).allowed);
    key.change("5/h gcra");
    assert_eq!(
        key.one(0).retry_after,
        wait(16 * 180 * S),
        "20 are owed, paid back at the rate they were charged under"
    );
}

#[test]
fn a_gcra_made_smaller_keeps_all_that_was_consumed() {
    let mut key = Key::new("60/min gcra");
    assert!(key.ask(0, cost(60)).allowed);
    key.change("20/min gcra");
    for request in [Request::ONE.peek(), Request::ONE, cost(20), cost(3).mode(Mode::Nary)] {
        let refused = key.ask(10 * S, request);
        let (units, mode) = (request.cost.get(), request.mode);
        let fits = 31 + if mode == Some(Mode::Nary) { 0 } else { units - 1 };
        assert_eq!(
            (refused.allowed, refused.remaining, refused.retry_after),
            (false, 0, wait(fits * S)),
            "{request:?}"
        );
        assert_eq!(refused.reset_after, Micros::from_secs(50));
    }
    // Uniform mode charges up to twice the burst, and more than that is owed.
    let refused = key.ask(10 * S, Request::ONE.mode(Mode::Uniform));
    assert_eq!((refused.charged, refused.remaining), (0, -30));
    assert_eq!(key.ask(41 * S - 1, Request::ONE).retry_after, wait(1));
    key.change("60/min gcra");
    assert_eq!(key.ask(10 * S, Request::ONE.peek()).remaining, 10, "what was consumed is found again");
    key.change("20/min gcra");
    let allowed = key.one(41 * S);
    assert_eq!((allowed.allowed, allowed.remaining), (true, 0));
    assert_eq!(allowed.next_after, wait(3 * S), "20 are owed at the new rate");
    assert_eq!(key.one(43 * S).retry_after, wait(S));
}

#[test]
fn every_algorithm_decides_at_the_epoch() {
    for policy in ["1/s", "1/s gcra", "1/s fixed", "1/w fixed align=clock", "2/s bucket burst=1", "1/s estimate"] {
        let (policy, mut state) = (policy.parse::<Policy>().unwrap(), KeyState::default());
        let epoch = Timestamp::default();
        assert!(state.decide(&policy, epoch, &Request::ONE).allowed, "{policy}");
        assert!(!state.decide(&policy, epoch, &Request::cost(Cost::new(2).unwrap())).allowed, "{policy}");
    }
    let mut week = KeyState::default();
    let policy: Policy = "1/w fixed align=clock".parse().unwrap();
    let first = week.decide(&policy, Timestamp::default(), &Request::ONE);
    assert_eq!(first.reset_after, Micros::from_secs(4 * 86_400), "1970 began on a Thursday");
}

#[test]
fn a_look_under_another_mode_forgives_nothing() {
    let mut key = Key::new("10/h gcra");
    for _ in 0..30 {
        let _ = key.ask(0, Request::ONE.mode(Mode::Uniform));
    }
    let _ = key.ask(0, Request::ONE.mode(Mode::Binary).peek());
    assert_eq!(key.ask(0, cost(0).mode(Mode::Uniform)).remaining, -10);
}

#[test]
fn weeks_begin_on_monday_and_days_at_midnight() {
    let mut week = Key::new("1/w fixed align=clock");
    assert!(week.one(0).allowed);
    assert_eq!(week.one(86_400 * S).retry_after, wait(6 * 86_400 * S));
    let mut day = Key::new("1/d fixed align=clock");
    assert!(day.one(13 * 3_600 * S).allowed);
    assert_eq!(day.one(14 * 3_600 * S).retry_after, wait(10 * 3_600 * S));
}

#[test]
fn spacing_counts_refused_charges_of_uniform_and_is_not_refunded() {
    let mut key = Key::new("100/min spacing=1s");
    assert!(key.one(0).allowed);
    assert_eq!(key.one(S / 2).retry_after, wait(S / 2));
    assert_eq!(key.ask(S / 2, Request::ONE.mode(Mode::Uniform)).retry_after, wait(S));
    assert_eq!(key.refund(S / 2, 1, 0), 1);
    assert_eq!(key.one(S).retry_after, wait(S / 2));
}

#[test]
fn a_refund_gives_back_what_is_still_held() {
    // A refund to a log takes the oldest units, so the later ones count for their full time.
    let mut log = Key::new("2/10s");
    assert!(log.one(0).allowed && log.one(4 * S).allowed);
    assert_eq!(log.refund(5 * S, 1, 4 * S), 1);
    assert!(log.one(5 * S).allowed);
    assert_eq!(log.one(5 * S).retry_after, wait(9 * S));
    assert_eq!(log.refund(20 * S, 1, 4 * S), 0, "it has left");

    let mut window = Key::new("2/10s fixed");
    assert!(window.one(0).allowed);
    assert!(window.one(11 * S).allowed);
    assert_eq!(window.refund(12 * S, 1, 0), 0, "its window is over");
    assert_eq!(window.refund(12 * S, 5, 11 * S), 1, "no more than is used");

    assert_eq!(window.refund(12 * S, 1, 13 * S), 0, "it is yet to come");

    // Halfway through a window, four units of the previous one weigh two; all four are refunded.
    let mut two = Key::new("10/10s estimate");
    assert!(two.ask(0, cost(4)).allowed && two.one(10 * S).allowed);
    assert_eq!(two.ask(15 * S, cost(0)).remaining, 7);
    assert_eq!(two.refund(15 * S, 9, 0), 4);
    assert_eq!(two.ask(15 * S, cost(0)).remaining, 9);

    // One unit takes five seconds to be paid back; two seconds have passed.
    let mut rate = Key::new("2/10s gcra");
    assert!(rate.one(0).allowed);
    assert_eq!(rate.refund(2 * S, 1, 0), 0, "less than a whole unit is left of it");
    assert_eq!(rate.one(2 * S).reset_after, Micros::from_secs(5));
}

#[test]
fn a_clock_set_back_an_hour_costs_at_most_one_more_window() {
    for policy in ["5/min", "5/min gcra", "5/min fixed", "5/min estimate", "5/min slots resolution=10s"] {
        let mut key = Key::new(policy);
        for _ in 0..5 {
            assert!(key.one(3_600 * S).allowed);
        }
        let refused = key.one(0);
        let waits = refused.retry_after.span().unwrap().get();
        assert!(!refused.allowed && waits <= 180 * S, "{policy}: {waits}");
        assert!(key.one(waits).allowed, "{policy}");
    }
}

#[test]
fn an_explanation_names_the_limit_and_the_first_instant_that_passes() {
    let mut key = Key::new("1/5s, 5/h name=login");
    let _ = key.one(0);
    let why = explain(&mut key.state, &key.policy, at(S), &Request::ONE);
    assert_eq!(why.passes_at, Some(at(5 * S)));
    assert_eq!((why.limits[0].before.held, why.limits[0].after.held), (1.0, 1.0));
    assert_eq!(
        why.to_string(),
        "refused by 1/5s: the same request passes in 4s\n  \
         1/5s: does not fit; held 1 before, 1 after; 0 left; as new in 4s\n  \
         login: fits; held 1 before, 1 after; 4 left; as new in 59min 59s"
    );
}

#[test]
fn reset_forgets_the_key_under_a_policy_and_nothing_else() {
    let mut key = Key::new("1/h, 9/d");
    let _ = key.one(0);
    key.state.reset(&"1/h".parse().unwrap(), at(0));
    let (decision, details) = key.state.decide_full(&key.policy, at(0), &Request::ONE);
    assert_eq!((decision.allowed, details[0].remaining, details[1].remaining), (true, 0, 7));
}
