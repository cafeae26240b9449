//! `tollgate explain` from end to end.

use crate::support::tollgate;

#[test]
fn a_policy_is_said_in_plain_words() {
    let out = tollgate(&["explain", "1/5s,5/h"], b"").ok();
    assert!(out.starts_with("  policy  1/5s, 5/h\n  mode    binary\n  memory  at most "), "{out}");
    assert!(out.contains("\n1/5s (sliding)\n  At most 1 in every interval of 5s"), "{out}");
    for policy in
        ["10/s gcra burst=20", "1000/h fixed align=clock", "5/h slots resolution=10min", "15/60s bucket burst=3"]
    {
        let out = tollgate(&["explain", policy], b"").ok();
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        assert!(out.contains("At most"), "{out}");
    }
}

#[test]
fn events_show_how_decisions_come_out() {
    let out = tollgate(&["explain", "1/5s, 5/h", "--at", "0s,1s", "--at", "5s,5sx9,7s"], b"").ok();
    let table = "
  at  cost  decision  granted  left  retry after  limited by
  0s     1  allowed         1     0            -  -
  1s     1  refused         0     0           4s  1/5s
  5s     1  allowed         1     0            -  -
  5s     9  refused         0     0        never  1/5s
  7s     1  refused         0     0           3s  1/5s

the last event, 7s:
  refused by 1/5s: the same request passes in 3s
";
    assert!(out.contains(table), "{out}");
    assert!(out.ends_with("\n  it would first pass at 10s, if nobody else comes\n"), "{out}");
    let out = tollgate(&["explain", "100/min", "--mode", "nary", "--at", "0sx60,30sx60"], b"").ok();
    assert!(out.contains("\n  30s    60  in part        40     0            -  100/min\n"), "{out}");
    let dated = ["explain", "1/h fixed align=clock", "--at", "2026-01-05T09:59:59Z,2026-01-05T09:59:59.5Z"];
    let out = tollgate(&dated, b"").ok();
    assert!(out.ends_with("\n  it would first pass at 2026-01-05T10:00:00Z, if nobody else comes\n"), "{out}");
}

#[test]
fn json_has_all_of_it() {
    let out = tollgate(&["explain", "2/s", "--at", "0sx2,0.25s", "--json"], b"").ok();
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["policy"], "2/s");
    assert_eq!(document["limits"][0]["algorithm"], "sliding");
    assert_eq!(document["limits"][0]["period_us"], 1_000_000);
    assert!(document["promises"].as_array().is_some_and(|lines| lines.len() > 2));
    assert_eq!(
        document["decisions"][1],
        serde_json::json!({
            "at": "0.25s", "at_us": 250_000, "cost": 1, "allowed": false, "granted": 0, "charged": 0, "remaining": 0,
            "retry_after_us": 750_000, "next_after_us": 750_000, "reset_after_us": 750_000, "limited_by": "2/s",
        })
    );
    assert_eq!(document["explanation"]["passes_at_us"], 1_000_000);
    assert_eq!(document["explanation"]["limits"][0]["before"]["held"], 2.0);
    let out = tollgate(&["explain", "2/s", "--json"], b"").ok();
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(document.get("decisions").is_none() && document.get("explanation").is_none());
}

#[test]
fn mistakes_point_at_their_place() {
    assert_eq!(
        tollgate(&["explain", "5/parsec"], b"").failed(),
        "error: column 3: expected a unit (us, ms, s, min, h, d, w), found \"parsec\"\n  5/parsec\n    ^\n\
         hint: for example \"100/min\"\n"
    );
    assert_eq!(
        tollgate(&["explain", "1/s", "--at", "0s,soon"], b"").failed(),
        "error: event \"soon\": expected a time such as 1.5s, 2min or RFC 3339\n\
         hint: for example --at 0s,1500ms,2minx5 (x5: cost 5) or --at 2026-01-05T09:00:00Z\n"
    );
    let error = tollgate(&["explain", "1/s", "--at", "0s,2026-01-05T09:00:00Z"], b"").failed();
    assert!(error.starts_with("error: event \"2026-01-05T09:00:00Z\": expected an offset like the first event\n"));
}
