//! The metrics: bounded, readable, and without a key.

use std::collections::{HashMap, HashSet};

use super::client::{HttpTestOptions, HttpTestServer, tested, tested_with};
use tollgate_engine::Home;
use tollgate_kernel::Source;

const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Parses metrics strictly by the standard of their format; returns the value of each series.
fn read(text: &str, open: bool) -> HashMap<String, f64> {
    let (mut series, mut kinds, mut ended) = (HashMap::new(), HashMap::new(), false);
    let (mut last_help, mut last_type) = ("", "");
    for line in text.lines() {
        assert!(!ended, "lines behind EOF");
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            match words.as_slice() {
                ["EOF"] => ended = true,
                ["HELP", name, help] => {
                    assert!(!help.is_empty());
                    last_help = *name;
                }
                ["TYPE", name, kind] => {
                    assert_eq!(*name, last_help, "help and type are of one name");
                    let known: &[&str] = &["counter", "gauge", "histogram", "info"];
                    assert!(known[..if open { 4 } else { 3 }].contains(kind), "{name} {kind}");
                    last_type = *name;
                    assert!(kinds.insert((*name).to_owned(), (*kind).to_owned()).is_none(), "{name} twice");
                }
                _ => panic!("{line:?}"),
            }
            continue;
        }
        let (id, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let name = id.split('{').next().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        if let Some(labels) = id.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            labels_are_well_formed(labels);
        }
        let kind = kinds.get(last_type).unwrap_or_else(|| panic!("{name} has no type"));
        let ends: &[&str] = match (kind.as_str(), open) {
            ("counter", true) => &["_total"],
            ("info", true) => &["_info"],
            ("histogram", _) => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        assert!(ends.contains(&name.strip_prefix(last_type).expect(name)), "{name} is no series of {last_type} {kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
        assert!(series.insert(id.to_owned(), value).is_none(), "{id} twice");
    }
    assert_eq!(ended, open, "EOF is of OpenMetrics");
    series
}

/// Asserts that labels are `{name="value",…}` with quotes and line ends escaped.
fn labels_are_well_formed(labels: &str) {
    let mut rest = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect(labels);
    let mut names = HashSet::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").expect(labels);
        assert!(names.insert(name) && name.bytes().all(|byte| byte.is_ascii_lowercase()), "{labels}");
        let mut escaped = false;
        let end = behind.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        rest = &behind[end.expect(labels) + 1..];
        rest = rest.strip_prefix(',').unwrap_or_else(|| {
            assert!(rest.is_empty(), "{labels}");
            rest
        });
    }
}

async fn metrics(tested: &HttpTestServer) -> (String, HashMap<String, f64>) {
    let told = tested.get("/metrics").await;
    assert_eq!(told.header("content-type"), Some(PLAIN));
    let text = told.text();
    let series = read(&text, false);
    (text, series)
}

#[tokio::test]
async fn the_format_is_the_older_one_unless_the_newer_is_asked_for() {
    let tested = tested();
    tested.post("/v1/check", r#"{"key": "a", "policy": "2/min"}"#).await;
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                      q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let mut names = Vec::new();
    for (accept, kind) in [
        ("*/*", PLAIN),
        ("", PLAIN),
        ("text/plain", PLAIN),
        ("text/html, application/json", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", PLAIN),
        ("application/openmetrics-text", OPEN),
        ("text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0", OPEN),
        (prometheus, OPEN),
    ] {
        let told = tested.ask("GET", "/metrics", &[("Accept", accept)], "").await;
        assert_eq!((told.status, told.header("content-type")), (200, Some(kind)), "{accept}");
        let mut found: Vec<String> = read(&told.text(), kind == OPEN).into_keys().collect();
        found.sort();
        names.push(found);
    }
    assert!(names.windows(2).all(|two| two[0] == two[1]), "the series are the same");
    let text = tested.get("/metrics").await.text();
    for line in ["# TYPE tollgate_decisions_total counter", "# TYPE tollgate_build_info gauge"] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn decisions_and_requests_are_counted() {
    let tested = tested();
    for _ in 0..3 {
        tested.post("/v1/check", r#"{"key": "a", "policy": "2/min, 9/h"}"#).await;
    }
    tested.post("/v1/peek", r#"{"key": "a", "policy": "2/min, 9/h"}"#).await;
    tested.post("/v1/check", r#"{"key": "a", "policy": "2/min", "name": "login"}"#).await;
    tested.post("/v1/check", r#"{"key": "a", "policy": "3/min", "name": "login", "cost": 9}"#).await;
    tested.post("/v1/check", "{").await;
    tested.get("/nowhere").await;
    let (text, series) = metrics(&tested).await;
    for (id, value) in [
        (r#"tollgate_decisions_total{policy="2/min, 9/h",decision="allowed"}"#, 2.),
        (r#"tollgate_decisions_total{policy="2/min, 9/h",decision="denied"}"#, 1.),
        (r#"tollgate_denied_total{policy="2/min, 9/h",limit="2/min"}"#, 1.),
        (r#"tollgate_denied_total{policy="2/min, 9/h",limit="9/h"}"#, 0.),
        // Two policies of one name share their series; their limits are separate.
        (r#"tollgate_decisions_total{policy="login",decision="allowed"}"#, 1.),
        (r#"tollgate_decisions_total{policy="login",decision="denied"}"#, 1.),
        (r#"tollgate_denied_total{policy="login",limit="3/min"}"#, 1.),
        (r#"tollgate_decisions_total{policy="other",decision="allowed"}"#, 0.),
        (r#"tollgate_commands_total{front="http",command="check"}"#, 6.),
        (r#"tollgate_commands_total{front="http",command="peek"}"#, 1.),
        (r#"tollgate_commands_total{front="resp",command="tg.check"}"#, 0.),
        (r#"tollgate_errors_total{front="http",code="400"}"#, 1.),
        (r#"tollgate_errors_total{front="http",code="404"}"#, 1.),
        (r#"tollgate_connections{front="http"}"#, 1.),
        (r#"tollgate_connections_refused_total{reason="full"}"#, 0.),
        ("tollgate_store_keys", 2.),
        ("tollgate_store_overflow_decisions_total", 0.),
        ("tollgate_keyspace_keys", 0.),
        ("tollgate_keyspace_overflow_decisions_total", 0.),
        ("tollgate_decision_seconds_count", 7.),
        (r#"tollgate_decision_seconds_bucket{le="+Inf"}"#, 7.),
    ] {
        assert_eq!(series.get(id), Some(&value), "{id}\n{text}");
    }
    assert!(series["tollgate_store_bytes"] <= series["tollgate_store_cap_bytes"]);
    assert!(text.contains(&format!("tollgate_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[tokio::test]
async fn many_policies_names_and_keys_are_few_series() {
    // What callers choose does not grow the page.
    let login = "5/min".parse::<tollgate_kernel::Policy>().unwrap().with_name("login").unwrap();
    let tested = tested_with(HttpTestOptions { policies: vec![login], ..HttpTestOptions::default() });
    let engine = &tested.shared.engine;
    let long = |number: usize| {
        let limits: Vec<String> = (1..=32).map(|limit| format!("{}/{}min gcra burst=7", number + 7, limit)).collect();
        limits.join(", ")
    };
    let mut decisions = Vec::new();
    let mut check = async |text: &str, name: Option<&str>, key: &str| {
        let known = engine.policy(text.as_bytes(), name.map(str::as_bytes)).unwrap();
        engine.check_many(&known, &[key.as_bytes()], &tollgate_kernel::Request::ONE, &mut decisions).await.unwrap();
    };
    for number in 0..60 {
        check(&long(number), None, &format!("secret-{number}")).await;
    }
    for number in 0..800 {
        check("5/min", Some(&format!("name-{number}")), &format!("secret-{number}")).await;
    }
    for number in 1..=10_000 {
        check(&format!("{number}/min"), None, &format!("secret-{number}")).await;
    }
    // A policy of the server has its own label, even if it is used last.
    check("login", None, "secret").await;
    let (text, series) = metrics(&tested).await;
    assert_eq!(series[r#"tollgate_decisions_total{policy="login",decision="allowed"}"#], 1.);
    assert!(series.len() <= 2_000, "{} series", series.len());
    assert!(text.len() <= 1 << 20, "{} bytes", text.len());
    assert!(!text.contains("secret"), "a key is told");
    let policies: HashSet<&str> = series
        .keys()
        .filter(|id| id.starts_with("tollgate_decisions_total"))
        .map(|id| id.split('"').nth(1).unwrap())
        .collect();
    assert!(policies.len() <= 101 && policies.contains("other"), "{}", policies.len());
    let decided = series.iter().filter(|(id, _)| id.starts_with("tollgate_decisions_total"));
    assert_eq!(decided.map(|(_, value)| value).sum::<f64>(), 10_861., "every decision is counted");
}

#[tokio::test]
async fn every_family_is_in_the_runbook() {
    let guide = include_str!("../../../../../docs/running.md");
    let redis = tollgate_redis::Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
    for home in [None, Some(Home::redis(redis))] {
        let tested = tested_with(HttpTestOptions { home, ..HttpTestOptions::default() });
        let text = tested.get("/metrics").await.text();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(names.len() > 10, "{text}");
        for name in names {
            let is_told = [format!("`{name}`"), format!("`{name}{{")].iter().any(|word| guide.contains(word));
            assert!(is_told, "docs/running.md does not say what {name} means");
        }
    }
}

/// Returns the page for a file of that number of policies, each with a rule of some kind and each used, and that number
/// of keys.
async fn page_of(policies: usize, keys: usize, backwards: bool) -> (HttpTestServer, String, HashMap<String, f64>) {
    // Names that the store keeps apart: those in addition to policies, and that of bare text.
    let policies = policies.min(tollgate_memory::MAX_NAMES - 300);
    let rule = |number: usize| match number {
        0..100 => {
            ", candidate: 1/min, ban: 1h after 1/min refusals, deny: [d], allow: [a], overrides: [{key: o, limit: 1/h}]"
        }
        100..5_000 => ", shadow: true, deny: [d], allow: [a], overrides: [{key: o, limit: 1/h}]",
        _ => "",
    };
    let limits: Vec<String> = (1..=8).map(|limit| format!("2/{limit}min gcra")).collect();
    let line = |number: usize| match number {
        // Some have many limits.
        50..60 => format!("  p{number}: {{limit: \"{}\"{}}}\n", limits.join(", "), rule(number)),
        _ => format!("  p{number}: {{limit: 2/min{}}}\n", rule(number)),
    };
    let yaml: String = (0..policies).map(line).collect();
    let config =
        tollgate_config::read(&format!("policies:\n{yaml}"), tollgate_config::ConfigFormat::Yaml).unwrap().config;
    let tested = tested_with(HttpTestOptions { config, ..HttpTestOptions::default() });
    let engine = &tested.shared.engine;
    let mut decisions = Vec::new();
    let mut check = async |policy: &str, key: &str| {
        let known = engine.policy(policy.as_bytes(), None).unwrap();
        engine.check_many(&known, &[key.as_bytes()], &tollgate_kernel::Request::ONE, &mut decisions).await.unwrap();
    };
    // Each key is used more than once, so that every kind of event happens.
    for number in 0..policies {
        let number = if backwards { policies - 1 - number } else { number };
        for key in ["secret", "secret", "secret", "secret", "d", "a", "o", "o"] {
            check(&format!("p{number}"), key).await;
        }
    }
    for number in 0..keys {
        check(&format!("p{}", number % policies), &format!("secret-{number}")).await;
    }
    for number in 0..1_000 {
        check(&format!("{}/h", number + 1), "secret").await;
    }
    let (text, series) = metrics(&tested).await;
    let decided: f64 =
        series.iter().filter(|(id, _)| id.starts_with("tollgate_decisions_total")).map(|(_, value)| value).sum();
    assert_eq!(decided, (8 * policies + keys + 1_000) as f64, "every decision is counted");
    (tested, text, series)
}

fn assert_is_small(text: &str, series: &HashMap<String, f64>) {
    assert!(series.len() <= 2_000, "{} series", series.len());
    assert!(text.len() <= 1 << 20, "{} bytes", text.len());
    assert!(!text.contains("secret"), "a key is told");
}

#[tokio::test]
async fn ten_thousand_policies_with_rules_are_few_series() {
    // With fewer keys; the long form is below.
    let (_, text, series) = page_of(10_000, 20_000, true).await;
    assert_is_small(&text, &series);
    // The last policies of the file were used first, and have their own labels.
    let labels: HashSet<&str> = series
        .keys()
        .filter(|id| id.starts_with("tollgate_decisions_total"))
        .map(|id| id.split('"').nth(1).unwrap())
        .collect();
    assert!((50..=101).contains(&labels.len()) && labels.contains("other"), "{}", labels.len());
    assert!(!labels.contains("p0") && series[r#"tollgate_bans_total{policy="other"}"#] >= 100.);
    for rule in ["allow", "deny", "ban", "override", "shadow"] {
        let id = format!("tollgate_rule_decisions_total{{policy=\"other\",rule=\"{rule}\"}}");
        assert!(series[&id] > 0., "{id}");
    }
    // The policies with the most series are used first: as many series as there may be.
    let (tested, text, series) = page_of(10_000, 0, false).await;
    assert_is_small(&text, &series);
    let before = series.len();
    let dialects = &tested.shared.metrics.dialects;
    for dialect in tollgate_dialects::DIALECTS {
        dialects.took(dialect, std::time::Duration::from_micros(3));
        for source in [Source::Home, Source::Local, Source::Open, Source::Closed] {
            dialects.decided(dialect, source == Source::Home, source);
        }
    }
    let (text, series) = metrics(&tested).await;
    assert_is_small(&text, &series);
    let each = 2 + 3 + 22;
    assert_eq!(series.len(), before + each * tollgate_dialects::DIALECTS.len());
    let id = |label: &str| format!("tollgate_standin_decisions_total{{dialect=\"rolling\",source=\"{label}\"}}");
    assert_eq!((series[&id("local")], series[r#"tollgate_dialect_seconds_count{dialect="rolling"}"#]), (1., 1.));
    assert!(series.len() > 1_000 && series[r#"tollgate_bans_total{policy="p0"}"#] == 2., "{}", series.len());
}

/// The same with a million keys: `cargo test -p tollgate-daemon --release --lib -- --ignored --nocapture a_million_keys`.
#[tokio::test]
#[ignore = "a million keys, and how long a page takes"]
async fn a_million_keys_and_ten_thousand_policies_are_a_short_page() {
    let (tested, text, series) = page_of(10_000, 1_000_000, false).await;
    assert_is_small(&text, &series);
    let mut took: Vec<std::time::Duration> = (0..20)
        .map(|_| {
            let began = std::time::Instant::now();
            let text = crate::metrics::plain(
                &crate::metrics::exposition(&tested.shared.engine, &tested.shared.metrics).unwrap(),
            )
            .unwrap();
            assert!(!text.is_empty());
            began.elapsed()
        })
        .collect();
    took.sort();
    let began = std::time::Instant::now();
    let mut config = tested.shared.engine.generation().config.clone();
    config.policies.pop();
    tested.shared.engine.adopt(config).unwrap();
    println!(
        "{} series, {} bytes; a page takes {:?}, at most {:?}; a reload {:?}",
        series.len(),
        text.len(),
        took[10],
        took[19],
        began.elapsed()
    );
}
