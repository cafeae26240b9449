//! Tests of bans against a model: a key, its refusals, and its last ban.

use std::collections::HashMap;

use tollgate_config::Ban;
use tollgate_kernel::{Micros, Timestamp, Wait};
use tollgate_random::Rng;

use super::{START, tested, tested_with};
use crate::persist::Note;
use crate::policies::{BanCapacityError, Bans};
use crate::{DecidingRule, RecoveredState};

const SECOND: u64 = 1_000_000;

/// The model of a key.
#[derive(Default)]
struct Key {
    /// When units were charged, and when refusals were counted.
    charged: Vec<u64>,
    refused: Vec<u64>,
    until: u64,
    level: u32,
}

/// A model of `limit/window`, with bans of `first` after `refusals/within`, up to `most`; all in microseconds.
struct Model {
    limit: (usize, u64),
    refusals: (usize, u64),
    first: u64,
    most: u64,
    keys: HashMap<String, Key>,
    begun: u64,
}

impl Model {
    /// Returns whether it passes, whether a ban refused it, and how long it must wait for the ban and for the limit.
    fn check(&mut self, key: &str, now: u64) -> (bool, bool, u64) {
        let Self { limit, refusals, first, most, .. } = *self;
        let key = self.keys.entry(key.to_owned()).or_default();
        let held: Vec<u64> = key.charged.iter().copied().filter(|at| now - at < limit.1).collect();
        let wait = held.len().checked_sub(limit.0).map_or(0, |place| held[place] + limit.1 - now);
        if now < key.until {
            return (false, true, wait.max(key.until - now));
        }
        let within = |times: &[u64], window: u64| times.iter().filter(|at| now - **at < window).count();
        if within(&key.charged, limit.1) < limit.0 {
            key.charged.push(now);
            return (true, false, 0);
        }
        let mut room = refusals.0 - within(&key.refused, refusals.1).min(refusals.0);
        if room > 0 {
            key.refused.push(now);
            room -= 1;
        }
        if room == 0 {
            key.level = if key.level > 0 && now < key.until + most { key.level + 1 } else { 1 };
            let mut lasts = first;
            (1..key.level).for_each(|_| lasts = (2 * lasts).min(most));
            key.until = now + lasts;
            self.begun += 1;
        }
        (false, false, wait.max(key.until.saturating_sub(now)))
    }
}

#[tokio::test]
async fn bans_begin_grow_stop_growing_and_are_forgotten_as_the_model_says() {
    for (seed, ban, first, refusals, most) in [
        (1, "10s after 3/5s refusals, up to 2min", 10, (3, 5), 120),
        // Shorter than the period in which refusals count, so the next refusal leads to the next ban.
        (2, "1s after 2/10s refusals, up to 5s", 1, (2, 10), 5),
        (3, "30s after 1/s refusals, up to 30s", 30, (1, 1), 30),
    ] {
        let tested = tested(&format!("policies: {{login: {{limit: 2/4s, ban: \"{ban}\"}}}}"));
        let mut model = Model {
            limit: (2, 4 * SECOND),
            refusals: (refusals.0, refusals.1 * SECOND),
            first: first * SECOND,
            most: most * SECOND,
            keys: HashMap::new(),
            begun: 0,
        };
        let (mut rng, mut now, mut levels) = (Rng::new(seed), START, 0);
        for step in 0..20_000 {
            // Mostly close together; sometimes just at or before the end of a ban, sometimes after a long pause.
            now += match rng.below(40) {
                0 => most * SECOND + rng.below(2),
                1..=3 => model.keys.values().map(|key| key.until).filter(|end| *end > now).min().unwrap_or(now) - now,
                4..=10 => rng.below(2 * SECOND),
                11..=20 => 1,
                _ => rng.below(SECOND / 4),
            };
            tested.clock.set(Timestamp::new(now).unwrap());
            let key = format!("k{}", rng.below(3));
            if rng.one_in(300) {
                tested.reset("login", &key).await;
                model.keys.remove(&key);
                continue;
            }
            let looks = rng.one_in(10);
            let verdict = match looks {
                true => tested.peek("login", &key).await,
                false => tested.check("login", &key).await,
            };
            if looks {
                let left = model.keys.get(&key).and_then(|key| key.until.checked_sub(now)).filter(|left| *left > 0);
                assert_eq!(verdict.rule == DecidingRule::Ban, left.is_some(), "{seed} {step}");
                continue;
            }
            let (allowed, by_ban, wait) = model.check(&key, now);
            assert_eq!(verdict.decision.allowed, allowed, "{seed} {step}");
            assert_eq!(verdict.rule, if by_ban { DecidingRule::Ban } else { DecidingRule::Policy }, "{seed} {step}");
            let decision = verdict.decision;
            assert_eq!(decision.retry_after, Wait::After(Micros::new(wait)), "{seed} {step}");
            if by_ban {
                assert!(decision.reset_after >= Micros::new(wait), "{seed} {step}");
                assert_eq!((decision.remaining, decision.charged, decision.limited_by), (0, 0, None));
            }
            levels = levels.max(model.keys[&key].level);
        }
        assert!(model.begun > 100 && levels >= 3, "{seed}: {} bans, up to the {levels}th", model.begun);
        assert_eq!(tested.metric(r#"tollgate_bans_total{policy="login"}"#), model.begun as f64);
        let banned = model.keys.values().filter(|key| now < key.until).count();
        assert_eq!(tested.metric("tollgate_banned_keys"), banned as f64);
    }
}

#[tokio::test]
async fn the_twentieth_refusal_within_a_minute_brings_the_ban() {
    let tested = tested("policies: {login: {limit: 1/min, ban: 10min after 20/min refusals}}");
    tested.check("login", "a").await;
    for number in 1..=20 {
        assert_eq!(tested.peek("login", "a").await.rule, DecidingRule::Policy, "{number}");
        let verdict = tested.check("login", "a").await;
        assert_eq!(verdict.rule, DecidingRule::Policy, "{number}");
        // The refusal that begins the ban already reports its wait.
        let seconds = if number == 20 { 600 } else { 60 };
        assert_eq!(verdict.decision.retry_after, Wait::After(Micros::from_secs(seconds)), "{number}");
    }
    let verdict = tested.check("login", "a").await;
    assert_eq!((verdict.rule, verdict.decision.retry_after), (DecidingRule::Ban, Wait::After(Micros::from_secs(600))));
    // Neither the key under another policy, nor another key.
    assert_eq!(tested.check("login", "b").await.rule, DecidingRule::Policy);
    tested.clock.advance(Micros::from_secs(600));
    assert!(tested.check("login", "a").await.decision.allowed, "as it was told");
    tested.reset("login", "a").await;
    assert!(tested.check("login", "a").await.decision.allowed);
}

#[tokio::test]
async fn a_ban_that_ends_before_the_limit_has_room_says_how_long_to_wait_for_both() {
    let tested = tested("policies: {login: {limit: 1/min, ban: 5s after 2/min refusals}}");
    for _ in 0..3 {
        tested.check("login", "a").await;
    }
    let verdict = tested.check("login", "a").await;
    assert_eq!((verdict.rule, verdict.decision.retry_after), (DecidingRule::Ban, Wait::After(Micros::from_secs(60))));
    tested.clock.advance(Micros::from_secs(60));
    assert!(tested.check("login", "a").await.decision.allowed);
}

#[tokio::test]
async fn refusals_by_lists_and_bans_and_in_shadow_bring_no_ban() {
    let tested = tested(
        "policies:\n  login: {limit: 1/h, deny: [d], ban: 10s after 2/min refusals}\n  shown: {limit: 1/h, shadow: true, \
         ban: 10s after 2/min refusals}\n",
    );
    for _ in 0..9 {
        assert_eq!(tested.check("login", "d").await.rule, DecidingRule::Deny);
        assert_ne!(tested.check("shown", "s").await.rule, DecidingRule::Ban);
    }
    // The refusals that began it, and none of those by it.
    for _ in 0..9 {
        tested.check("login", "a").await;
    }
    tested.clock.advance(Micros::from_secs(60));
    assert_eq!(tested.check("login", "a").await.rule, DecidingRule::Policy, "a second refusal is needed again");
    assert_eq!(tested.check("login", "a").await.rule, DecidingRule::Policy);
    assert_eq!(tested.check("login", "a").await.rule, DecidingRule::Ban);
    assert_eq!(tested.metric("tollgate_banned_keys"), 1.);
}

#[tokio::test]
async fn no_text_passes_a_policy_by_under_its_name() {
    let tested = tested("policies:\n  login: {limit: 1/h, deny: [d]}\n  plain: 1/h\n");
    for name in ["login", "plain"] {
        let error = tested.engine.policy(b"4/min", Some(name.as_bytes())).unwrap_err();
        assert!(error.text.contains(&format!("ask for {name} itself")), "{error}");
    }
}

#[tokio::test]
async fn what_was_kept_over_a_restart_holds() {
    let until = Timestamp::new(START + 30 * SECOND).unwrap();
    let ban = |key: &str, level| Note::Ban { policy: "login".into(), key: key.into(), until, level };
    let bans = vec![ban("a", 2), ban("b", 1), Note::Generation { number: 7 }, ban("b", 0)];
    let yaml = "policies: {login: {limit: 1/s, ban: \"10s after 1/min refusals, up to 1h\"}}";
    let tested = tested_with(yaml, RecoveredState { bans, generation: 7 });
    assert_eq!(tested.engine.generation().number, 8);
    assert_eq!(tested.check("login", "a").await.decision.retry_after, Wait::After(Micros::from_secs(30)));
    assert_eq!(tested.check("login", "b").await.rule, DecidingRule::Policy);
    tested.clock.advance(Micros::from_secs(30));
    tested.check("login", "a").await;
    tested.check("login", "a").await;
    let third = tested.check("login", "a").await;
    assert_eq!(third.decision.retry_after, Wait::After(Micros::from_secs(40)), "the third of them");
}

#[test]
fn a_ban_that_holds_is_never_forgotten_for_others() {
    let (bans, at) = (Bans::with_room(10_000), |us: u64| Timestamp::new(START + us).unwrap());
    let ban =
        |first| Ban { first: Micros::new(first), most: Micros::from_secs(10), refusals: 1, within: Micros::new(1) };
    bans.begin("login", b"first", &ban(1_000), at(0)).unwrap().unwrap();
    let mut begun = 1;
    while bans.begin(["login", "api"][begun % 2], format!("k{begun}").as_bytes(), &ban(2_000), at(0)).is_ok() {
        begun += 1;
        assert!(begun < 1_000);
    }
    let full = bans.bytes();
    assert!((9_000..=10_000).contains(&full), "{full}");
    assert!(
        (0..100_000u32).all(|key| bans.begin("api", &key.to_be_bytes(), &ban(2_000), at(999)) == Err(BanCapacityError))
    );
    assert_eq!((bans.banned(at(999)), bans.without_room(), bans.bytes()), (begun, 100_001, full));
    assert!(bans.get("login", b"first").is_some());
    // A ban that has ended makes room for another, and is the first to be dropped.
    bans.begin("api", b"next", &ban(2_000), at(1_000)).unwrap().unwrap();
    assert_eq!((bans.get("login", b"first"), bans.banned(at(1_000))), (None, begun));
    assert_eq!(bans.begin("api", b"other", &ban(2_000), at(1_000)), Err(BanCapacityError));
    // A lifted ban makes room too, and the next ban of a key needs none.
    assert!(bans.lift("api", b"next"));
    bans.begin("api", b"other", &ban(2_000), at(1_000)).unwrap().unwrap();
    assert_eq!(bans.begin("api", b"other", &ban(2_000), at(3_000)).unwrap().unwrap().level, 2);
    let mut told = 0;
    bans.each(&mut |_, key, banned| {
        told += usize::from(bans.get("api", key).or_else(|| bans.get("login", key)) == Some(banned))
    });
    assert_eq!(told, begun);
}

#[test]
fn bytes_counted_are_at_least_those_taken() {
    let bans = Bans::with_room(1 << 26);
    let ban = Ban { first: Micros::new(1), most: Micros::from_secs(10), refusals: 1, within: Micros::new(1) };
    for upto in [10, 1_000, 30_000, 60_000u64] {
        let taken = allocation_counter::measure(|| {
            for key in 0..upto {
                let name = format!("{key}:{}", "x".repeat((key % 40) as usize));
                bans.begin("login", name.as_bytes(), &ban, Timestamp::new(START + key % 977).unwrap()).unwrap();
            }
        });
        assert!(bans.bytes() as i64 >= taken.bytes_current, "{} counted, {taken:?}", bans.bytes());
    }
}

#[tokio::test]
async fn a_ban_by_a_clock_that_was_ahead_lasts_no_longer_than_the_longest() {
    const DAY: u64 = 86_400 * SECOND;
    let tested = tested("policies: {login: {limit: 1/s, ban: \"10min after 1/min refusals, up to 1d\"}}");
    tested.clock.set(Timestamp::new(START + 2 * DAY).unwrap());
    tested.check("login", "a").await;
    tested.check("login", "a").await;
    assert_eq!(tested.check("login", "a").await.decision.retry_after, Wait::After(Micros::from_secs(600)));
    tested.clock.set(Timestamp::new(START).unwrap());
    assert_eq!(tested.peek("login", "a").await.decision.retry_after, Wait::After(Micros::new(DAY)));
    tested.clock.set(Timestamp::new(START + 60 * SECOND).unwrap());
    let banned = tested.check("login", "a").await;
    assert_eq!(
        (banned.rule, banned.decision.retry_after),
        (DecidingRule::Ban, Wait::After(Micros::new(DAY - 60 * SECOND)))
    );
    tested.clock.set(Timestamp::new(START + DAY).unwrap());
    assert_eq!(tested.check("login", "a").await.rule, DecidingRule::Policy);
}

#[tokio::test]
async fn a_ban_that_was_kept_from_a_clock_ahead_is_corrected_at_the_start() {
    const DAY: u64 = 86_400 * SECOND;
    let until = Timestamp::new(START + 2 * DAY + 600 * SECOND).unwrap();
    let bans = vec![Note::Ban { policy: "login".into(), key: b"a".to_vec(), until, level: 1 }];
    let yaml = "policies: {login: {limit: 1/s, ban: \"10min after 1/min refusals, up to 1d\"}}";
    let tested = tested_with(yaml, RecoveredState { bans, generation: 1 });
    // No request came for it meanwhile.
    tested.clock.advance(Micros::new(DAY - SECOND));
    assert_eq!(tested.check("login", "a").await.decision.retry_after, Wait::After(Micros::new(SECOND)));
}

#[test]
fn a_ban_lasts_twice_as_long_each_time_whatever_the_numbers() {
    let bans = Bans::with_room(1 << 20);
    let ban = Ban { first: Micros::new(3), most: Micros::from_secs(86_400), refusals: 1, within: Micros::new(1) };
    let mut now = Timestamp::new(START).unwrap();
    for level in 1..200u32 {
        let begun = bans.begin("p", b"k", &ban, now).unwrap().unwrap();
        let expected = if level < 40 { (3u64 << (level - 1)).min(86_400 * SECOND) } else { 86_400 * SECOND };
        assert_eq!((begun.level, begun.until.since(now).get()), (level, expected));
        assert_eq!(bans.begin("p", b"k", &ban, now), Ok(None), "one at a time");
        now = begun.until;
    }
    now = now.plus(ban.most);
    assert_eq!(bans.begin("p", b"k", &ban, now).unwrap().unwrap().level, 1, "quiet for as long as the longest");
    assert!(bans.lift("p", b"k") && !bans.lift("p", b"k"));
}
