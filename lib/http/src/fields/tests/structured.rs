//! Structured fields, read by a third-party parser: it finds the same names and the same integers, and writes the same
//! bytes again.

use http::HeaderMap;
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};
use tollgate_kernel::Wait;
use tollgate_random::Rng;

use super::random::RandomCases;
use super::{DecisionCase, HeaderFields};
use crate::dialect::HeaderDialect;
use crate::fields::list::members;
use crate::text::{MAX, quote};

fn list(text: &str) -> Vec<Item> {
    let list: List = Parser::new(text).parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(list.serialize().as_deref(), Some(text));
    let item = |entry| match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(_) => panic!("{text}"),
    };
    list.into_iter().map(item).collect()
}

fn integer(item: Option<&BareItem>) -> Option<u64> {
    item.map(|item| match item {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).unwrap(),
        other => panic!("{other:?}"),
    })
}

fn parameters(item: &Item) -> Vec<&str> {
    item.params.keys().map(|key| key.as_str()).collect()
}

fn field(headers: &HeaderMap, name: &str) -> String {
    headers[name].to_str().unwrap().to_owned()
}

/// Rounds up to whole seconds, at most [`MAX`].
fn seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000).min(MAX)
}

fn check_lists(decided: &DecisionCase, dialect: HeaderDialect) {
    let mut headers = HeaderMap::new();
    HeaderFields::new([dialect]).write(&decided.report(), &mut headers);
    let limits = decided.policy.limits();
    let policies = list(&field(&headers, "ratelimit-policy"));
    assert_eq!(policies.len(), limits.len());
    for (item, limit) in policies.iter().zip(limits) {
        assert_eq!(item.bare_item.as_string().map(|name| name.as_str()), Some(limit.name().as_str()));
        assert_eq!(integer(item.params.get("q")), Some(limit.count().min(MAX)));
        let window = (limit.period().get() >= 1_000_000).then(|| seconds(limit.period().get()));
        assert_eq!(integer(item.params.get("w")), window);
        assert_eq!(parameters(item), if window.is_some() { vec!["q", "w"] } else { vec!["q"] });
    }
    let written = list(&field(&headers, "ratelimit"));
    assert_eq!(written.len(), limits.len());
    let mut latest = None;
    for ((item, limit), detail) in written.iter().zip(limits).zip(&decided.details) {
        assert_eq!(item.bare_item.as_string().map(|name| name.as_str()), Some(limit.name().as_str()));
        let paced = limit.spacing().is_some() || limit.rule().loses_room();
        let left = if paced && detail.retry_after != Wait::NONE { 0 } else { detail.remaining.max(0).cast_unsigned() };
        assert_eq!(integer(item.params.get("r")), Some(left.min(MAX)));
        let wait = match (decided.decision.allowed, detail.fits) {
            (true, _) => Some(detail.retry_after.span().filter(|wait| wait.get() > 0).unwrap_or(detail.reset_after)),
            (false, true) => None,
            (false, false) => detail.retry_after.span(),
        };
        let written = integer(item.params.get("t"));
        assert_eq!(written, wait.map(|wait| seconds(wait.get())));
        assert_eq!(parameters(item), if written.is_some() { vec!["r", "t"] } else { vec!["r"] });
        latest = latest.max(written);
    }
    match headers.get("retry-after") {
        Some(value) => {
            let written: u64 = value.to_str().unwrap().parse().unwrap();
            assert!(!decided.decision.allowed && written <= MAX && latest.is_none_or(|latest| latest <= written));
            assert!(written >= seconds(decided.decision.retry_after.span().unwrap().get()));
        }
        None => assert!(decided.decision.allowed || decided.decision.retry_after.span().is_none()),
    }
}

fn check_dictionary(decided: &DecisionCase) {
    let mut headers = HeaderMap::new();
    HeaderFields::new([HeaderDialect::Draft7]).write(&decided.report(), &mut headers);
    let text = field(&headers, "ratelimit");
    let read: Dictionary = Parser::new(&text).parse().unwrap();
    assert_eq!(read.serialize().as_deref(), Some(text.as_str()));
    let keys: Vec<&str> = read.keys().map(|key| key.as_str()).collect();
    assert_eq!(keys, ["limit", "remaining", "reset"]);
    let entry = |key: &str| match &read[key] {
        ListEntry::Item(item) if item.params.is_empty() => integer(Some(&item.bare_item)).unwrap(),
        other => panic!("{other:?}"),
    };
    let written = decided.policy.limits().iter().zip(&decided.details).any(|(limit, detail)| {
        (entry("limit"), entry("remaining"))
            == (limit.count().min(MAX), detail.remaining.max(0).cast_unsigned().min(MAX))
    });
    assert!(written, "{text}: {decided:?}");
    let policies = list(&field(&headers, "ratelimit-policy"));
    for (item, limit) in policies.iter().zip(decided.policy.limits()) {
        assert_eq!(integer(Some(&item.bare_item)), Some(limit.count().min(MAX)));
        let window = (limit.period().get() >= 1_000_000).then(|| seconds(limit.period().get()));
        assert_eq!(integer(item.params.get("w")), window);
    }
    assert_eq!(policies.len(), decided.policy.limits().len());
}

#[test]
fn random_decisions_are_parsed_as_they_were_written() {
    for seed in 0..3_000 {
        let mut cases = RandomCases::new(seed);
        for decided in [cases.decided(), cases.strange()] {
            let checked = std::panic::catch_unwind(|| {
                check_lists(&decided, HeaderDialect::Draft10);
                check_lists(&decided, HeaderDialect::Draft8);
                check_dictionary(&decided);
            });
            assert!(checked.is_ok(), "seed {seed}: {decided:?}");
        }
    }
}

#[test]
fn draft_6s_policies_and_envoys_limits_are_lists_too() {
    for seed in 0..1_000 {
        let decided = RandomCases::new(seed).decided();
        let mut headers = HeaderMap::new();
        HeaderFields::new([HeaderDialect::Draft6, HeaderDialect::Envoy]).write(&decided.report(), &mut headers);
        let limits = decided.policy.limits();
        assert_eq!(list(&field(&headers, "ratelimit-policy")).len(), limits.len(), "seed {seed}");
        let all = list(&field(&headers, "x-ratelimit-limit"));
        assert_eq!(all.len(), limits.len() + 1, "seed {seed}");
        for (item, limit) in all[1..].iter().zip(limits) {
            let name = item.params["name"].as_string().unwrap();
            assert_eq!(name.as_str(), limit.name(), "seed {seed}");
        }
    }
}

#[test]
fn names_of_any_characters_are_parsed_back() {
    let letters =
        ['a', '"', '\\', ' ', ',', ';', '=', '\u{e9}', '\u{1f600}', '\n', '\0', '~', '\u{7f}', '?', '%', '(', ':'];
    for seed in 0..5_000 {
        let mut rng = Rng::new(seed);
        let names: Vec<String> =
            (0..1 + rng.below(5)).map(|_| (0..rng.below(300)).map(|_| rng.pick(&letters)).collect()).collect();
        let mut text = Vec::new();
        for (member, number) in members(names.iter().map(String::as_str)).iter().zip(0..) {
            text.extend_from_slice(member);
            crate::text::integer(number, &mut text);
        }
        let read = list(std::str::from_utf8(&text).unwrap());
        assert_eq!(read.len(), names.len(), "seed {seed}");
        for ((item, name), number) in read.iter().zip(&names).zip(0..) {
            let expected: String =
                name.chars().map(|letter| if (' '..='~').contains(&letter) { letter } else { '?' }).collect();
            assert_eq!(item.bare_item.as_string().unwrap().as_str(), expected, "seed {seed}");
            assert_eq!(integer(item.params.get("r")), Some(number), "seed {seed}");
        }
        let mut alone = Vec::new();
        quote(&names[0], &mut alone);
        let item: Item = Parser::new(&alone).parse().unwrap();
        assert_eq!(item.serialize().as_bytes(), alone, "seed {seed}");
    }
}
