//! What keys in Redis hold and for how long, whoever shares them, and what a user with few rights leaves behind.

use redis::{Connection, Value};
use tollgate_kit::Server;
use tollgate_redis::lua::{LuaNaming, library};

fn server() -> (Server, Connection) {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    for names in [LuaNaming::Plain, LuaNaming::Testing] {
        redis::cmd("FUNCTION").arg("LOAD").arg(library(names)).exec(&mut connection).unwrap();
    }
    (server, connection)
}

fn call(connection: &mut Connection, name: &str, key: &str, args: &[&str]) -> redis::RedisResult<Value> {
    redis::cmd("FCALL").arg(name).arg(1).arg(key).arg(args).query(connection)
}

fn ints(connection: &mut Connection, name: &str, key: &str, args: &[&str]) -> Vec<i64> {
    match call(connection, name, key, args).unwrap() {
        Value::Int(number) => vec![number],
        other => redis::FromRedisValue::from_redis_value(other).unwrap(),
    }
}

fn lives(connection: &mut Connection, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query(connection).unwrap()
}

#[test]
fn policies_that_take_turns_on_a_key_do_not_make_it_live_longer() {
    let (_server, mut connection) = server();
    for _ in 0..300 {
        call(&mut connection, "tollgate", "k", &["5000/min"]).unwrap();
        call(&mut connection, "tollgate", "k", &["5000/min fixed"]).unwrap();
    }
    assert!(lives(&mut connection, "k") <= 61_000, "{}", lives(&mut connection, "k"));
}

#[test]
fn what_another_policy_left_survives_a_key_made_immortal() {
    let (_server, mut connection) = server();
    for _ in 0..3 {
        call(&mut connection, "tollgate", "k", &["3/d"]).unwrap();
    }
    redis::cmd("PERSIST").arg("k").exec(&mut connection).unwrap();
    call(&mut connection, "tollgate", "k", &["5/min"]).unwrap();
    assert!(lives(&mut connection, "k") > 86_000_000);
    assert_eq!(ints(&mut connection, "tollgate", "k", &["3/d"])[0], 0);
}

#[test]
fn all_or_none_gives_an_expiry_back_too() {
    let (_server, mut connection) = server();
    call(&mut connection, "tollgate", "k", &["1/h"]).unwrap();
    redis::cmd("PERSIST").arg("k").exec(&mut connection).unwrap();
    assert_eq!(ints(&mut connection, "tollgate_all", "k", &["1/h", "1"])[0], 0);
    assert!(lives(&mut connection, "k") > 0);
}

#[test]
fn namespaces_do_not_mix_whatever_was_asked_before() {
    let (_server, mut connection) = server();
    let limits = "[[1,5,1]]";
    let slots = |connection: &mut Connection, count: &str, namespace: &str, now: &str| {
        ints(connection, "slot_window", "q", &[count, namespace, limits, now, "1"])[0]
    };
    assert_eq!(slots(&mut connection, "1", "", "1790000000"), 0);
    assert_eq!(slots(&mut connection, "1", "", "1790000000"), 5);
    slots(&mut connection, "-1", "6", "0");
    assert_eq!(slots(&mut connection, "0", "", "1790000000"), 5);
}

#[test]
fn the_state_of_slot_window_is_beside_the_key_of_the_application() {
    let (_server, mut connection) = server();
    let slots = |connection: &mut Connection, key: &str, count: &str, namespace: &str| {
        ints(connection, "slot_window", key, &[count, namespace, "[[1,60,1]]", "1790000000", "1"])[0]
    };
    let exists =
        |connection: &mut Connection, key: &str| -> bool { redis::cmd("EXISTS").arg(key).query(connection).unwrap() };
    redis::cmd("LPUSH").arg("login").arg("the application's").exec(&mut connection).unwrap();
    assert_eq!(slots(&mut connection, "login", "1", "ns"), 0);
    assert_eq!(slots(&mut connection, "login", "1", "ns"), 60);
    assert_eq!(slots(&mut connection, "login", "1", "other"), 0);
    assert!(exists(&mut connection, "ns:{login}") && exists(&mut connection, "other:{login}"));
    assert_eq!(slots(&mut connection, "login", "-1", "ns"), 0);
    assert!(!exists(&mut connection, "ns:{login}") && exists(&mut connection, "login"));
    // A value that begins as a state does, and is none.
    redis::cmd("SET").arg("bytes").arg(b"\x01\xc1\x93").exec(&mut connection).unwrap();
    assert_eq!(slots(&mut connection, "bytes", "1", "ns"), 0);
    // No such name exists: the state is at the key.
    for (key, namespace) in [("{user}:login", "ns"), ("plain", "n{s"), ("", "ns")] {
        assert_eq!(slots(&mut connection, key, "1", namespace), 0);
        assert_eq!(slots(&mut connection, key, "1", namespace), 60);
        assert!(exists(&mut connection, key), "{key}");
    }
}

#[test]
fn a_user_without_a_right_to_the_name_of_the_state_is_told_so() {
    let (server, mut admin) = server();
    redis::cmd("ACL").arg(&["SETUSER", "narrow", "reset", "on", ">pw", "~k", "+@all"]).exec(&mut admin).unwrap();
    let client = redis::Client::open(format!("redis://narrow:pw@127.0.0.1:{}/", server.port())).unwrap();
    let mut narrow = client.get_connection().unwrap();
    for dialect in ["slot_window", "ar1"] {
        let args = ["1", "ns", "[[3,60,1]]", "1790000000"];
        let error = call(&mut narrow, dialect, "k", &args).unwrap_err().to_string();
        assert!(!error.contains("WRONGTYPE") && error.contains("access"), "{error}");
    }
    assert_eq!(held(&mut admin), []);
}

#[test]
fn a_state_of_an_earlier_release_at_the_key_itself_is_honoured() {
    let (_server, mut connection) = server();
    for (dialect, limits) in [("slot_window", "[[3,60,1]]"), ("ar1", "[[3,2,3600]]")] {
        let ask = |connection: &mut Connection, count: &str, namespace: &str| {
            ints(connection, dialect, "k", &[count, namespace, limits, "1790000000", "1"])[0]
        };
        assert_eq!(ask(&mut connection, "2", "ns"), 0);
        // That is where earlier releases kept it.
        redis::cmd("RENAME").arg("ns:{k}").arg("k").exec(&mut connection).unwrap();
        assert_eq!(ask(&mut connection, "1", "ns"), 0);
        assert!(ask(&mut connection, "1", "ns") > 0, "{dialect}: three were counted");
        let exists = |connection: &mut Connection| -> u8 {
            redis::cmd("EXISTS").arg("k").arg("ns:{k}").query(connection).unwrap()
        };
        assert_eq!(exists(&mut connection), 1);
        // Another namespace does not find it, and a reset clears both places.
        assert_eq!(ask(&mut connection, "1", "other"), 0);
        redis::cmd("COPY").arg("k").arg("ns:{k}").exec(&mut connection).unwrap();
        assert_eq!(ask(&mut connection, "-1", "ns"), 0);
        assert_eq!(exists(&mut connection), 0);
        assert_eq!(ask(&mut connection, "3", "ns"), 0);
        redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    }
}

#[test]
fn a_state_at_the_key_itself_is_honoured_beside_others_at_its_name() {
    let (server, mut connection) = server();
    let mut ask = |count: &str, limits: &str| {
        ints(&mut connection, "slot_window", "k", &[count, "ns", limits, "1790000000", "1"])[0]
    };
    assert_eq!(ask("2", "[[2,3600,600]]"), 0);
    redis::cmd("RENAME").arg("ns:{k}").arg("k").exec(&mut server.connection().unwrap()).unwrap();
    // Other limits begin at the name, and the earlier ones go on at the key.
    assert_eq!(ask("1", "[[9,60,1]]"), 0);
    assert!(ask("1", "[[2,3600,600]]") > 0);
    assert_eq!(ask("8", "[[9,60,1]]"), 0);
    assert!(ask("1", "[[9,60,1]]") > 0);
}

#[test]
fn logs_of_an_earlier_release_count_until_they_expire() {
    let (_server, mut connection) = server();
    // Two windows with a log each, as earlier releases wrote them: three events in the minute, two of them in both.
    let at = 1_790_000_000_000_000u64;
    let entry = |at: u64, before: u8| [&at.to_le_bytes()[..7], &[before, 0, 0, 0, 0, 0][..]].concat();
    let record = |size: u32, times: &[u64]| {
        let tag = [&b"w\xce"[..], &size.to_be_bytes()].concat();
        let tail: Vec<u8> = times.iter().enumerate().flat_map(|(before, at)| entry(*at, before as u8)).collect();
        let mut words = vec![0xa0 | tag.len() as u8];
        words.extend(&tag);
        words.extend([0x94, times.len() as u8, 0, 0, 0xa0 | tail.len() as u8]);
        if tail.len() > 31 {
            words.pop();
            words.extend([0xda, 0, tail.len() as u8]);
        }
        words.extend(tail);
        words
    };
    let value = [vec![1], record(3_600_000_000, &[at, at + 2]), record(60_000_000, &[at, at + 1, at + 2])].concat();
    redis::cmd("SET").arg("k").arg(value).arg("PX").arg(90_000_000).exec(&mut connection).unwrap();
    let ask = |connection: &mut Connection, windows: &[&str], after: u64| {
        let t = (at + after).to_string();
        ints(connection, "sliding_window_testing", "k", &[windows, &[&t]].concat())[0]
    };
    assert_eq!(ask(&mut connection, &["3600000", "100", "60000", "3"], 3), 2);
    assert_eq!(ask(&mut connection, &["3600000", "2"], 3), 1);
    // A window that is added counts the log that has most of it.
    assert_eq!(ask(&mut connection, &["3600000", "100", "30000", "3"], 3), 2);
    assert_eq!(ask(&mut connection, &["3600000", "100", "60000", "4"], 3), 0);
    assert_eq!(ask(&mut connection, &["3600000", "100", "60000", "4"], 60_000_000), 2);
    assert_eq!(ask(&mut connection, &["3600000", "100", "60000", "4"], 60_000_001), 0);
    assert_eq!(ask(&mut connection, &["3600000", "6"], 60_000_002), 0);
    assert_eq!(ask(&mut connection, &["3600000", "6"], 60_000_003), 1);
}

#[test]
fn dialects_do_not_take_each_others_state() {
    let (_server, mut connection) = server();
    for _ in 0..4 {
        call(&mut connection, "fixed_window", "k", &["10", "60"]).unwrap();
    }
    let reply = call(&mut connection, "token_bucket", "k", &["15", "60", "3"]).unwrap();
    assert!(format!("{reply:?}").contains("allow"), "{reply:?}");
    assert_eq!(ints(&mut connection, "sliding_window", "k", &["0.06", "5"]), [0]);
}

#[test]
fn a_log_counts_on_past_2_to_the_48_units() {
    let (_server, mut connection) = server();
    let policy = r#"[["sliding",70368744177664,300000,1000,0,"00000001"]]"#;
    for step in 0..40u64 {
        let t = (1_790_000_000_000_000 + step * 200_000).to_string();
        let reply = ints(&mut connection, "tollgate_testing", "k", &[policy, "COST", "35184372088832", &t]);
        assert_eq!(reply[0], 1, "step {step}: {reply:?}");
    }
}

#[test]
fn many_keys_and_long_texts_are_refused_before_they_cost_anything() {
    let (_server, mut connection) = server();
    let keys: Vec<String> = (0..33).map(|key| format!("k{key}")).collect();
    let args: Vec<&str> = (0..33).flat_map(|_| ["1/s", "1"]).collect();
    let mut all = redis::cmd("FCALL");
    all.arg("tollgate_all").arg(keys.len()).arg(&keys).arg(&args);
    let error = all.query::<Value>(&mut connection).unwrap_err().to_string();
    assert!(error.contains("keys: expected 1 to 32, found 33"), "{error}");
    let long = format!("[{}]", "[],".repeat(100_000));
    for (name, args) in [
        ("tollgate", vec![long.as_str()]),
        ("slot_window", vec!["1", "ns", &long, "1790000000"]),
        ("tollgate", vec![&"1/s, ".repeat(1_600)]),
    ] {
        let error = call(&mut connection, name, "k", &args).unwrap_err().to_string();
        assert!(error.contains("expected"), "{name}: {error}");
    }
}

/// Every command the Lua calls.
const CALLED: [&str; 11] = ["time", "get", "set", "pexpire", "pttl", "unlink", "del", "hget", "hset", "hdel", "hmget"];

/// What all keys hold, but for their expiry.
fn held(connection: &mut Connection) -> Vec<(Vec<u8>, Value)> {
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort();
    let mut dump = |key: &Vec<u8>| redis::cmd("DUMP").arg(key).query(connection).unwrap();
    keys.iter().map(|key| (key.clone(), dump(key))).collect()
}

#[test]
fn a_user_without_a_right_gets_errors_that_change_nothing() {
    let (server, mut admin) = server();
    for lacking in CALLED {
        redis::cmd("FLUSHALL").exec(&mut admin).unwrap();
        let user = ["SETUSER", "weak", "reset", "on", ">pw", "~*", "+@all", &format!("-{lacking}")].map(str::to_owned);
        redis::cmd("ACL").arg(&user).exec(&mut admin).unwrap();
        let client = redis::Client::open(format!("redis://weak:pw@127.0.0.1:{}/", server.port())).unwrap();
        let mut weak = client.get_connection().unwrap();
        let mut refused = 0;
        for step in 0..260u32 {
            // Both fill a log up to where it becomes a hash; the weak user then has his turn.
            let (name, key, args): (&str, &str, &[&str]) = match step % 13 {
                12 => ("tollgate_refund", "k", &["200/h", "30", "1"]),
                11 => ("api_counter", "{api:x}", &["1000"]),
                10 => ("tollgate_all", "k", &["200/h", "1"]),
                _ => ("tollgate", "k", &["200/h"]),
            };
            if step % 3 == 0 {
                call(&mut admin, name, key, args).unwrap();
                continue;
            }
            let before = held(&mut admin);
            if call(&mut weak, name, key, args).is_err() {
                refused += 1;
                assert_eq!(held(&mut admin), before, "without {lacking}: {name}");
            }
        }
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut admin).unwrap();
        for key in keys {
            let lives: i64 = redis::cmd("PTTL").arg(&key).query(&mut admin).unwrap();
            assert!(lives > 0, "without {lacking}: {}", String::from_utf8_lossy(&key));
        }
        assert!(
            refused > 0 || ["unlink", "pttl", "hmget", "del", "hdel"].contains(&lacking),
            "{lacking} was never needed"
        );
    }
}

fn dump(connection: &mut Connection, key: &str) -> Value {
    redis::cmd("DUMP").arg(key).query(connection).unwrap()
}

#[test]
fn a_text_with_the_same_name_clears_no_quota() {
    let (_server, mut connection) = server();
    let now = "1";
    for own in ["500/min name=api", "500/min fixed name=api"] {
        for (name, args) in [
            ("tollgate_peek", vec!["1/s gcra name=api"]),
            ("tollgate", vec!["1/s gcra name=api", "COST", "0"]),
            ("tollgate", vec!["1/s gcra name=api", "COST", "2"]),
            ("tollgate_refund", vec!["1/s gcra name=api", "0", now]),
            ("tollgate_refund", vec!["1/s gcra name=api", "5", now]),
            ("tollgate_refund", vec!["1/ms fixed name=api", "5", now]),
            ("tollgate", vec!["1/ms fixed name=api", "COST", "2"]),
            ("tollgate_all", vec!["1/s gcra name=api", "0"]),
        ] {
            // One by one, so that a log is long enough for a hash.
            let mut lot = redis::pipe();
            for _ in 0..500 {
                lot.cmd("FCALL").arg("tollgate").arg(1).arg("k").arg(own);
            }
            lot.exec(&mut connection).unwrap();
            let before = dump(&mut connection, "k");
            call(&mut connection, name, "k", &args).unwrap();
            assert_eq!(dump(&mut connection, "k"), before, "{name} {args:?}");
            // And where something is charged, it is beside.
            call(&mut connection, "tollgate", "k", &["1/s gcra name=api"]).unwrap();
            assert_eq!(ints(&mut connection, "tollgate", "k", &[own])[0], 0, "{name} {args:?}");
            redis::cmd("DEL").arg("k").exec(&mut connection).unwrap();
        }
    }
}

#[test]
fn more_limits_than_a_key_keeps_are_refused_and_push_none_out() {
    let (_server, mut connection) = server();
    let crowd: Vec<String> = (1..=80).map(|days| format!("1/{days}d")).collect();
    let days: Vec<String> = (1..=80).map(|days| (86_400 * days).to_string()).collect();
    let texts: Vec<(&str, Vec<&str>)> = (crowd.iter().map(|text| ("tollgate", vec![text.as_str()])))
        .chain(days.iter().map(|window| ("fixed_window", vec!["1", window.as_str()])))
        .collect();
    for texts in texts.chunks(80) {
        call(&mut connection, "tollgate", "k", &["5/min", "COST", "5"]).unwrap();
        for (place, (name, args)) in texts.iter().enumerate() {
            let before = dump(&mut connection, "k");
            let answer = call(&mut connection, name, "k", args);
            if place < 64 {
                answer.unwrap();
                continue;
            }
            let said = answer.unwrap_err().to_string();
            let expected = "key: expected at most 64 other limits remembered for a key, found 65; use fewer policies on a \
                            key or wait until they expire";
            assert!(said.contains(expected), "{said}");
            assert_eq!(dump(&mut connection, "k"), before);
        }
        assert_eq!(ints(&mut connection, "tollgate", "k", &["5/min"])[0], 0);
        // With others at another key, neither is charged.
        let mut both = redis::cmd("FCALL");
        both.arg("tollgate_all").arg(2).arg("other").arg("k").arg(&["5/min", "1", "1/90d", "1"]);
        both.query::<Value>(&mut connection).unwrap_err();
        assert_eq!(dump(&mut connection, "other"), Value::Nil);
        assert_eq!(ints(&mut connection, "tollgate_reset", "k", &["1/90d"]), [1]);
        assert_eq!(ints(&mut connection, "tollgate", "k", &["5/min"])[0], 0);
        redis::cmd("DEL").arg("k").exec(&mut connection).unwrap();
    }
}

#[test]
fn a_script_without_logs_forgets_a_long_log_that_has_expired() {
    let (_server, mut connection) = server();
    let start = 1_790_000_000_000_000u64;
    for step in 0..300 {
        let t = (start + step).to_string();
        call(&mut connection, "tollgate_testing", "k", &["1000/min", &t]).unwrap();
    }
    // Another policy leaves it behind, and comes back after it has expired.
    let script =
        tollgate_redis::lua::with_callers_clock(&tollgate_redis::lua::script("tollgate", &["gcra"]).unwrap().text);
    let policy: tollgate_kernel::Policy = "5/h gcra".parse().unwrap();
    for t in [start + 400, start + 90_000_000_000] {
        let mut call = redis::cmd("EVAL");
        call.arg(&script).arg(1).arg("k").arg(tollgate_redis::lua::compact(&policy)).arg(t);
        assert_eq!(call.query::<Vec<i64>>(&mut connection).unwrap()[0], 1, "{t}");
    }
}
