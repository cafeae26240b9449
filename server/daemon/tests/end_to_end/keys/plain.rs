//! Plain keys: every command's replies and errors.

use std::collections::HashSet;

use tollgate_kernel::{Micros, Timestamp};

use crate::keys::support::{KeysTestServer, T};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_NUMBER: &str = "-ERR value is not an integer or out of range";

#[test]
fn text_and_numbers() {
    KeysTestServer::new().expect(
        &[
            ("GET k", "$-1"),
            ("SET k some~text", "+OK"),
            ("GET k", "$9 some text"),
            ("INCR k", NO_NUMBER),
            ("SET k 41", "+OK"),
            ("INCR k", ":42"),
            ("INCRBY k 8", ":50"),
            ("INCRBY k -60", ":-10"),
            ("DECR k", ":-11"),
            ("DECRBY k 9", ":-20"),
            ("GET k", "$3 -20"),
            ("INCRBY k x", NO_NUMBER),
            ("INCRBY k 1.5", NO_NUMBER),
            ("SET k 9223372036854775807", "+OK"),
            ("INCR k", "-ERR increment or decrement would overflow"),
            ("DECRBY k -9223372036854775808", "-ERR decrement would overflow"),
            ("SET k 007", "+OK"),
            ("GET k", "$3 007"),
            ("INCR k", NO_NUMBER),
            ("SET k ''", "+OK"),
            ("GET k", "$0 "),
            ("TYPE k", "+string"),
            ("TYPE none", "+none"),
            ("EXISTS k k none", ":2"),
            ("DEL k k none", ":1"),
            ("UNLINK k", ":0"),
            ("DBSIZE", ":0"),
        ]
        .map(|(command, reply)| (command, reply.trim_end())),
    );
}

#[test]
fn set_with_its_words() {
    KeysTestServer::new().expect(&[
        ("SET k 1 XX", "$-1"),
        ("SET k 1 NX EX 100", "+OK"),
        ("SET k 2 NX", "$-1"),
        ("TTL k", ":100"),
        ("SET k 2 XX KEEPTTL", "+OK"),
        ("PTTL k", ":100000"),
        ("SET k 3 GET PX 1500", "$1 2"),
        ("PTTL k", ":1500"),
        ("TTL k", ":2"),
        ("SET k 4 PXAT 1700000040250", "+OK"),
        ("PTTL k", ":250"),
        ("SET k 4 EXAT 1700000041", "+OK"),
        ("PTTL k", ":1000"),
        ("SET k 4 EXAT 5", "+OK"),
        ("EXISTS k", ":0"),
        ("SET k 5", "+OK"),
        ("TTL k", ":-1"),
        ("SET k 5 EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k 5 EX -1", "-ERR invalid expire time in 'set' command"),
        ("SET k 5 EX x", NO_NUMBER),
        ("SET k 5 EX", "-ERR syntax error"),
        ("SET k 5 EX 1 PX 1", "-ERR syntax error"),
        ("SET k 5 EX 1 KEEPTTL", "-ERR syntax error"),
        ("SET k 5 NX XX", "-ERR syntax error"),
        ("SET k 5 LATER", "-ERR syntax error"),
        ("GET k", "$1 5"),
    ]);
}

#[test]
fn keys_expire_at_their_microsecond() {
    let mut server = KeysTestServer::new();
    server.expect(&[("SET k v", "+OK"), ("EXPIRE k 59", ":1"), ("TTL k", ":59"), ("PTTL k", ":59000")]);
    server.set(1);
    server.expect(&[("PTTL k", ":59000")]);
    server.set(1_000);
    server.expect(&[("PTTL k", ":58999"), ("TTL k", ":59")]);
    server.set(58_500_001);
    server.expect(&[("PTTL k", ":500"), ("TTL k", ":1")]);
    server.set(58_999_999);
    server.expect(&[("PTTL k", ":1"), ("TTL k", ":0"), ("GET k", "$1 v")]);
    server.set(59_000_000);
    server.expect(&[("PTTL k", ":0"), ("EXISTS k", ":1")]);
    server.set(59_000_001);
    server.expect(&[("PTTL k", ":-2"), ("TTL k", ":-2"), ("EXISTS k", ":0"), ("GET k", "$-1"), ("DBSIZE", ":0")]);
    server.expect(&[("INCR k", ":1"), ("PEXPIRE k 1", ":1"), ("TYPE k", "+string")]);
    server.set(59_001_001);
    server.expect(&[("GET k", "$1 1")]);
    server.set(59_001_002);
    server.expect(&[("GET k", "$-1"), ("DEL k", ":0")]);
}

#[test]
fn expire_with_its_words() {
    KeysTestServer::new().expect(&[
        ("EXPIRE k 10", ":0"),
        ("SET k v", "+OK"),
        ("EXPIRE k 10 XX", ":0"),
        ("EXPIRE k 10 GT", ":0"),
        ("EXPIRE k 10 LT", ":1"),
        ("EXPIRE k 10 NX", ":0"),
        ("EXPIRE k 10 GT", ":0"),
        ("EXPIRE k 11 GT XX", ":1"),
        ("EXPIRE k 12 LT", ":0"),
        ("PEXPIRE k 10999 LT", ":1"),
        ("PTTL k", ":10999"),
        ("EXPIREAT k 1700000060", ":1"),
        ("TTL k", ":20"),
        ("PEXPIREAT k 1700000060500", ":1"),
        ("PTTL k", ":20500"),
        ("EXPIRE k 10 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE k 10 GT LT", "-ERR GT and LT options at the same time are not compatible"),
        ("EXPIRE k 10 MAYBE", "-ERR Unsupported option \"MAYBE\"; expected NX, XX, GT or LT"),
        ("EXPIRE k x", NO_NUMBER),
        ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
        ("EXPIRE k 0", ":1"),
        ("EXISTS k", ":0"),
        ("SET k v", "+OK"),
        ("PEXPIRE k -5", ":1"),
        ("GET k", "$-1"),
    ]);
}

#[test]
fn hashes_are_seed_001s_alone() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("HGETALL none", "*0"),
        ("HGET none last", "$-1"),
        ("SET k v", "+OK"),
        ("HGETALL k", WRONG_TYPE),
        ("HGET k last", WRONG_TYPE),
        ("INCR {api:x}:1", ":1"),
        ("HGETALL {api:x}:data", "*4 $4 last $10 1700000040 $3 ops $1 1"),
        ("HGET {api:x}:data ops", "$1 1"),
        ("HGET {api:x}:data nosuch", "$-1"),
        ("TYPE {api:x}:data", "+hash"),
        ("GET {api:x}:data", WRONG_TYPE),
        ("INCR {api:x}:data", WRONG_TYPE),
        ("SET {api:x}:data text GET", WRONG_TYPE),
        ("SET {api:x}:data text", "+OK"),
        // What somebody put there is left alone.
        ("INCR {api:x}:1", ":2"),
        ("GET {api:x}:data", "$4 text"),
    ]);
}

#[test]
fn scan_finds_all_keys_and_those_that_match() {
    let mut server = KeysTestServer::new();
    for place in 0..300 {
        server.ask(&format!("SET user:{place} x"));
    }
    server.ask("INCR {api:x}:1");
    let all = |server: &mut KeysTestServer, options: &str| {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        for _ in 0..200 {
            let reply = server.ask(&format!("SCAN {cursor}{options}"));
            let lines: Vec<&str> = reply.split(' ').collect();
            cursor = lines[2].to_owned();
            found.extend(lines[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
            if cursor == "0" {
                let different: HashSet<&String> = found.iter().collect();
                assert_eq!(different.len(), found.len());
                return found;
            }
        }
        panic!("SCAN does not end");
    };
    assert_eq!(all(&mut server, "").len(), 302);
    assert_eq!(all(&mut server, " COUNT 7").len(), 302);
    assert_eq!(all(&mut server, " MATCH user:1* COUNT 100").len(), 111);
    assert_eq!(all(&mut server, " MATCH user:1[2-4]").len(), 3);
    assert_eq!(all(&mut server, " TYPE hash COUNT 1000"), ["{api:x}:data"]);
    assert_eq!(all(&mut server, " TYPE list COUNT 1000"), [""; 0]);
    server.expect(&[
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN 0 COUNT", "-ERR syntax error"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 0 COUNT x", NO_NUMBER),
        ("SCAN 0 LIMIT 5", "-ERR syntax error"),
    ]);
    let long = "x".repeat(257);
    let reply = server.ask(&format!("SCAN 0 MATCH {long}"));
    assert_eq!(reply, "-ERR MATCH: expected at most 256 bytes, found 257");
}

#[test]
fn what_is_not_known_says_what_is() {
    let mut server = KeysTestServer::without_reset();
    for (command, said) in [
        ("WATCH k", "between MULTI and EXEC"),
        ("FLUSHALL", "-NOPERM expected a token with the scope reset"),
        ("FLUSHDB", "-NOPERM expected a token with the scope reset"),
        ("GET", "wrong number of arguments for 'get' command; expected GET key"),
        ("INCRBY k", "wrong number of arguments for 'incrby' command"),
    ] {
        let reply = server.ask(command);
        assert!(reply.contains(said), "{command}: {reply}");
    }
    server.expect(&[("UNWATCH", "+OK")]);
    let long = "k".repeat(4_097);
    for command in [vec!["INCR", &long], vec!["SET", &long, "1"], vec!["FCALL", "fixed_window", "1", &long, "1", "1"]] {
        let said = "-ERR key: expected at most 4096 bytes, found 4097; hash longer ones";
        assert_eq!(server.client.ask(&command), said);
    }
    assert_eq!(server.client.ask(&["GET", &long]), "$-1");
}

#[test]
fn keys_of_a_database_are_listed_if_they_are_not_too_many() {
    let mut server = KeysTestServer::new();
    let named = |server: &mut KeysTestServer, pattern: &str| {
        let reply = server.ask(&format!("KEYS {pattern}"));
        let mut names: Vec<String> = reply.split(' ').skip(2).step_by(2).map(str::to_owned).collect();
        names.sort();
        names
    };
    server.expect(&[("KEYS *", "*0")]);
    (0..2_500).for_each(|place| drop(server.ask(&format!("SET testkey-{place} 1"))));
    server.ask("FCALL fixed_window 1 f 1 60");
    assert_eq!(named(&mut server, "testkey-249?").len(), 10);
    assert_eq!(named(&mut server, "[^t]*"), ["f"]);
    assert_eq!(named(&mut server, "*").len(), 2_501);
    server.expect(&[("SELECT 9", "+OK"), ("KEYS *", "*0"), ("SELECT 0", "+OK")]);
    assert_eq!(server.ask(&format!("KEYS {}", "x".repeat(257))), "-ERR MATCH: expected at most 256 bytes, found 257");
    let long = "k".repeat(600);
    (0..500).for_each(|place| drop(server.client.ask(&["SET", &format!("{long}{place}"), "1"])));
    let said = "-ERR KEYS: expected at most 262144 bytes of keys that match; use SCAN 0 MATCH pattern";
    assert_eq!(server.ask("KEYS k*"), said);
    (0..7_500).for_each(|place| drop(server.ask(&format!("SET {place} 1"))));
    let said = "-ERR KEYS: expected a database of at most 10000 keys, found 10501; use SCAN 0 MATCH pattern";
    assert_eq!(server.ask("KEYS none"), said);
}

#[test]
fn the_data_of_a_token_is_read_as_a_hash() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("INCR {api:x}:14", ":1"),
        ("HMGET {api:x}:data ops nothing last", "*3 $1 1 $-1 $10 1700000040"),
        ("HKEYS {api:x}:data", "*2 $4 last $3 ops"),
        ("HVALS {api:x}:data", "*2 $10 1700000040 $1 1"),
        ("HLEN {api:x}:data", ":2"),
        ("HEXISTS {api:x}:data ops", ":1"),
        ("HEXISTS {api:x}:data last-use", ":0"),
        ("HLEN none", ":0"),
        ("HMGET none a b", "*2 $-1 $-1"),
        ("HLEN {api:x}:14", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn the_end_of_a_key_is_told_as_a_time_too() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("SET k 1 PX 1500", "+OK"),
        ("PEXPIRETIME k", ":1700000041500"),
        ("EXPIRETIME k", ":1700000042"),
        ("SET forever 1", "+OK"),
        ("EXPIRETIME forever", ":-1"),
        ("PEXPIRETIME none", ":-2"),
    ]);
}

#[test]
fn commands_between_multi_and_exec_are_run_together() {
    let mut server = KeysTestServer::new();
    server.expect(&[
        ("MULTI", "+OK"),
        ("SET k 1", "+QUEUED"),
        ("INCR k", "+QUEUED"),
        ("HGETALL k", "+QUEUED"),
        ("EXPIRE k 59", "+QUEUED"),
        ("FCALL fixed_window 1 w 2 60", "+QUEUED"),
        ("FCALL fixed_window 1 k 2 60", "+QUEUED"),
        ("TG.CHECK u 5/min", "+QUEUED"),
        ("FCALL tollgate 1 tg:{u} 5/min", "+QUEUED"),
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 w 2 60", "+QUEUED"),
        ("EVALSHA 0000000000000000000000000000000000000000 0", "+QUEUED"),
        ("EXISTS w k", "+QUEUED"),
    ]);
    let state = "-WRONGTYPE Operation against a key holding the wrong kind of value: expected a state of tollgate";
    let parts = [
        "*11 +OK :2",
        WRONG_TYPE,
        ":1 *2 $5 allow *3 $1 2 $2 60 $1 1",
        state,
        "*6 :1 :1 :4 :0 :60000000 :0 *6 :1 :1 :3 :0 :60000000 :0",
        "*2 $5 allow *3 $1 2 $2 60 $1 0",
        "-NOSCRIPT No matching script. Please use EVAL.",
        ":2",
    ];
    assert_eq!(server.ask("EXEC"), parts.join(" "));
    server.expect(&[
        ("MULTI", "+OK"),
        ("INCR k", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET k", "$1 2"),
        ("MULTI", "+OK"),
        ("INCR", "-ERR wrong number of arguments for 'incr' command; expected INCR key"),
        ("INCR k", "+QUEUED"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET k", "$1 2"),
    ]);
}

#[test]
fn replies_to_one_exec_are_bounded() {
    let mut server = KeysTestServer::new();
    let long = "x".repeat(100_000);
    assert_eq!(server.client.ask(&["SET", "k", &long]), "+OK");
    server.ask("MULTI");
    (0..20).for_each(|_| assert_eq!(server.ask("GET k"), "+QUEUED"));
    server.ask("INCR n");
    let reply = server.ask("EXEC");
    assert!(reply.starts_with("*21 $100000 xxx"));
    let (not_run, whole) = (reply.matches("-ERR not run: expected at most").count(), reply.matches("$100000").count());
    assert_eq!((not_run, whole), (10, 11));
    server.expect(&[("EXISTS n", ":0")]);
}

#[test]
fn plain_keys_expire_by_the_machines_clock_and_limiters_do_not() {
    const HOUR: u64 = 3_600_000_000;
    let mut server = KeysTestServer::new();
    server.login();
    let wall = |server: &KeysTestServer, us: u64| server.clock.set_wall(Timestamp::saturating(us));
    let decided = [server.ask("FCALL fixed_window 1 f 1 60"), server.ask("FCALL fixed_window 1 f 1 60")];
    assert_ne!(decided[0], decided[1]);
    server.expect(&[("SET old x EX 7200", "+OK"), ("SET new x PX 100", "+OK")]);
    assert!(server.ask("FCALL api_counter 1 {api:t} 2").starts_with("*5 :1 :1 "));
    // Set back by ten minutes, as an operator does.
    wall(&server, T - 600_000_000);
    server.expect(&[
        ("TIME", "*2 $10 1699999440 $1 0"),
        ("INCR c", ":1"),
        ("EXPIREAT c 1699999500", ":1"),
        ("INCR c", ":2"),
        ("TTL c", ":60"),
        ("SET s x EXAT 1699999450", "+OK"),
        ("SET s y KEEPTTL", "+OK"),
        ("PTTL s", ":10000"),
        ("PTTL old", ":7800000"),
        ("PTTL new", ":600100"),
        ("PTTL f", ":60000"),
        ("EXPIREAT f 1699999470", ":1"),
        ("PTTL f", ":30000"),
    ]);
    assert!(server.ask("FCALL api_counter 1 {api:t} 2").starts_with("*5 :1 :2 "));
    assert_eq!(server.ask("FCALL fixed_window 1 f 1 60"), decided[1]);
    // Text that is put in a limiter's place lives on as long, by the other clock.
    server.expect(&[("SET f x KEEPTTL", "+OK"), ("PTTL f", ":60000"), ("DEL f", ":1")]);
    assert_eq!(server.ask("FCALL fixed_window 1 f 1 60"), decided[0]);
    // Set ahead: what limiters remember is not forgotten before its time.
    wall(&server, T + HOUR);
    server.expect(&[("GET c", "$-1"), ("GET s", "$-1"), ("GET new", "$-1"), ("PTTL old", ":3600000")]);
    assert_eq!(server.ask("FCALL fixed_window 1 f 1 60"), decided[1]);
    server.expect(&[("PTTL f", ":60000"), ("GET {api:t}:14", "$1 2")]);
    // And not kept beyond it.
    wall(&server, T - HOUR);
    server.clock.advance(Micros::new(60_000_001));
    server.expect(&[("EXISTS f", ":0"), ("EXISTS {api:t}:14", ":0"), ("DBSIZE", ":2")]);
    assert_eq!(server.ask("FCALL fixed_window 1 f 1 60"), decided[0]);
}
