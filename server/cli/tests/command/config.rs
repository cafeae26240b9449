//! `tollgate config check` and `schema` from end to end.

use crate::support::{file, json, tollgate};

/// A policy file that only its owner may write, whatever the umask.
pub(crate) fn policy_file(name: &str, text: &str) -> String {
    let path = file(name, text.as_bytes());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    path
}

#[test]
fn a_right_file_is_said_in_words() {
    let path = policy_file(
        "right.yaml",
        "deny: [\"bad:*\"]
webhook: http://user:secret@127.0.0.1/
policies:
  login:
    limit: 5/min, 20/h
    key: [adress]
    overrides: [{key: vip, limit: 9/min, until: 2020-01-31}]
    ban: 10min after 20/min refusals
",
    );
    let out = tollgate(&["config", "check", &path], b"").ok();
    let head = format!(
        "{path}: 1 policy, no mistake
near-limit alerts are posted to a webhook

login  5/min, 20/h
  keys are made of adress
  1 key or pattern always refused
  \"vip\" has 9/min, before 2020-02-01T00:00:00Z
  ban 10min after 20/min refusals, up to 1d
  5/min (sliding)
    At most 5 in every interval of 1min, wherever it begins: exact.
"
    );
    assert!(out.starts_with(&head), "{out}");
    let warnings = format!(
        "
warning: {path}:6:11: policies.login.key[0]: expected address, method, path, host, header:NAME or the name of a field, found \"adress\"
  6 |     key: [adress]
    |           ^
hint: adress is a field that the caller gives; did you mean address?
warning: {path}:7:49: policies.login.overrides[0].until: expected a moment to come, found \"2020-01-31\"
  7 |     overrides: [{{key: vip, limit: 9/min, until: 2020-01-31}}]
    |                                                 ^
hint: the override has ended and is not used
"
    );
    assert!(out.ends_with(&warnings), "{out}");
    let document = json(&tollgate(&["config", "check", &path, "--json"], b"").ok());
    assert_eq!(document["valid"], true);
    assert_eq!(document["policies"][0]["limit"], "5/min, 20/h");
    assert_eq!(document["policies"][0]["ban"], "10min after 20/min refusals, up to 1d");
    assert_eq!((&document["warnings"][1]["line"], &document["warnings"][1]["column"]), (&7.into(), &49.into()));
    assert!(!out.contains("secret") && !document.to_string().contains("secret"));
}

#[test]
fn a_wrong_file_is_told_by_every_mistake() {
    let path = policy_file(
        "wrong.toml",
        "webhook = \"gopher://user:secret@host\"\n[policies.login]\nlimit = \"5/parsec\"\nmdoe = 'nary'\n",
    );
    let expected = format!(
        "error: {path}:1:11: webhook: expected a URL with http:// or https:// and a host, found another text
hint: of at most 2048 visible ASCII characters, such as http://127.0.0.1:9093/alerts
error: {path}:3:12: policies.login.limit: expected a unit (us, ms, s, min, h, d, w), found \"parsec\"
  3 | limit = \"5/parsec\"
    |            ^
hint: for example \"100/min\"
error: {path}:4:1: policies.login.mdoe: expected a field of a policy, found \"mdoe\"
  4 | mdoe = 'nary'
    | ^
hint: did you mean mode?
{path} has 3 mistakes
"
    );
    assert_eq!(tollgate(&["config", "check", &path], b"").failed(), expected);
    let run = tollgate(&["config", "check", &path, "--json"], b"");
    let document = json(&run.ended(2));
    assert_eq!(document["valid"], false);
    assert_eq!(document["errors"].as_array().map(Vec::len), Some(3));
    assert_eq!(document["errors"][1]["path"], "policies.login.limit");
    assert!(!document.to_string().contains("secret"));
    let one = policy_file("one.yaml", "policies: {login: 5/parsec}");
    assert_eq!(
        tollgate(&["config", "check", &one], b"").failed(),
        format!(
            "error: {one}:1:21: policies.login: expected a unit (us, ms, s, min, h, d, w), found \"parsec\"
  1 | policies: {{login: 5/parsec}}
    |                     ^
hint: for example \"100/min\"
"
        )
    );
    assert_eq!(
        tollgate(&["config", "check", "nowhere.yaml"], b"").failed(),
        "error: nowhere.yaml: expected a file that can be read, found No such file or directory (os error 2)
hint: is the path right?
"
    );
}

#[test]
fn the_schema_is_a_json_document() {
    let out = tollgate(&["config", "schema"], b"").ok();
    assert_eq!(json(&out)["$schema"], "https://json-schema.org/draft/2020-12/schema");
}
