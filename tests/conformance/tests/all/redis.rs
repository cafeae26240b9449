//! The homes in Redis: vectors, traces, faults, numbers, bad arguments, and what the Lua may not contain.

use std::path::{Path, PathBuf};

use redis::Value;
use tollgate_conformance::redis::{FAULTS, NO_FAULT, Target, Trace, is_found, play, play_dialects};
use tollgate_conformance::{Adapter, home, play as play_vectors};
use tollgate_dialects::DIALECTS;
use tollgate_kernel::{Cost, KeyState, Micros, Mode, Policy, Request, Timestamp};
use tollgate_kit::Server;
use tollgate_random::Rng;
use tollgate_redis::lua::{CALLS, LuaNaming, dialect_script, library, whole_script};

fn vectors_by(name: &str) -> String {
    let mut adapter = Adapter::new((home(name).unwrap().open)().unwrap());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let mut all = tollgate_conformance::Tally::default();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        all.add(play_vectors(&text, |line| Some(adapter.answer(line.as_bytes()).0.to_string())).unwrap());
    }
    assert!(all.is_clean(), "{name}: {all}\n{}", all.complaints.join("\n"));
    all.to_string()
}

#[test]
fn scripts_and_functions_answer_every_vector_as_the_kernel_does() {
    let kernel = vectors_by("kernel");
    assert_eq!(vectors_by("script"), kernel);
    assert_eq!(vectors_by("function"), kernel);
}

#[test]
fn a_server_with_a_store_answers_every_vector_as_the_server_does() {
    assert_eq!(vectors_by("server-store"), vectors_by("server"));
}

fn trace(seed: u64, operations: u64) -> Trace {
    Trace { target: Target::Own, seed, operations, stored: 5, fault: None }
}

#[test]
fn kernel_script_function_and_server_agree_on_random_traces() {
    let played = play(&trace(1, 100_000), |_| {}).unwrap_or_else(|differs| panic!("{differs:#?}"));
    assert!(played.operations >= 100_000 && played.allowed > 10_000 && played.chunked > 200, "{played:?}");
}

#[test]
fn dialects_agree_on_random_calls() {
    play_dialects(&trace(1, 20_000), |_| {}).unwrap_or_else(|differs| panic!("{differs:#?}"));
}

#[test]
fn faults_in_a_twin_are_found() {
    assert!(NO_FAULT.iter().all(|nothing| !is_found(nothing, &Target::Own).unwrap()), "a difference without a fault");
    let missed: Vec<&str> =
        FAULTS.iter().filter(|fault| !is_found(fault, &Target::Own).unwrap()).map(|fault| fault.what).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// A script that answers muldiv_add of its arguments, four at a time.
fn muldiv_script(units: &str) -> String {
    let tail = "bind()\nlocal out = {}\nfor i = 1, #ARGV, 4 do\n  local q, r = muldiv_add(tonumber(ARGV[i]), \
                tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))\n  out[#out + 1] = string.format('%.0f', q)\n  \
                out[#out + 1] = string.format('%.0f', r)\nend\nreturn out\n";
    [tollgate_redis::lua::BIND, units, tail].concat()
}

/// Numbers of all sizes, from a seed.
fn numbers(seed: u64, count: usize) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut next = || rng.next_u64() >> 11;
    (0..count).map(|_| 1 + (next() >> (next() % 53)).min((1 << 53) - 2)).collect()
}

fn differences(server: &Server, script: &str, cases: usize) -> usize {
    let mut connection = server.connection().unwrap();
    let mut differ = 0;
    for (round, chunk) in numbers(7, 4 * cases).chunks(4_000).enumerate() {
        let found: Vec<String> = redis::cmd("EVAL").arg(script).arg(0).arg(chunk).query(&mut connection).unwrap();
        for (case, answer) in chunk.chunks(4).zip(found.chunks(2)) {
            // What is added is a fraction, at most a count.
            let sum = u128::from(case[0]) * u128::from(case[1]) + u128::from(case[2]);
            let (quotient, rest) = (sum / u128::from(case[3]), sum % u128::from(case[3]));
            // A quotient beyond 2^53 saturates; no legal policy reaches that.
            if quotient < 1 << 53 && answer != [quotient.to_string(), rest.to_string()] {
                assert!(round < 1_000_000);
                differ += 1;
            }
        }
    }
    differ
}

#[test]
fn products_are_as_exact_as_with_128_bits() {
    let server = Server::start().unwrap();
    let units = tollgate_kernel::lua::UNITS;
    assert_eq!(differences(&server, &muldiv_script(units), 200_000), 0);
    let broken = units.replace("(low - back_low) + (d - more * c)", "(d - more * c)");
    assert_ne!(units, broken);
    assert!(differences(&server, &muldiv_script(&broken), 20_000) > 100);
}

/// What remains of a level that has faded to about the last digit of a double: a sum in another order differs by one.
#[test]
fn a_level_that_has_nearly_faded_leaves_the_same_room() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let text = tollgate_redis::lua::with_callers_clock(&whole_script("tollgate").unwrap().text);
    let (mut rng, start) = (Rng::new(1), Timestamp::new(1_790_000_000_000_000).unwrap());
    let mut ask = |key: &str, policy: &str, cost: u64, mode: &str, t: Timestamp| {
        let time = t.get().to_string();
        let cost = cost.to_string();
        let words = ["1", key, policy, "COST", &cost, "MODE", mode, &time];
        redis::cmd("EVAL").arg(&text).arg(&words).query::<Vec<i64>>(&mut connection).unwrap()[2]
    };
    for case in 0..2_000 {
        let (count, units) = (rng.next_u64() % 4 + 1, rng.next_u64() % 30 + 1);
        let policy: Policy = format!("{count}/100ms decay factor=1.00002").parse().unwrap();
        let mut cells: Vec<_> = policy.limits().iter().map(|limit| limit.fresh()).collect();
        let mut kernel = |t, request: Request| tollgate_kernel::decide(&policy, &mut cells, t, &request).remaining;
        // Levels from 2^-53, below which they are nothing, to a few times that.
        let later = start.plus(Micros::new((1_830_000 + rng.next_u64() % 170_000) * 100_000));
        let (key, policy) = (format!("k{case}"), policy.to_string());
        let charge = Request::cost(Cost::new(units).unwrap()).mode(Mode::Uniform);
        assert_eq!(ask(&key, &policy, units, "uniform", start), kernel(start, charge));
        assert_eq!(
            ask(&key, &policy, 0, "binary", later),
            kernel(later, Request::ONE.peek()),
            "{policy}, {units} units"
        );
    }
}

/// Texts like policies, many of them none.
fn texts() -> Vec<String> {
    let pieces = [
        "1",
        "100",
        "10k",
        "5M",
        "1_0",
        "1__0",
        "0",
        "1000000001",
        "x",
        "",
        "/",
        "s",
        "min",
        "5s",
        "h",
        "500us",
        "1ms",
        "367d",
        "w",
        " ",
        "  ",
        ",",
        ", ",
        "gcra",
        "sliding",
        "fixed",
        "bucket",
        "slots",
        "estimate",
        "decay",
        "rolling",
        " burst=3",
        " burst=0",
        " grain=1s",
        " resolution=1s",
        " factor=2",
        " factor=1",
        " spacing=10ms",
        " align=clock",
        " align=x",
        " name=a",
        " name=a b",
        " name=",
        "é",
        "100/min",
        "5/h",
        "10/s gcra",
        "1/5s slots resolution=1s",
        "3/s fixed",
    ];
    let limits = [
        "100/min",
        "5/h",
        "10/s gcra",
        "1/5s slots resolution=1s",
        "3/s fixed",
        "5M/h grain=1s",
        "15/60s bucket burst=3",
        "10k/day estimate",
        "7/2sec decay factor=1.5",
        "1_000/w fixed align=clock",
        "9/minute gcra burst=20 name=x",
        "100/s spacing=10ms",
        "1M/hour",
        "2M/d",
        "3/3ms decay factor=1.25 name=y-_Z",
    ];
    let mut picks = numbers(99, 40_000).into_iter();
    let mut texts = Vec::new();
    while let (Some(kind), Some(length)) = (picks.next(), picks.next()) {
        let length = 1 + length as usize % 6;
        let mut take = |count: usize, from: &[&'static str]| -> Vec<&'static str> {
            picks.by_ref().take(count).map(|pick| from[pick as usize % from.len()]).collect()
        };
        texts.push(match kind % 4 {
            0 | 1 => take(length, &pieces).concat(),
            2 => take(length / 2 + 1, &limits).join(", "),
            _ => [take(1, &limits), take(1, &pieces)].concat().concat(),
        });
    }
    texts
}

#[test]
fn policy_text_means_the_same_in_lua() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let text = library(LuaNaming::Testing);
    redis::cmd("FUNCTION").arg("LOAD").arg(text).exec(&mut connection).unwrap();
    let t = Timestamp::new(1_790_000_000_000_000).unwrap();
    let (mut right, mut wrong) = (0, 0);
    for text in texts() {
        let mut call = redis::cmd("FCALL");
        call.arg(LuaNaming::Testing.function("tollgate_peek")).arg(1).arg("k").arg(&text).arg("FULL").arg(t.get());
        let found: Result<Vec<i64>, _> = call.query(&mut connection);
        match text.parse::<Policy>() {
            Ok(policy) => {
                let (decision, details) = KeyState::default().decide_full(&policy, t, &Request::ONE.peek());
                let mut flat: Vec<i64> = decision.flat().into_iter().chain(decision.flat_rest()).collect();
                details.iter().for_each(|detail| flat.extend(detail.flat()));
                assert_eq!(found.unwrap(), flat, "{text:?}");
                right += 1;
            }
            Err(_) => {
                let error = found.expect_err(&text).to_string();
                assert!(error.contains("expected") && !error.contains("tollgate:"), "{text:?}: {error}");
                wrong += 1;
            }
        }
    }
    assert!(right > 500 && wrong > 5_000, "{right} right, {wrong} wrong");
}

/// Arguments that make a good call of each function.
fn good_calls() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("tollgate", vec!["5/min", "COST", "1", "MODE", "nary"]),
        ("tollgate_peek", vec!["5/min", "COST", "1"]),
        ("tollgate_reset", vec!["5/min"]),
        ("tollgate_refund", vec!["5/min", "1", "1790000000000000"]),
        ("tollgate_all", vec!["5/min", "1"]),
        ("sliding_window", vec!["1000", "5", "60000", "50"]),
        ("fixed_window", vec!["10", "60"]),
        ("token_bucket", vec!["15", "60", "3"]),
        ("slot_window", vec!["1", "ns", "[[5,60,10]]", "1790000000", "1"]),
        ("ar1", vec!["1", "ns", "[[5,2,10]]", "1790000000", "1"]),
        ("rolling", vec!["1", "1", "1790000000000000", "0", "10", "100", "10000"]),
        ("api_counter", vec!["10"]),
    ]
}

fn dump(connection: &mut redis::Connection) -> Vec<(Vec<u8>, Value)> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    let mut all: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let value = redis::cmd("DUMP").arg(&key).query(connection).unwrap();
            (key, value)
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn bad_arguments_get_an_error_and_change_nothing() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    redis::cmd("FUNCTION").arg("LOAD").arg(library(LuaNaming::Plain)).exec(&mut connection).unwrap();
    let names: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
    let spoken = DIALECTS.iter().filter(|dialect| dialect.lua.is_some()).map(|dialect| dialect.name);
    assert_eq!(good_calls().iter().map(|call| call.0).collect::<Vec<_>>().len(), names.len() + spoken.count());
    let huge = "9".repeat(400);
    let bad =
        ["", "x", "-1", "0", "1.5", "9007199254740993", "9223372036854775808", "nan", "inf", "\0", "[", "{}", &huge];
    for (name, args) in good_calls() {
        redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
        let key = if name == "api_counter" { "{api:k}" } else { "k" };
        let call = |keys: &[&str], args: &[&str], connection: &mut redis::Connection| {
            let mut fcall = redis::cmd("FCALL");
            fcall.arg(name).arg(keys.len()).arg(keys).arg(args);
            fcall.query::<Value>(connection)
        };
        call(&[key], &args, &mut connection).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut refused = 0;
        let mut refuse = |keys: &[&str], args: &[&str], connection: &mut redis::Connection| {
            let before = dump(connection);
            if let Err(error) = call(keys, args, connection) {
                let text = error.to_string();
                assert!(text.contains("expected") || text.contains("WRONGTYPE"), "{name} {args:?}: {text}");
                assert!(!text.contains("tollgate:"), "{name} {args:?}: {text}");
                assert_eq!(dump(connection), before, "{name} {keys:?} {args:?}");
                refused += 1;
            }
        };
        for place in 0..args.len() {
            for wrong in bad {
                let mut args = args.clone();
                args[place] = wrong;
                refuse(&[key], &args, &mut connection);
            }
            refuse(&[key], &args[..place], &mut connection);
        }
        refuse(&[], &args, &mut connection);
        refuse(&[key, "other"], &args, &mut connection);
        if name.starts_with("tollgate") {
            refuse(&[""], &args, &mut connection);
            refuse(&[&huge.repeat(6)], &args, &mut connection);
        }
        for odd in ["[[5,nan,10]]", "[[5,60,inf]]", "[[0x5,60,10]]", "[[5,60,nan]]", "[[nan,60,10]]"] {
            if let Some(place) = args.iter().position(|arg| arg.starts_with("[[")) {
                let mut args = args.clone();
                args[place] = odd;
                let error = call(&[key], &args, &mut connection).expect_err(odd).to_string();
                assert!(error.contains("limits"), "{name} {odd}: {error}");
            }
        }
        assert!(refused >= 5, "{name}: only {refused} refused");
        // A foreign value at the key, of every type.
        for foreign in [["SET", "", "hello"], ["LPUSH", "", "hello"], ["SADD", "", "hello"]] {
            redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
            let held = match name {
                "api_counter" => "{api:k}:data",
                "slot_window" | "ar1" => "ns:{k}",
                _ => "k",
            };
            redis::cmd(foreign[0]).arg(held).arg(foreign[2]).exec(&mut connection).unwrap();
            let before = dump(&mut connection);
            let error = call(&[key], &args, &mut connection).expect_err(name).to_string();
            assert!(error.contains("WRONGTYPE") || error.contains("wrong kind"), "{name}: {error}");
            assert_eq!(dump(&mut connection), before, "{name} at a {}", foreign[0]);
        }
    }
}

#[test]
fn an_empty_key_is_a_key_in_the_dialects() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let script = dialect_script("fixed_window").unwrap();
    let reply: Value =
        redis::cmd("EVAL").arg(script.text).arg(1).arg("").arg("10").arg("60").query(&mut connection).unwrap();
    assert!(matches!(reply, Value::Array(_)));
}

#[test]
fn a_key_without_expiry_is_mended_by_a_refusal() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    redis::cmd("FUNCTION").arg("LOAD").arg(library(LuaNaming::Plain)).exec(&mut connection).unwrap();
    for (name, args) in
        [("tollgate", vec!["1/h"]), ("tollgate", vec!["1/h gcra"]), ("sliding_window", vec!["3600000", "1"])]
    {
        for times in 0..2 {
            let mut call = redis::cmd("FCALL");
            call.arg(name).arg(1).arg("k").arg(&args).exec(&mut connection).unwrap();
            let lives: i64 = redis::cmd("PTTL").arg("k").query(&mut connection).unwrap();
            assert!((3_590_000..=3_601_001).contains(&lives), "{name} {args:?} {times}: {lives}");
            redis::cmd("PERSIST").arg("k").exec(&mut connection).unwrap();
        }
        let mut call = redis::cmd("FCALL");
        call.arg(name).arg(1).arg("k").arg(&args).exec(&mut connection).unwrap();
        let lives: i64 = redis::cmd("PTTL").arg("k").query(&mut connection).unwrap();
        assert!(lives > 0, "{name} {args:?}");
        redis::cmd("DEL").arg("k").exec(&mut connection).unwrap();
    }
}

#[test]
fn every_script_runs_and_is_what_its_name_says() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    for call in CALLS {
        let script = whole_script(call.name).unwrap();
        let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(&script.text).query(&mut connection).unwrap();
        assert_eq!(sha, script.sha);
    }
    let reply: Vec<i64> = redis::cmd("EVALSHA")
        .arg(&whole_script("tollgate").unwrap().sha)
        .arg(1)
        .arg("tg:{u}")
        .arg("1/5s, 5/h")
        .query(&mut connection)
        .unwrap();
    assert_eq!(reply[..3], [1, 1, 0]);
}

/// The Lua files of a folder.
fn lua_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            lua_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            found.push(path);
        }
    }
}

#[test]
fn twins_are_pure_and_numbers_never_go_through_tostring() {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib");
    let mut files = Vec::new();
    for name in ["kernel", "dialects", "redis"] {
        lua_files(&lib.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 25);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let (kernel, name) = (file.starts_with(lib.join("kernel")), file.file_name().unwrap().to_str().unwrap());
        for line in code {
            assert!(!line.contains("tostring"), "{name}: {line}");
            assert!(!line.contains("KEYS") && !line.contains("ARGV"), "{name}: {line}");
            assert!(name == "bind.lua" || !line.contains("redis."), "{name}: {line}");
            assert!(!kernel || !line.contains("call("), "{name}: {line}");
        }
        if kernel {
            assert!(file.with_extension("rs").exists(), "{name} has no twin");
        }
    }
    for listed in tollgate_kernel::algorithms::ALGORITHMS {
        assert!(listed.lua.contains(&format!("local {}\ndo\n", listed.name)), "{}", listed.name);
    }
}
