//! `tollgate bench` from end to end: short runs on real servers.

use tollgate_kit::{Cluster, Server};

use crate::support::{CommandResult, json, tollgate};

fn bench(url: &str, args: &[&str]) -> CommandResult {
    tollgate(&[&["bench", "--store", url], args].concat(), b"")
}

/// Returns the rows of a run; checks that it succeeded and announced its load on the server.
#[track_caller]
fn rows(run: CommandResult) -> Vec<serde_json::Value> {
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.starts_with("bench: this puts load on "), "{}", run.err);
    json(&run.out)["rows"].as_array().unwrap().clone()
}

#[test]
fn policies_and_dialects_are_rows_and_leave_nothing_behind() {
    let server = Server::start().unwrap();
    let mut subjects = vec!["5/min", "5/min gcra"];
    subjects.extend(["sliding_window", "fixed_window", "token_bucket", "slot_window", "ar1", "rolling", "api_counter"]);
    let more = ["--keys", "10", "--calls", "2000", "--connections", "3", "--pipeline", "7", "--json"];
    let rows = rows(bench(&server.url(), &[&more, subjects.as_slice()].concat()));
    assert_eq!(rows.len(), 9);
    for row in &rows {
        assert_eq!((&row["calls"], &row["by"]), (&2000.into(), &"script".into()), "{row}");
        // A minute may end in between.
        let least = if row["what"] == "api_counter 100" { 0 } else { 500 };
        assert!(row["refused"].as_u64().is_some_and(|refused| (least..2_000).contains(&refused)), "{row}");
        assert!(row["bytes_per_key"].as_u64().is_some_and(|bytes| bytes > 50), "{row}");
        assert!(row["p99_us"].as_u64() >= row["p50_us"].as_u64() && row["cpu_us_per_call"].is_number(), "{row}");
        assert!(row["removed_keys"].as_u64().is_some_and(|removed| removed >= 10), "{row}");
    }
    assert_eq!((&rows[0]["refused"], &rows[1]["what"]), (&1950.into(), &"5/min gcra".into()));
    assert_eq!(server.scan_all(|_, _| ()).unwrap(), 0);
}

#[test]
fn the_function_is_measured_where_it_is_installed() {
    let server = Server::start().unwrap();
    let short = ["100/s", "--calls", "100", "--json"];
    let run = bench(&server.url(), &[&short[..], &["--function"]].concat());
    assert!(run.code == Some(2) && run.err.contains("hint: tollgate redis install URL"), "{}", run.err);
    tollgate(&["redis", "install", &server.url()], b"").ok();
    assert_eq!(rows(bench(&server.url(), &short))[0]["by"], "function");
    assert_eq!(rows(bench(&server.url(), &[&short[..], &["--script"]].concat()))[0]["by"], "script");
    let run = bench(&server.url(), &["100/s", "--seconds", "1"]);
    assert!(run.out.contains("\n  100/s  function  ") && run.out.ends_with(" keys deleted\n"), "{}", run.out);
}

#[test]
fn arguments_of_a_dialect_are_given_behind_two_dashes() {
    let server = Server::start().unwrap();
    let short = ["sliding_window", "--calls", "100", "--keys", "1", "--json", "--"];
    let rows = rows(bench(&server.url(), &[&short[..], &["60000", "7"]].concat()));
    assert_eq!((&rows[0]["refused"], &rows[0]["what"]), (&93.into(), &"sliding_window 60000 7".into()));
    let run = bench(&server.url(), &[&short[..], &["60000"]].concat());
    assert!(run.code == Some(2) && run.err.contains("arguments: expected 2 or more"), "{}", run.err);
    for wrong in [&["1/s", "--", "5"][..], &["ar1", "1/s", "--", "5"], &["1/s", "--keys", "0"], &["nonsense"]] {
        let run = bench(&server.url(), wrong);
        assert!(run.code == Some(2) && run.err.contains("expected"), "{wrong:?}: {}", run.err);
    }
}

/// Called by the test that starts a cluster, since that takes long.
pub(crate) fn on_a_cluster(cluster: &Cluster, url: &str) {
    let rows = rows(bench(url, &["5/min", "api_counter", "--keys", "50", "--calls", "500", "--json"]));
    assert_eq!(rows[0]["by"], "function");
    assert!(rows[0]["refused"].as_u64().is_some_and(|refused| refused >= 250), "{rows:?}");
    assert_eq!(cluster.scan_all(|_, _| ()).unwrap(), 0);
}

fn tollgate_server() -> tollgate_daemon::Server {
    let settings = tollgate_daemon::ServerSettings {
        resp: Some((std::net::Ipv4Addr::LOCALHOST, 0).into()),
        http: None,
        threads: 1,
        ..tollgate_daemon::ServerSettings::default()
    };
    tollgate_daemon::Server::start(settings).unwrap()
}

#[test]
fn a_tollgate_server_is_measured_by_its_own_commands() {
    let server = tollgate_server();
    let url = format!("tollgate://{}", server.resp_addr().unwrap());
    let mut subjects = vec!["5/min", "10/h, 5/min gcra"];
    subjects.extend(["sliding_window", "fixed_window", "token_bucket", "slot_window", "ar1", "rolling", "api_counter"]);
    let more = ["--keys", "10", "--calls", "2000", "--connections", "3", "--pipeline", "7", "--json"];
    for (preference, words) in
        [(None, ["command", "function"]), (Some("--script"), ["script"; 2]), (Some("--function"), ["function"; 2])]
    {
        let preference = preference.as_slice();
        let rows = rows(bench(&url, &[&more, subjects.as_slice(), preference].concat()));
        assert_eq!(rows.len(), 9);
        for (place, row) in rows.iter().enumerate() {
            assert_eq!((&row["calls"], &row["by"]), (&2000.into(), &words[usize::from(place >= 2)].into()), "{row}");
            let least = if row["what"] == "api_counter 100" { 0 } else { 500 };
            assert!(row["refused"].as_u64().is_some_and(|refused| (least..2_000).contains(&refused)), "{row}");
            assert!(row["removed_keys"].as_u64().is_some_and(|removed| removed >= 10), "{row}");
        }
        assert_eq!(&rows[0]["refused"], &1950);
    }
    let mut connection = redis::Client::open(format!("redis://{}", server.resp_addr().unwrap())).unwrap();
    let left: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert_eq!(left, 0);
    // Named as a Redis it is measured the same.
    let url_of_redis = url.replace("tollgate://", "redis://");
    assert_eq!(rows(bench(&url_of_redis, &["100/s", "--calls", "100", "--json"]))[0]["by"], "command");
    // It is the default, wherever the environment says that it is.
    let run = crate::support::tollgate_in(&["bench", "100/s", "--calls", "100"], b"", &[("TOLLGATE_STORE", &url)]);
    assert!(run.out.contains("(Tollgate ") && run.out.contains("\n  100/s  command  "), "{}{}", run.out, run.err);
}

#[test]
fn a_token_without_the_right_to_reset_measures_and_leaves_its_keys() {
    let settings = tollgate_daemon::ServerSettings {
        resp: Some((std::net::Ipv4Addr::LOCALHOST, 0).into()),
        http: None,
        threads: 1,
        free: "check,read".parse().unwrap(),
        ..tollgate_daemon::ServerSettings::default()
    };
    let server = tollgate_daemon::Server::start(settings).unwrap();
    let url = format!("tollgate://{}", server.resp_addr().unwrap());
    let run = bench(&url, &["100/s", "sliding_window", "--calls", "100", "--keys", "5"]);
    assert!(run.code == Some(0) && run.out.ends_with("they expire by themselves\n"), "{}{}", run.out, run.err);
    let away = bench("tollgate://127.0.0.1:1", &["100/s"]);
    assert!(away.code == Some(2) && away.err.contains("hint: start one: tollgate serve"), "{}", away.err);
}
