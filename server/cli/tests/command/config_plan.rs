//! `tollgate config plan` from end to end.

use std::fs;

use tollgate_random::Rng;

use crate::config::policy_file;
use crate::support::{file, json, path, tollgate};

/// A log of some keys, one of them busy; `policies` are named in turn if there are any.
fn log(name: &str, lines: u64, policies: &[&str]) -> String {
    let mut rng = Rng::new(7);
    let (mut at, mut text) = (1_700_000_000_000_000, String::new());
    for line in 0..lines {
        at += rng.below(2_000_000);
        let key = rng.below(12) * rng.below(2);
        let cost = if rng.one_in(10) { rng.below(4) } else { 1 };
        let policy = match policies.get(line as usize % policies.len().max(1)) {
            Some(policy) => format!("\"policy\":\"{policy}\","),
            None => String::new(),
        };
        text += &format!("{{\"t\":{at},{policy}\"key\":\"user:{key}\",\"cost\":{cost}}}\n");
    }
    file(name, text.as_bytes())
}

#[test]
fn a_change_is_told_in_words() {
    let old = policy_file("plan_words_old.yaml", "policies: {login: 5/min, gone: 1/s}");
    let new = policy_file("plan_words_new.toml", "policies.login = \"10/min\"\npolicies.api = \"100/min\"\n");
    assert_eq!(
        tollgate(&["config", "plan", &new, "--from", &old], b"").ok(),
        format!(
            "from {old} to {new}: 3 changes
  - login: limit 5/min -> 10/min; what was consumed counts on
  - api: added, 100/min
  - gone: removed, and what was consumed under it is no longer asked for
"
        )
    );
    assert_eq!(
        tollgate(&["config", "plan", &new], b"").ok(),
        format!("from nothing to {new}: 2 changes\n  - login: added, 10/min\n  - api: added, 100/min\n")
    );
    assert_eq!(
        tollgate(&["config", "plan", &old, "--from", &old], b"").ok(),
        format!("from {old} to {old}: 0 changes\n")
    );
    let wrong = policy_file("plan_words_wrong.yaml", "policies: {login: 5}");
    let told = tollgate(&["config", "plan", &new, "--from", &wrong], b"").failed();
    assert!(told.starts_with(&format!("error: {wrong}:1:19: policies.login: expected policy text")), "{told}");
}

/// Refusals and flips are those that `tollgate replay` computes for both texts.
#[test]
fn a_log_shows_what_replay_shows() {
    let log = log("plan_replay.jsonl", 3_000, &[]);
    let decisions = path("plan_replay_decisions.jsonl");
    for (name, before, after) in [
        ("sliding", "5/min, 20/h", "3/min, 20/h"),
        ("gcra", "10/min gcra burst=20", "20/min gcra burst=5"),
        ("other", "5/min fixed", "5/min slots resolution=10s"),
        ("estimate", "9/min estimate", "9/min spacing=2s"),
    ] {
        let old = policy_file(&format!("plan_{name}_old.yaml"), &format!("policies: {{p: '{before}'}}"));
        let new = policy_file(&format!("plan_{name}_new.yaml"), &format!("policies: {{p: '{after}'}}"));
        let plan = json(&tollgate(&["config", "plan", &new, "--from", &old, "--log", &log, "--json"], b"").ok());
        let replay = ["replay", &log, "-p", before, "-p", after, "--json", "--decisions", decisions.to_str().unwrap()];
        let replay = json(&tollgate(&replay, b"").ok());
        let changed = &plan["log"]["changed"][0];
        assert_eq!(plan["log"]["requests"], replay["requests"]);
        assert_eq!(changed["requests"], replay["requests"], "{name}");
        assert_eq!(changed["refused_before"], replay["policies"][0]["refused"], "{name}");
        assert_eq!(changed["refused_after"], replay["policies"][1]["refused"], "{name}");
        let text = fs::read_to_string(&decisions).unwrap();
        let allowed: Vec<bool> = text.lines().map(|line| json(line)["allowed"] == true).collect();
        let flips = |from: bool| allowed.chunks(2).filter(|pair| pair[0] == from && pair[1] != from).count();
        assert_eq!(changed["newly_refused"], flips(true), "{name}");
        assert_eq!(changed["newly_allowed"], flips(false), "{name}");
        assert!(flips(true) > 0, "{name} tells nothing");
    }
}

#[test]
fn lists_overrides_and_shadow_decide_in_a_log() {
    let lines: String = [("a", 0), ("a", 1), ("b", 2), ("b", 3), ("c", 4), ("c", 5), ("vip", 6), ("vip", 7)]
        .map(|(key, at)| format!("{{\"t\":{},\"key\":\"{key}\"}}\n", 1_700_000_000 + at))
        .concat();
    let lines = lines + "{\"t\":1700086400,\"key\":\"vip\"}\n{\"t\":1700086401,\"key\":\"vip\"}\n";
    let old = policy_file("plan_rules_old.yaml", "policies: {p: {limit: 1/h}, s: {limit: 1/h, shadow: on}}");
    let new = policy_file(
        "plan_rules_new.yaml",
        "deny: [\"b*\"]
policies:
  p: {limit: 1/h, allow: [a], overrides: [{key: v?p, limit: 5/h, until: \"2023-11-15T12:00:00Z\"}]}
  s: {limit: 1/h, shadow: on}
",
    );
    let args = ["config", "plan", &new, "--from", &old, "--log", "-", "--json"];
    let plan = json(&tollgate(&args, lines.as_bytes()).ok());
    let [p, s] = [&plan["log"]["changed"][0], &plan["log"]["changed"][1]];
    // Before: the second of each key, and of vip on both days. After: b twice, c once, vip once the override ended.
    assert_eq!((p["refused_before"].as_u64(), p["refused_after"].as_u64()), (Some(5), Some(4)));
    assert_eq!((p["newly_refused"].as_u64(), p["newly_allowed"].as_u64()), (Some(1), Some(2)));
    assert_eq!((p["keys"].as_u64(), p["keys_changed"].as_u64()), (Some(4), Some(3)));
    assert_eq!(p["hardest"][0]["key"], "b");
    assert_eq!((s["refused_before"].as_u64(), s["refused_after"].as_u64()), (Some(0), Some(0)));
    let text = tollgate(&args[..7], lines.as_bytes()).ok();
    let table = "
p: 1/h
  requests        10
  refused before   5  50.0 %
  refused after    4  40.0 %
  newly refused    1  10.0 %
  newly allowed    2  20.0 %
  decisions flip for 3 of 4 keys

  keys hit hardest  requests  before  after  newly refused  allowed
  b                        2       1      2              1        0
  a                        2       1      0              0        1
  vip                      4       2      1              0        1

s: 1/h
  requests        10
  refused before   0  0.0 %
  refused after    0  0.0 %
  newly refused    0  0.0 %
  newly allowed    0  0.0 %
  no decision flips
";
    assert!(text.ends_with(table), "{text}");
}

/// Where lines name policies, each request is decided by its own; the fields of a key are its parts.
#[test]
fn lines_may_name_their_policies() {
    let lines = "{\"policy\":\"api\",\"t\":1,\"tenant\":\"acme\",\"path\":\"/a|b\"}\n\
                 {\"policy\":\"api\",\"t\":2,\"tenant\":\"acme\",\"path\":\"/a|b\"}\n\
                 {\"policy\":\"api\",\"t\":3,\"tenant\":\"other\",\"path\":\"/\"}\n\
                 {\"policy\":\"mail\",\"t\":4,\"tenant\":\"acme\",\"path\":\"/a|b\"}\n\
                 {\"policy\":\"else\",\"t\":5,\"tenant\":\"acme\",\"path\":\"/\"}\n";
    let old = policy_file("plan_named_old.yaml", "policies: {api: 1/h, mail: 1/h, same: 1/s}");
    let new = policy_file(
        "plan_named_new.yaml",
        "policies: {api: {limit: 1/h, key: [tenant, path], allow: [[acme, '/a|b']]}, mail: 2/h, same: 1/s}",
    );
    let args = ["config", "plan", &new, "--from", &old, "--log", "-", "--key", "tenant,path", "--json"];
    let plan = json(&tollgate(&args, lines.as_bytes()).ok());
    let changed = plan["log"]["changed"].as_array().unwrap();
    assert_eq!(plan["log"]["lines_name_policies"], true);
    assert_eq!(changed.len(), 2);
    assert_eq!((&changed[0]["policy"], &changed[0]["requests"]), (&"api".into(), &3.into()));
    assert_eq!((&changed[0]["newly_allowed"], &changed[0]["newly_refused"]), (&1.into(), &0.into()));
    assert_eq!(changed[0]["hardest"][0]["key"], "acme /a|b");
    assert_eq!((&changed[1]["policy"], &changed[1]["requests"]), (&"mail".into(), &1.into()));
}

#[test]
fn two_runs_are_byte_identical_and_policies_can_be_chosen() {
    let log = log("plan_twice.jsonl", 2_000, &["a", "b", "c"]);
    let old = policy_file("plan_twice_old.yaml", "policies: {a: 2/min, b: 3/min, c: 1/s}");
    let new = policy_file("plan_twice_new.yaml", "policies: {a: 1/min, b: 9/min, c: 1/s}");
    let args = ["config", "plan", &new, "--from", &old, "--log", &log];
    let text = tollgate(&args, b"").ok();
    assert_eq!(text, tollgate(&args, b"").ok());
    assert!(text.contains("\na: 2/min -> 1/min\n") && text.contains("\nb: 3/min -> 9/min\n"), "{text}");
    let one = tollgate(&[&args[..], &["--policy", "b"]].concat(), b"").ok();
    assert!(!one.contains("\na: 2/min -> 1/min\n") && one.contains("\nb: 3/min -> 9/min\n"), "{one}");
    assert_eq!(
        tollgate(&[&args[..], &["--policy", "c"]].concat(), b"").failed(),
        "error: no policy \"c\" decides in another way\nhint: these do: a, b\n"
    );
    let many: String = (0..17).map(|number| format!("  p{number}: 1/s\n")).collect();
    let many = policy_file("plan_many.yaml", &format!("policies:\n{many}"));
    let lines = b"{\"t\":1,\"key\":\"a\"}\n";
    let told = tollgate(&["config", "plan", &many, "--log", "-"], lines).failed();
    assert!(told.starts_with("error: 17 policies decide in another way; a log shows at most 16 at once\nhint: "));
    let named = b"{\"t\":1,\"key\":\"a\",\"policy\":\"p3\"}\n";
    let plan = json(&tollgate(&["config", "plan", &many, "--log", "-", "--json"], named).ok());
    assert_eq!(plan["log"]["changed"][3]["requests"], 1);
    let told = tollgate(&["config", "plan", &new, "--log", "-"], b"").failed();
    assert!(told.starts_with("error: standard input is empty\n"), "{told}");
}
