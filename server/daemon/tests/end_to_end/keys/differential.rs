//! Random commands, answered as redis-server answers them: the same bytes, and of errors the same first word.
//!
//! No reply depends on the time that passes: what is left of a life is compared in parts of it that are much
//! longer than the test.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_daemon::ServerSettings;
use tollgate_kit::Server;
use tollgate_random::Rng;

use crate::keys::support::{Client, KeysTestServer};

const COMMANDS: u64 = 20_000;
/// Lives are odd multiples of half of this, in seconds.
const PART: i64 = 100_000;

const KEYS: &[&str] = &["a", "b", "c", "d", "{t}:x", ""];
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "41",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "01",
    "-0",
    "+1",
    " 1",
    "1.5",
    "",
    "text",
    "some longer text with \r\n in it",
];
const NUMBERS: &[&str] = &["1", "5", "-3", "0", "9223372036854775807", "-9223372036854775808", "x", "", "1e3", "007"];

/// A reply that can be compared.
#[derive(Debug, PartialEq)]
enum Reply {
    Line(String),
    Error(String),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<Reply>>),
}

fn read(bytes: &mut &[u8]) -> Reply {
    let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
    let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let sign = bytes[0];
    *bytes = &bytes[end + 2..];
    match sign {
        b'-' => Reply::Error(line.split(' ').next().unwrap().to_owned()),
        b'$' => Reply::Bulk(usize::try_from(line.parse::<i64>().unwrap()).ok().map(|len| {
            let text = bytes[..len].to_vec();
            *bytes = &bytes[len + 2..];
            text
        })),
        b'*' => Reply::Array(
            usize::try_from(line.parse::<i64>().unwrap()).ok().map(|len| (0..len).map(|_| read(bytes)).collect()),
        ),
        _ => Reply::Line(format!("{}{line}", char::from(sign))),
    }
}

/// Lives in parts, and what SCAN finds in one order.
fn comparable(command: &[String], reply: Reply) -> Reply {
    let name = command[0].to_uppercase();
    match reply {
        Reply::Line(line) if line.starts_with(':') && (name == "TTL" || name == "PTTL") => {
            let left: i64 = line[1..].parse().unwrap();
            let part = if name == "TTL" { PART } else { 1_000 * PART };
            Reply::Line(format!(":{}", if left < 0 { left } else { left / part }))
        }
        Reply::Array(Some(mut parts)) if name == "SCAN" && parts.len() == 2 => {
            if let Some(Reply::Array(Some(found))) = parts.last_mut() {
                found.sort_by_key(|key| format!("{key:?}"));
            }
            Reply::Array(Some(parts))
        }
        other => other,
    }
}

/// A life that no other command asks for: seconds, and the middle of a part.
fn life(step: u64) -> i64 {
    let scrambled = (step * 7_919 % 20_011) as i64;
    PART * (scrambled + 1) + PART / 2
}

fn command(rng: &mut Rng, step: u64, start: i64) -> Vec<String> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let key = rng.pick(KEYS);
    let (seconds, milliseconds) = (life(step).to_string(), (1_000 * life(step)).to_string());
    let mut words = match rng.below(40) {
        0..4 => own(&["GET", key]),
        4..9 => {
            let mut words = own(&["SET", key, rng.pick(VALUES)]);
            match rng.below(14) {
                0 => words.extend(own(&["EX", &seconds])),
                1 => words.extend(own(&["PX", &milliseconds])),
                2 => words.extend(own(&["NX"])),
                3 => words.extend(own(&["XX", "KEEPTTL"])),
                4 => words.extend(own(&["GET"])),
                5 => words.extend(own(&["ex", &seconds, "nx", "get"])),
                6 => words.extend(own(&["EX", rng.pick(&["0", "-1", "x"])])),
                7 => words.extend(own(&["NX", "XX"])),
                8 => words.extend(own(&["EXAT", &(start + life(step)).to_string()])),
                _ => {}
            }
            words
        }
        9..13 => own(&["INCR", key]),
        13..16 => own(&["INCRBY", key, rng.pick(NUMBERS)]),
        16 => own(&["DECR", key]),
        17 => own(&["DECRBY", key, rng.pick(NUMBERS)]),
        18..21 => {
            let mut words = match rng.below(4) {
                0 => own(&["PEXPIRE", key, &milliseconds]),
                1 => own(&["EXPIREAT", key, &(start + life(step)).to_string()]),
                2 => own(&["EXPIRE", key, rng.pick(&["0", "-1", "x", "9223372036854775807", "-9223372036854775808"])]),
                _ => own(&["EXPIRE", key, &seconds]),
            };
            if rng.one_in(2) {
                words.extend(own(&[rng.pick(&["NX", "XX", "GT", "LT", "xx", "MAYBE"])]));
            }
            if rng.one_in(10) {
                words.extend(own(&[rng.pick(&["NX", "XX", "GT", "LT"])]));
            }
            words
        }
        21..23 => own(&["TTL", key]),
        23..25 => own(&["PTTL", key]),
        25 => own(&["EXISTS", key, rng.pick(KEYS), rng.pick(KEYS)]),
        26 => own(&["DEL", key, rng.pick(KEYS)]),
        27 => own(&["UNLINK", key]),
        28 => own(&["TYPE", key]),
        29 => own(&["DBSIZE"]),
        30 => own(&["HGETALL", key]),
        31 => own(&["HGET", key, "last"]),
        32 => match rng.below(6) {
            0 => own(&["SCAN", "0", "COUNT", rng.pick(&["0", "x", "1000"])]),
            1 => own(&["SCAN", rng.pick(&["x", "0"]), "COUNT", "1000"]),
            2 => own(&["SCAN", "0", "MATCH", rng.pick(&["[a-c]", "*", "?", "{t}:*", "[^a]", "\\a"]), "COUNT", "1000"]),
            3 => own(&["SCAN", "0", "COUNT", "1000", "TYPE", rng.pick(&["string", "hash", "list"])]),
            _ => own(&["SCAN", "0", "COUNT", "1000"]),
        },
        33 => own(&["MULTI"]),
        34 | 35 => own(&["EXEC"]),
        36 => own(&["DISCARD"]),
        37 => own(&["ECHO", rng.pick(VALUES)]),
        38 => own(&["UNWATCH"]),
        _ => own(&["EVALSHA", "0000000000000000000000000000000000000000", rng.pick(&["0", "1", "-1", "x"])]),
    };
    match rng.below(50) {
        0 => words.push("more".to_owned()),
        1 if words.len() > 1 => {
            words.pop();
        }
        2 => words[0] = words[0].to_lowercase(),
        _ => {}
    }
    words
}

#[test]
fn random_commands_are_answered_as_redis_answers_them() {
    let seed = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_607);
    println!("TOLLGATE_SEED={seed}");
    let redis = Server::start().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut server = KeysTestServer::at(ServerSettings::default(), now.as_micros() as u64);
    let (start, mut theirs, mut rng) = (now.as_secs() as i64, Client::open(redis.addr()), Rng::new(seed));
    let mut waiting: Vec<Vec<String>> = Vec::new();
    let (mut errors, mut transactions) = (0, 0);
    for step in 0..COMMANDS {
        let command = command(&mut rng, step, start);
        let (found, expected) = (server.client.reply(&command), theirs.reply(&command));
        let (mut found_bytes, mut expected_bytes) = (found.as_slice(), expected.as_slice());
        let (found, expected) = (read(&mut found_bytes), read(&mut expected_bytes));
        let pair = match (found, expected) {
            (Reply::Array(Some(found)), Reply::Array(Some(expected)))
                if command[0].eq_ignore_ascii_case("EXEC") && found.len() == waiting.len() =>
            {
                transactions += 1;
                let each = |replies: Vec<Reply>| {
                    let replies = waiting.iter().zip(replies).map(|(command, reply)| comparable(command, reply));
                    Reply::Array(Some(replies.collect()))
                };
                (each(found), each(expected))
            }
            (found, expected) => (comparable(&command, found), comparable(&command, expected)),
        };
        assert_eq!(pair.0, pair.1, "step {step} of TOLLGATE_SEED={seed}: {command:?} after {waiting:?}");
        errors += u32::from(matches!(pair.0, Reply::Error(_)));
        if pair.0 == Reply::Line("+QUEUED".to_owned()) {
            waiting.push(command);
        } else if command[0].eq_ignore_ascii_case("EXEC") || command[0].eq_ignore_ascii_case("DISCARD") {
            waiting.clear();
        }
    }
    assert!(errors > 500 && transactions > 50, "{errors} {transactions}");
}
