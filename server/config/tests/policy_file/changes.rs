//! The differences between two files, in words.

use tollgate_config::{Config, ConfigFormat, changes, read};

fn config(text: &str) -> Config {
    read(text, ConfigFormat::Yaml).unwrap_or_else(|error| panic!("{error}")).config
}

/// The changes between two policies called p.
fn told(old: &str, new: &str) -> Vec<String> {
    let of = |fields: &str| config(&format!("policies: {{p: {{{fields}}}}}"));
    changes(&of(old), &of(new))
}

#[test]
fn of_each_limit_it_is_said_whether_what_was_consumed_counts_on() {
    for (old, new, facts) in [
        ("5/min", "10/min", &["p: limit 5/min -> 10/min; what was consumed counts on"][..]),
        ("5/min", "5/60s", &[]),
        ("5/min", "5/h", &["p: limit 5/min -> 5/h; begins anew, what was consumed no longer counts"]),
        ("5/min", "5/min gcra", &["p: limit 5/min -> 5/min gcra; begins anew, what was consumed no longer counts"]),
        (
            "5/min gcra burst=5",
            "5/min gcra burst=9",
            &["p: limit 5/min gcra -> 5/min gcra burst=9; what was consumed counts on"],
        ),
        ("5/min name=x", "9/h name=x", &["p: limit 5/min name=x -> 9/h name=x; what was consumed counts on"]),
        (
            "5/h slots resolution=10min",
            "5/h slots resolution=20min",
            &[
                "p: limit 5/h slots resolution=10min -> 5/h slots resolution=20min; begins anew, what was consumed no longer counts",
            ],
        ),
        (
            "5/h fixed",
            "5/h fixed align=clock",
            &["p: limit 5/h fixed -> 5/h fixed align=clock; begins anew, what was consumed no longer counts"],
        ),
        ("5/min", "5/min, 20/h", &["p: limit 20/h added; it begins anew"]),
        ("5/min, 20/h", "20/h", &["p: limit 5/min removed"]),
        (
            "5/min, 20/h",
            "6/min, 20/d, 1/s",
            &[
                "p: limit 5/min -> 6/min; what was consumed counts on",
                "p: limit 20/h -> 20/d; begins anew, what was consumed no longer counts",
                "p: limit 1/s added; it begins anew",
            ],
        ),
        ("5/min, 20/h", "20/h, 5/min", &["p: limit order 5/min, 20/h -> 20/h, 5/min"]),
    ] {
        assert_eq!(told(&format!("limit: '{old}'"), &format!("limit: '{new}'")), facts, "{old} -> {new}");
    }
}

#[test]
fn every_field_has_its_words() {
    for (old, new, fact) in [
        ("", "mode: nary", "p: mode binary -> nary"),
        ("", "on_error: deny", "p: on_error local -> deny"),
        ("", "key: [address, user]", "p: key parts none -> address, user; keys are others"),
        ("", "allow: [a, 'b*', c, d, e]", r#"p: allow list: added "a", "b*", "c" and 2 more"#),
        ("deny: [a, b]", "deny: [a]", r#"p: deny list: removed "b""#),
        ("", "shadow: true", "p: shadow on: nobody is refused"),
        ("shadow: true", "", "p: shadow off: requests are refused"),
        ("", "candidate: 3/min", "p: candidate added, 3/min"),
        ("candidate: 3/min", "candidate: 4/min", "p: candidate 3/min -> 4/min; what was consumed counts on"),
        ("candidate: 3/min", "", "p: candidate removed"),
        ("", "ban: 10min after 20/min refusals", "p: ban added, 10min after 20/min refusals, up to 1d"),
        (
            "ban: 10min after 20/min refusals",
            "ban: '20min after 20/min refusals, up to 2d'",
            "p: ban 10min after 20/min refusals, up to 1d -> 20min after 20/min refusals, up to 2d",
        ),
        ("ban: 10min after 20/min refusals", "", "p: ban removed"),
        ("", "usage: on", "p: usage on"),
        ("", "alerts: off", "p: alerts 80 %, 95 % -> off"),
        ("alerts: [50]", "alerts: [50, 60]", "p: alerts 50 % -> 50 %, 60 %"),
    ] {
        assert_eq!(told(&format!("limit: 5/min, {old}"), &format!("limit: 5/min, {new}")), [fact]);
    }
    assert_eq!(told("limit: 5/min, note: a", "limit: 5/min, note: b"), [] as [&str; 0]);
}

#[test]
fn overrides_are_told_by_their_keys() {
    let with = |overrides: &str| format!("limit: 5/min, overrides: [{overrides}]");
    let a = "{key: a, limit: 6/min}";
    for (old, new, facts) in [
        ("", a, &[r#"p: override of "a" added, 6/min"#][..]),
        (a, "", &[r#"p: override of "a" removed, was 6/min"#]),
        (a, "{key: a, limit: 7/min}", &[r#"p: override of "a": 6/min -> 7/min; what was consumed counts on"#]),
        (
            a,
            "{key: a, limit: 6/min, until: 2099-01-31}",
            &[r#"p: override of "a": without end -> until 2099-02-01T00:00:00Z"#],
        ),
        (a, "{key: a, limit: 6/min, note: why}", &[]),
        (
            "{key: a, limit: 1/s}, {key: b, limit: 1/s}",
            "{key: b, limit: 1/s}, {key: a, limit: 1/s}",
            &["p: overrides in another order: the first that matches counts"],
        ),
    ] {
        assert_eq!(told(&with(old), &with(new)), facts, "{old} -> {new}");
    }
}

#[test]
fn policies_come_and_go_and_a_webhook_is_not_told() {
    let none = Config::default();
    let all = config("{webhook: 'http://secret@host/', allow: [x], policies: {a: 1/s, b: {limit: 2/s, shadow: on}}}");
    let added = changes(&none, &all);
    assert_eq!(
        added,
        [
            "a: added, 1/s; 1 key or pattern allowed",
            "b: added, 2/s; shadow; 1 key or pattern allowed",
            "webhook: added",
        ]
    );
    assert_eq!(changes(&all, &all), [] as [&str; 0]);
    let other = config("{webhook: 'http://other@host/', allow: [x], policies: {b: {limit: 2/s, shadow: on}}}");
    assert_eq!(
        changes(&all, &other),
        ["a: removed, and what was consumed under it is no longer asked for", "webhook: changed"]
    );
    assert_eq!(changes(&other, &config("policies: {}")).last().map(String::as_str), Some("webhook: removed"));
}

#[test]
fn a_change_of_all_policies_is_reported_once() {
    let old = config("{policies: {a: 1/s, b: 2/s, c: 3/s}}");
    let new = config("{deny: [x], policies: {a: 1/s, b: {limit: 2/s, allow: [y]}, c: 4/s}}");
    assert_eq!(
        changes(&old, &new),
        [
            r#"all policies: deny list: added "x""#,
            r#"b: allow list: added "y""#,
            "c: limit 3/s -> 4/s; what was consumed counts on",
        ]
    );
    // With a single policy nothing is combined.
    assert_eq!(
        changes(&config("policies: {a: 1/s}"), &config("{deny: [x], policies: {a: 1/s}}")),
        [r#"a: deny list: added "x""#]
    );
}
