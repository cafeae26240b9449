//! Tests that labels and series stay within their bounds, whichever policies come first.

use super::*;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

fn policy(name: &str, text: &str) -> Policy {
    let policy: Policy = text.parse().unwrap();
    if name.is_empty() { policy } else { policy.with_name(name).unwrap() }
}

/// Returns the most series that could be shown: all of each label, and its limits.
fn most_shown(counted: &PolicyCounters) -> usize {
    let places = counted.places.lock().unwrap();
    let each = |place: &CountedLabel| {
        let beside = if place.is_callers { 0 } else { EACH_OF_SERVER };
        EACH - 1 + beside + place.limits.len()
    };
    let shown = places.by_label.values().map(each).sum();
    assert!(shown <= places.series && places.series <= MAX_SERIES, "{shown} {}", places.series);
    assert!(places.by_label.len() <= MAX_LABELS);
    shown
}

#[test]
fn callers_leave_room_for_policies_of_the_server() {
    let counted = PolicyCounters::default();
    for number in 1..2_000 {
        counted.policy(&policy("", &format!("{number}/s, {number}/min, {number}/h")), PolicyOwner::Callers);
        counted.policy(&policy("one", &format!("{number}/s")), PolicyOwner::Callers);
        most_shown(&counted);
    }
    let own = |number: usize| counted.policy(&policy(&format!("p{number}"), "5/min"), PolicyOwner::Servers);
    let apart = (0..200).filter(|number| own(*number).label() != OTHER).count();
    assert!(apart >= 50, "{apart}");
    most_shown(&counted);
    // Policies with a label keep it, and the others are counted together.
    assert_eq!((own(0).label(), own(199).label()), ("p0", OTHER));
    assert!(Arc::ptr_eq(&own(0).totals, &own(0).totals));
}

#[test]
fn a_name_that_callers_had_first_becomes_the_servers() {
    let counted = PolicyCounters::default();
    let first = counted.policy(&policy("login", "1/s"), PolicyOwner::Callers);
    let second = counted.policy(&policy("login", "2/s"), PolicyOwner::Servers);
    assert!(Arc::ptr_eq(&first.totals, &second.totals));
    assert_eq!(counted.places.lock().unwrap().callers, 0);
    most_shown(&counted);
}

#[test]
fn overrides_are_counted_under_one_limit() {
    let counted = PolicyCounters::default();
    let own = counted.policy(&policy("login", "1/s"), PolicyOwner::Servers);
    for number in 2..100 {
        let other = counted.policy(&policy("login", &format!("{number}/s")), PolicyOwner::Overrides);
        assert!(Arc::ptr_eq(&own.totals, &other.totals));
        other.limits[0].count.fetch_add(1, Ordering::Relaxed);
    }
    let mut names = HashSet::new();
    counted.each(|totals, limits| {
        let limits = limits.iter().map(|limit| (limit.name.clone(), limit.count.load(Ordering::Relaxed)));
        names.extend(limits.map(|(name, count)| (totals.label.clone(), name, count)));
    });
    let expected = [("login", "1/s", 0), ("login", OVERRIDE, 98), (OTHER, OTHER, 0)];
    assert_eq!(names, expected.map(|(label, name, count)| (label.to_owned(), name.to_owned(), count)).into());
}

#[test]
fn a_thousand_files_of_other_policies_leave_nothing_behind() {
    let counted = PolicyCounters::default();
    for round in 1..1_000u64 {
        let held: Vec<_> = (0..60)
            .map(|number| {
                let name = if number < 30 { format!("stays-{number}") } else { format!("r{round}-{number}") };
                counted.policy(&policy(&name, &format!("{round}/s, 5/h")), PolicyOwner::Servers)
            })
            .collect();
        assert!(held.iter().all(|counts| counts.label() != OTHER && counts.limits.len() == 2), "round {round}");
        held[0].totals.allowed.fetch_add(1, Ordering::Relaxed);
        assert_eq!(held[0].totals.allowed.load(Ordering::Relaxed), round, "what stays counts on");
        most_shown(&counted);
        drop(held);
        counted.sweep(|name| name.starts_with("stays"));
        let places = counted.places.lock().unwrap();
        assert_eq!((places.by_label.len(), places.series), (30, 30 * (EACH + EACH_OF_SERVER)));
    }
}
