//! What is told of rules, over HTTP and to Redis clients.

use serde_json::json;
use tollgate_kernel::Micros;

use crate::config::support::start;

const YAML: &str = r#"
allow: [monitoring]
policies:
  login:
    limit: "2/min, 20/h"
    mode: binary
    key: [address, header:x-tenant]
    on_error: deny
    deny: ["tor:*"]
    overrides:
      - {key: "vip:*", limit: 100/min, until: 2027-01-31, note: agreed until the relaunch}
    candidate: 1/min
    ban: 10min after 3/min refusals, up to 1d
    alerts: [80, 95]
    note: whoever logs in
  field:
    limit: 5/min
    key: [user, path]
  shown: {limit: 1/min, shadow: true}
  short: 100/min
"#;

#[test]
fn decisions_tell_their_rule() {
    let tested = start("rules", YAML);
    let check = |policy: &str, key: &str| tested.post("/v1/check", &json!({"key": key, "policy": policy}).to_string());
    assert_eq!(
        (&check("login", "a")["rule"], &check("login", "monitoring")["rule"]),
        (&json!("policy"), &json!("allow"))
    );
    let told = check("login", "tor:1");
    assert_eq!((&told["rule"], &told["allowed"], &told["retry_after_us"]), (&json!("deny"), &json!(false), &json!(-1)));
    let told = check("login", "vip:1");
    assert_eq!((&told["rule"], &told["remaining"]), (&json!("override"), &json!(99)));
    assert_eq!(told["limits"][0]["name"], "100/min");
    assert_eq!((&check("shown", "a")["rule"], &check("shown", "a")["rule"]), (&json!("policy"), &json!("shadow")));
    assert_eq!(check("5/min", "a")["rule"], "policy");
    // In a batch too, and all or none.
    let items = json!([
        {"key": "monitoring", "policy": "login"}, {"key": "tor:1", "policy": "login"}, {"key": "vip:2", "policy": "login"},
        {"key": "x", "policy": "short"},
    ]);
    for all_or_none in [false, true] {
        let told = tested.post("/v1/batch", &json!({"items": items, "all_or_none": all_or_none}).to_string());
        let rules: Vec<&str> =
            told["decisions"].as_array().unwrap().iter().map(|item| item["rule"].as_str().unwrap()).collect();
        assert_eq!(rules, ["allow", "deny", "override", "policy"], "{told}");
    }
}

#[test]
fn explanations_tell_why() {
    let tested = start("explain", YAML);
    let explain = |key: &str| tested.post("/v1/explain", &json!({"key": key, "policy": "login"}).to_string());
    let told = explain("vip:7");
    assert_eq!((&told["generation"], &told["because"]["rule"]), (&json!(1), &json!("override")));
    let said = &told["because"]["override"];
    assert_eq!((&said["key"], &said["note"]), (&json!("vip:*"), &json!("agreed until the relaunch")));
    assert_eq!(said["until"], "2027-02-01T00:00:00.000Z", "the first moment in which it does not count");
    for _ in 0..5 {
        tested.post("/v1/check", r#"{"key": "a", "policy": "login"}"#);
    }
    tested.clock.advance(Micros::from_secs(60));
    let told = explain("a");
    assert_eq!((&told["now"]["rule"], &told["now"]["retry_after_us"]), (&json!("ban"), &json!(540_000_000)));
    assert_eq!(told["because"]["ban"]["left_us"], 540_000_000);
    assert_eq!((&told["because"]["ban"]["level"], &told["because"]["shadow"]), (&json!(1), &json!(false)));
    let candidate = json!({"policy": "1/min", "decided": 5, "would_refuse": 1, "would_allow": 0});
    assert_eq!(told["because"]["candidate"], candidate);
    // The same in words.
    let mut client = tested.client();
    let said = client.text(&["TG.EXPLAIN", "a", "login"]);
    for line in [
        "rule: ban; generation 1",
        "banned for another 9min, number 1 in a row",
        "candidate 1/min: of 5 decisions it would refuse 1 that were allowed, and allow 0 that were refused",
        "denied: it would first pass in 9min",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let said = client.text(&["TG.EXPLAIN", "vip:7", "login"]);
    assert!(said.contains("override for vip:*: 100/min, until 2027-02-01T00:00:00.000Z: agreed"), "{said}");
    assert!(client.text(&["TG.EXPLAIN", "a", "shown"]).contains("shadow: nobody is refused"));
    let bare = tested.post("/v1/explain", r#"{"key": "a", "policy": "5/min"}"#);
    assert!(bare.get("generation").is_none() && bare.get("because").is_none(), "{bare}");
    assert!(!client.text(&["TG.EXPLAIN", "a", "5/min"]).contains("generation"));
    tested.change(&YAML.replace("2/min", "3/min"));
    assert_eq!(explain("b")["generation"], 2);
}

#[test]
fn policies_are_listed_with_everything() {
    let tested = start("listed", YAML);
    let listed = |target: &str| -> serde_json::Value {
        let (status, text) = tested.get(target);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    let told = listed("/v1/policies");
    assert_eq!((&told["generation"], &told["count"]), (&json!(1), &json!(4)));
    let login = json!({
        "name": "login", "policy": "2/min, 20/h", "mode": "binary", "on_error": "deny", "key": ["address", "header:x-tenant"],
        "allow": {"count": 1, "entries": ["monitoring"]}, "deny": {"count": 1, "entries": ["tor:*"]},
        "overrides": {"count": 1, "entries": [{"key": "vip:*", "policy": "100/min", "until": "2027-02-01T00:00:00.000Z",
            "note": "agreed until the relaunch"}]},
        "shadow": false, "candidate": {"policy": "1/min", "decided": 0, "would_refuse": 0, "would_allow": 0},
        "ban": "10min after 3/min refusals, up to 1d", "usage": false, "alerts": [80, 95], "note": "whoever logs in",
    });
    assert_eq!(told["policies"][0], login);
    assert_eq!(listed("/v1/policies?name=login")["policies"], json!([login]));
    let names = |told: serde_json::Value| -> Vec<String> {
        told["policies"].as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(told), ["login", "field", "shown", "short"]);
    assert_eq!(names(listed("/v1/policies?after=field")), ["shown", "short"]);
    assert_eq!(tested.get("/v1/policies?name=nosuch").0, 404);
    assert_eq!(listed("/v1/policies?name=login&after=field")["policies"], json!([]), "it stands before");
    assert_eq!(names(listed("/v1/policies?name=short&after=field")), ["short"]);
}

#[test]
fn long_lists_and_many_policies_are_told_in_pieces() {
    let keys: Vec<String> = (0..5_000).map(|number| format!("k{number}")).collect();
    let more: String = (0..2_500).map(|number| format!("  p{number}: 1/s\n")).collect();
    let tested = start("pieces", &format!("policies:\n  a: {{limit: 1/s, deny: [{}]}}\n{more}", keys.join(", ")));
    let listed = |target: &str| -> serde_json::Value { serde_json::from_str(&tested.get(target).1).unwrap() };
    let told = listed("/v1/policies");
    assert_eq!((&told["count"], told["policies"].as_array().unwrap().len()), (&json!(2_501), 1_000));
    assert_eq!(told["policies"][0]["deny"]["count"], 5_000);
    assert_eq!(told["policies"][0]["deny"]["entries"].as_array().unwrap().len(), 20);
    let told = listed("/v1/policies?name=a");
    assert_eq!(told["policies"][0]["deny"]["entries"].as_array().unwrap().len(), 5_000);
    assert_eq!(
        listed("/v1/policies?after=p2498")["policies"],
        json!([listed("/v1/policies?name=p2499")["policies"][0]])
    );
}

#[test]
fn keys_are_made_of_parts() {
    let tested = start("parts", YAML);
    let check = |body: serde_json::Value| tested.post("/v1/check", &body.to_string());
    let parts = json!({"policy": "field", "parts": {"user": "4|2", "path": "/x"}});
    assert_eq!(check(parts.clone())["remaining"], 4);
    assert_eq!(check(json!({"policy": "field", "key": r"4\|2|/x"}))["remaining"], 3, "as patterns write it");
    for path in ["/v1/peek", "/v1/explain"] {
        let told = tested.post(path, &parts.to_string());
        assert_eq!(told.get("now").unwrap_or(&told)["remaining"], 3);
    }
    for (body, said) in [
        (json!({"policy": "field", "parts": {"user": "1"}}), "parts: expected user, path, found no path"),
        (
            json!({"policy": "field", "parts": {"user": "1", "path": "/", "x": "y"}}),
            "parts: expected user, path, found \"x\"",
        ),
        (
            json!({"policy": "field", "parts": {"user": "1", "path": "/"}, "key": "k"}),
            "expected parts or a key, found both",
        ),
        (json!({"policy": "field"}), "expected parts, key (text)"),
        (json!({"policy": "short", "parts": {"user": "1"}}), "the keys of this policy are not made of parts"),
        (json!({"policy": "field", "parts": {"user": 1, "path": "/"}}), "parts"),
    ] {
        let told = check(body);
        let status = if said.starts_with("parts: ") || said.starts_with("the keys") { 409 } else { 400 };
        assert!(told["status"] == status && told["detail"].as_str().unwrap().contains(said), "{told}");
    }
    let twice = tested.post("/v1/check", r#"{"policy": "field", "parts": {"user": "1", "user": "2", "path": "/"}}"#);
    assert!(twice["detail"].as_str().unwrap().contains("expected \"user\" once"), "{twice}");
    // In a batch, and for Redis clients as one key.
    let told = tested.post("/v1/batch", &json!({"items": [parts]}).to_string());
    assert_eq!(told["decisions"][0]["remaining"], 2);
    assert_eq!(tested.client().ask(&["TG.PEEK", r"4\|2|/x", "field"])[2], 2);
}

#[test]
fn the_gate_makes_the_key_of_what_it_sees() {
    let tested = start("gate", YAML);
    let gate = |target: &str, headers: &str| {
        tested.http(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
    };
    assert_eq!(gate("/v1/gate?policy=login", "X-Tenant: acme\r\n").0, 200);
    assert_eq!(tested.client().ask(&["TG.PEEK", "127.0.0.1|acme", "login"])[2], 1);
    assert_eq!(gate("/v1/gate?policy=login", "X-Tenant: other\r\n").0, 200, "another key");
    assert_eq!(gate("/v1/gate?policy=login", "X-Tenant: acme\r\n").0, 200);
    let (status, text) = gate("/v1/gate?policy=login", "X-Tenant: acme\r\n");
    assert!(status == 403 && text.contains("refused by 2/min"), "{text}");
    for (target, headers, said) in [
        ("/v1/gate?policy=login", "", "expected the header x-tenant"),
        ("/v1/gate?policy=login", "X-Tenant: a\r\nX-Tenant: b\r\n", "x-tenant: expected it once"),
        ("/v1/gate?policy=login&key_header=x-tenant", "X-Tenant: a\r\n", "key_header: expected none"),
        ("/v1/gate?policy=field", "", "found one with the part user"),
    ] {
        let (status, text) = gate(target, headers);
        assert!(status == 400 && text.contains(said), "{text}");
    }
    // A ban and a list are told as such.
    for _ in 0..2 {
        gate("/v1/gate?policy=login", "X-Tenant: acme\r\n");
    }
    let (status, text) = gate("/v1/gate?policy=login&deny=429", "X-Tenant: acme\r\n");
    assert!(status == 429 && text.contains("refused by a ban"), "{text}");
}

#[test]
fn callers_do_not_name_what_the_server_files_beside_policies() {
    let tested = start("beside", YAML);
    let mut client = tested.client();
    for words in [
        &["TG.CHECK", "a", "5/min", "NAME", "login--candidate"][..],
        &["TG.RESET", "a", "5/min", "NAME", "login--refusals"],
        &["FCALL", "tollgate", "1", "tg:{a}login--refusals", "5/min"],
    ] {
        let told = client.text(words);
        let expected = "expected a name without --";
        assert!(told.starts_with('-') && (told.contains(expected) || told.contains("NOPERM")), "{words:?}: {told}");
    }
    let told = tested.post("/v1/check", r#"{"key": "a", "policy": "5/min", "name": "x--y"}"#);
    assert!(told["detail"].as_str().unwrap().contains("NAME: expected a name without --"), "{told}");
}
