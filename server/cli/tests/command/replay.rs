//! `tollgate replay` from end to end: inputs, outputs, faults.

use std::fs;
use std::io::Write;

use crate::support::{file, path, tollgate};

const JSON: &str = r#"{"t":1700000000,"key":"a"}
{"t":1700000000.5,"key":"a"}
{"t":1700000001,"key":"b","cost":2,"path":"/x"}
{"t":1700000002,"key":"a"}
{"t":1700000002,"key":"b"}
{"t":1700000006.000001,"key":"a"}
"#;

const REPORT: &str = "\
standard input: 6 requests, 7 units, 2 keys by key
2023-11-14T22:13:20Z to 2023-11-14T22:13:26.000001Z (6.000001s)
times read as seconds (--time-unit s)

1/5s, 5/h
  allowed  3  50.0 %
  refused  3  50.0 %  2 of 2 keys

  refused by  requests
  1/5s               3  100.0 %
  5/h                0    0.0 %

  keys hit hardest  refused  requests  first refusal           longest wait
  a                       2         4  2023-11-14T22:13:20.5Z          4.5s
  b                       1         2  2023-11-14T22:13:21Z           never
";

const POLICY: &[&str] = &["replay", "-", "--policy", "1/5s, 5/h"];

#[test]
fn shows_who_would_have_been_refused() {
    assert_eq!(tollgate(POLICY, JSON.as_bytes()).ok(), REPORT);
}

#[test]
fn json_says_the_same_to_programs() {
    let out = tollgate(&[POLICY, &["--json"]].concat(), JSON.as_bytes()).ok();
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!({
        "input": {"file": "standard input", "format": "json", "key": "key", "time_unit": "s", "lines": 6},
        "requests": 6, "peeks": 0, "units": 7, "keys": 2,
        "from": "2023-11-14T22:13:20Z", "to": "2023-11-14T22:13:26.000001Z", "span_us": 6_000_001,
        "out_of_order": {"count": 0, "first": []},
        "malformed": {"count": 0, "first": []},
        "policies": [{
            "policy": "1/5s, 5/h", "mode": "binary", "allowed": 3, "partial": 0, "refused": 3, "granted_units": 3,
            "keys_refused": 2, "longest_wait_us": -1,
            "limits": [
                {"name": "1/5s", "limit": "1/5s", "refused": 3},
                {"name": "5/h", "limit": "5/h", "refused": 0},
            ],
            "hardest": [
                {"key": "a", "refused": 2, "requests": 4, "first_refusal": "2023-11-14T22:13:20.5Z",
                 "first_refusal_us": 1_700_000_000_500_000u64, "longest_wait_us": 4_500_000},
                {"key": "b", "refused": 1, "requests": 2, "first_refusal": "2023-11-14T22:13:21Z",
                 "first_refusal_us": 1_700_000_001_000_000u64, "longest_wait_us": -1},
            ],
        }],
    });
    assert_eq!(document, expected);
}

#[test]
fn decisions_are_written_a_line_each() {
    let out = path("decisions.jsonl");
    let args = ["--decisions", out.to_str().unwrap()];
    assert_eq!(tollgate(&[POLICY, &args].concat(), JSON.as_bytes()).ok(), REPORT);
    let expected = r#"{"line":1,"t_us":1700000000000000,"key":"a","cost":1,"allowed":true,"granted":1,"remaining":0,"retry_after_us":0,"reset_after_us":3600000000,"limited_by":null}
{"line":2,"t_us":1700000000500000,"key":"a","cost":1,"allowed":false,"granted":0,"remaining":0,"retry_after_us":4500000,"reset_after_us":3599500000,"limited_by":"1/5s"}
{"line":3,"t_us":1700000001000000,"key":"b","cost":2,"allowed":false,"granted":0,"remaining":1,"retry_after_us":-1,"reset_after_us":0,"limited_by":"1/5s"}
"#;
    let written = fs::read_to_string(&out).unwrap();
    assert!(written.starts_with(expected), "{written}");
    assert_eq!(written.lines().count(), 6);
}

#[test]
fn several_policies_are_compared() {
    let out = path("compared.jsonl");
    let args =
        ["replay", "-", "-p", "1/5s", "-p", "100/s gcra name=fast", "--top", "1", "--decisions", out.to_str().unwrap()];
    let expected = "\
standard input: 6 requests, 7 units, 2 keys by key
2023-11-14T22:13:20Z to 2023-11-14T22:13:26.000001Z (6.000001s)
times read as seconds (--time-unit s)

      policy                allowed  refused          keys  longest wait
  #1  1/5s                        3        3  50.0 %     2         never
  #2  100/s gcra name=fast        6        0   0.0 %     0             -

#1 1/5s

  refused by  requests
  1/5s               3  100.0 %

  keys hit hardest  refused  requests  first refusal           longest wait
  a                       2         4  2023-11-14T22:13:20.5Z          4.5s

#2 100/s gcra name=fast
  nobody was refused
";
    assert_eq!(tollgate(&args, JSON.as_bytes()).ok(), expected);
    let written = fs::read_to_string(&out).unwrap();
    let places: Vec<_> = written.lines().map(|line| line.contains("\"policy\":2")).collect();
    assert_eq!(places, [false, true].repeat(6));
}

#[test]
fn files_gzip_and_standard_input_read_the_same() {
    let plain = file("same.jsonl", JSON.as_bytes());
    // Two gzip members, as in logs that were compressed one by one and concatenated.
    let mut packed = Vec::new();
    for half in [&JSON.as_bytes()[..70], &JSON.as_bytes()[70..]] {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        member.write_all(half).unwrap();
        packed.extend(member.finish().unwrap());
    }
    let gzip = file("same.jsonl.gz", &packed);
    let report = |shown: &str| REPORT.replace("standard input", shown);
    assert_eq!(tollgate(&["replay", &plain, "-p", "1/5s, 5/h"], b"").ok(), report(&plain));
    assert_eq!(tollgate(&["replay", &gzip, "-p", "1/5s, 5/h"], b"").ok(), report(&gzip));
    assert_eq!(tollgate(POLICY, &packed).ok(), REPORT);
    let error = tollgate(POLICY, &packed[..packed.len() - 9]).failed();
    assert!(error.starts_with("error: cannot read standard input after line"), "{error}");
    assert!(error.contains("hint: the file looks cut short"), "{error}");
}

#[test]
fn access_logs_are_read_in_both_formats() {
    let common = "\
192.0.2.1 - ann [10/Oct/2000:13:55:36 -0700] \"GET /a?x=1 HTTP/1.0\" 200 2326
192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326
192.0.2.2 - - [10/Oct/2000:20:55:37 +0000] \"GET /b HTTP/1.0\" 404 -
";
    let combined = common.replace('\n', " \"-\" \"agent/1\"\n");
    for log in [common, &combined] {
        let out = tollgate(&["replay", "-", "-p", "1/s"], log.as_bytes()).ok();
        assert_eq!(
            out,
            "\
standard input: 3 requests, 2 keys by ip
2000-10-10T20:55:36Z to 2000-10-10T20:55:37Z (1s)

1/s
  allowed  2  66.7 %
  refused  1  33.3 %  1 of 2 keys

  refused by  requests
  1/s                1  100.0 %

  keys hit hardest  refused  requests  first refusal         longest wait
  192.0.2.1               1         2  2000-10-10T20:55:36Z            1s
"
        );
    }
    for (key, keys) in [("user", 2), ("path", 2), ("ip,url", 3), ("method", 1), ("status", 2), ("agent", 1)] {
        let out = tollgate(&["replay", "-", "-p", "1/s", "--key", key], combined.as_bytes()).ok();
        let word = if keys == 1 { "key" } else { "keys" };
        assert!(out.contains(&format!("{keys} {word} by {key}\n")), "{out}");
    }
    let error = tollgate(&["replay", "-", "-p", "1/s", "--key", "colour"], common.as_bytes()).failed();
    assert_eq!(
        error,
        "error: unknown key field \"colour\"\nhint: an access log has ip, host, ident, user, method, path, url, \
         protocol, status, referer, agent\n"
    );
}

#[test]
fn lines_that_are_not_as_they_should_be_are_counted_and_named() {
    let log = "\n{\"t\":10,\"key\":\"a\"}\nnonsense\n{\"t\":9.5,\"key\":\"a\"}\n{\"t\":11}\n   \n{\"t\":10.75,\"key\":\"a\"}\n";
    let out = tollgate(&["replay", "-", "-p", "2/s", "--format", "json"], log.as_bytes()).ok();
    assert_eq!(
        out,
        "\
standard input: 3 requests, 1 key by key
1970-01-01T00:00:10Z to 1970-01-01T00:00:10.75Z (750ms)
times read as seconds (--time-unit s)

1 line out of order, decided at the latest time seen:
  line 4

2 lines malformed, left out:
  line 3: not a JSON object: expected ident at column 2
  line 5: no field \"key\"

2/s
  allowed  2  66.7 %
  refused  1  33.3 %  1 of 1 keys

  refused by  requests
  2/s                1  100.0 %

  keys hit hardest  refused  requests  first refusal            longest wait
  a                       1         3  1970-01-01T00:00:10.75Z         250ms
"
    );
    let json = tollgate(&["replay", "-", "-p", "2/s", "--json"], log.as_bytes()).ok();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["out_of_order"], serde_json::json!({"count": 1, "first": [{"line": 4, "behind_us": 500_000}]}));
    assert_eq!(document["malformed"]["first"][1], serde_json::json!({"line": 5, "reason": "no field \"key\""}));
}

#[test]
fn strict_stops_at_the_first_such_line() {
    let strict = ["replay", "-", "-p", "2/s", "--strict"];
    let error = tollgate(&strict, b"{\"t\":10,\"key\":\"a\"}\n{\"t\":11}\n{\"t\":9,\"key\":\"a\"}\n").failed();
    assert_eq!(error, "error: line 2: no field \"key\"\nhint: without --strict such lines are counted and left out\n");
    let error = tollgate(&strict, b"{\"t\":10,\"key\":\"a\"}\n\n{\"t\":9.5,\"key\":\"a\"}\n").failed();
    assert_eq!(
        error,
        "error: line 3: out of order, 500ms before the latest time seen\n\
         hint: without --strict such lines are decided at the latest time seen\n"
    );
    tollgate(&strict, JSON.as_bytes()).ok();
}

#[test]
fn only_the_first_faults_are_named() {
    let mut log = String::from("{\"t\":10,\"key\":\"a\"}\n");
    log.push_str(&"{\"t\":9,\"key\":\"a\"}\n{}\n".repeat(50));
    let out = tollgate(&["replay", "-", "-p", "200/s"], log.as_bytes()).ok();
    assert!(out.contains("50 lines out of order, decided at the latest time seen:\n  lines 2, 4, 6, "), "{out}");
    assert!(out.contains(", 20, …\n"), "{out}");
    assert!(out.contains("50 lines malformed, left out:\n  line 3: no field \"t\"\n"), "{out}");
    assert!(out.contains("  line 21: no field \"t\"\n  …\n"), "{out}");
}

#[test]
fn inputs_without_a_request_are_errors_with_a_hint() {
    for input in ["", "\n  \n"] {
        let error = tollgate(POLICY, input.as_bytes()).failed();
        assert!(error.starts_with("error: standard input is empty\nhint: expected JSON Lines such as {"), "{error}");
    }
    assert_eq!(
        tollgate(POLICY, b"{\"ts\":1,\"user\":\"a\"}\n{\"ts\":2,\"user\":\"a\"}\n").failed(),
        "error: standard input has no valid line; line 1: no field \"t\"\n\
         hint: the line has the fields ts, user; choose with --key and --time\n"
    );
    assert_eq!(
        tollgate(&[POLICY, &["--key", "name", "--time", "ts"]].concat(), b"{\"ts\":1,\"user\":\"a\"}").failed(),
        "error: standard input has no valid line; line 1: no field \"name\"\n\
         hint: the line has the fields ts, user; choose with --key and --time\n"
    );
    tollgate(&[POLICY, &["--key", "user", "--time", "ts"]].concat(), b"{\"ts\":1,\"user\":\"a\"}").ok();
    assert_eq!(
        tollgate(POLICY, b"hello\nworld\n").failed(),
        "error: standard input has no valid line; line 1: not an access log line: expected a client address\n\
         hint: expected the common or combined log format, or JSON Lines with --format json\n"
    );
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    assert_eq!(
        tollgate(&["replay", "-", "-p", "1/s", "-p", "5/parsec"], b"").failed(),
        "error: column 3: expected a unit (us, ms, s, min, h, d, w), found \"parsec\"\n  5/parsec\n    ^\n\
         hint: for example \"100/min\"\n"
    );
    let error = tollgate(&["replay", "no/such/file", "-p", "1/s"], b"").failed();
    assert!(error.starts_with("error: cannot open no/such/file: "), "{error}");
    assert!(error.ends_with("hint: name a file, or - for standard input\n"), "{error}");
    let error = tollgate(&[vec!["replay", "-"], ["-p", "1/s"].repeat(17)].concat(), b"").failed();
    assert!(error.starts_with("error: 17 policies; a comparison shows at most 16\n"), "{error}");
    for args in [&["replay"][..], &["replay", "-"], &[], &["replay", "-", "-p", "1/s", "--mode", "x"], &["rewind"]] {
        assert_eq!(tollgate(args, b"").code, Some(2), "{args:?}");
    }
    for args in [&["--help"][..], &["replay", "--help"], &["explain", "--help"]] {
        let help = tollgate(args, b"").ok();
        assert!(help.contains("Examples:\n  tollgate "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}

#[test]
fn decisions_never_overwrite_the_input() {
    let log = file("precious.jsonl", JSON.as_bytes());
    let error = tollgate(&["replay", &log, "-p", "1/s", "--decisions", &log], b"").failed();
    assert!(error.starts_with(&format!("error: decisions cannot be written to {log}\n")), "{error}");
    assert_eq!(fs::read_to_string(&log).unwrap(), JSON);
    tollgate(&["replay", &log, "-p", "1/s", "--decisions", "-"], b"").failed();
    let error = tollgate(&["replay", &log, "-p", "1/s", "--decisions", "/no/such/folder/x"], b"").failed();
    assert!(error.starts_with("error: cannot write decisions to /no/such/folder/x: "), "{error}");
    // A device that is full.
    let error = tollgate(&["replay", &log, "-p", "1/s", "--decisions", "/dev/full"], b"").failed();
    assert!(error.starts_with("error: cannot write decisions to /dev/full: "), "{error}");
}

#[test]
fn time_units_are_taken_as_told_or_guessed() {
    for (time, args, from) in [
        ("1700000000123.5", &[][..], "2023-11-14T22:13:20.1235Z"),
        ("1700000000123456", &[], "2023-11-14T22:13:20.123456Z"),
        ("1700000000123456789", &[], "2023-11-14T22:13:20.123456Z"),
        ("1700000000", &["--time-unit", "ms"], "1970-01-20T16:13:20Z"),
        ("\"2023-11-14T22:13:20+01:00\"", &[], "2023-11-14T21:13:20Z"),
    ] {
        let line = format!("{{\"t\":{time},\"key\":1}}\n");
        let out = tollgate(&[&["replay", "-", "-p", "1/s", "--json"], args].concat(), line.as_bytes()).ok();
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["from"], from, "{time}");
    }
    let late = tollgate(&["replay", "-", "-p", "1/s", "--time-unit", "s"], b"{\"t\":1700000000123,\"key\":1}").failed();
    assert!(late.contains("the time is after the year 2255; is the time unit right?"), "{late}");
}

#[test]
fn modes_change_what_is_granted() {
    let log = "{\"t\":0,\"key\":\"a\",\"cost\":7}\n{\"t\":0,\"key\":\"a\",\"cost\":7}\n{\"t\":0,\"key\":\"a\",\"cost\":0}\n{\"t\":1,\"key\":\"a\",\"cost\":1}\n";
    let run = |mode| {
        let args = ["replay", "-", "-p", "10/s", "--mode", mode, "--json"];
        let out = tollgate(&args, log.as_bytes()).ok();
        let part: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(part["peeks"], 1);
        let part = &part["policies"][0];
        ["allowed", "partial", "refused", "granted_units"].map(|name| part[name].as_u64().unwrap())
    };
    assert_eq!(run("binary"), [3, 0, 1, 8]);
    assert_eq!(run("nary"), [4, 1, 0, 11]);
    assert_eq!(run("uniform")[2], 2);
}
