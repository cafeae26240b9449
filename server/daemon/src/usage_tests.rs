//! The usage of keys, as clients see it.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_config::{Config, PolicyEntry};
use tollgate_kernel::{Clock, Micros, Policy, Request, Timestamp};
use tollgate_memory::ManualClock;

use crate::access::Scopes;
use crate::resp::session::Session;
use crate::shared::ServerState;
use tollgate_engine::usage::{MAX_KEYS, UsageRecord};

const START: u64 = 1_790_000_000_000_000;

fn shared() -> (Arc<ServerState>, ManualClock) {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let shared = ServerState::for_test_by(|| Box::new(clock.clone()));
    let policies = [("login", "3/min", true), ("other", "3/min", true), ("plain", "3/min", false)];
    let entry = |(name, text, usage): (&str, &str, bool)| {
        let policy = text.parse::<Policy>().unwrap().with_name(name).unwrap();
        Arc::new(PolicyEntry { usage, ..PolicyEntry::new(policy) })
    };
    let config = Config { policies: policies.map(entry).to_vec(), ..Config::default() };
    shared.engine.adopt(config).unwrap();
    (shared, clock)
}

/// Returns the answers to commands.
async fn ask(shared: &Arc<ServerState>, commands: &[&[&str]]) -> String {
    let addr = "127.0.0.1:7379".parse().unwrap();
    let (mut client, server) = tokio::io::duplex(64 << 10);
    for words in commands {
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes += &format!("${}\r\n{word}\r\n", word.len()));
        client.write_all(bytes.as_bytes()).await.unwrap();
    }
    client.shutdown().await.unwrap();
    crate::resp::serve(Arc::clone(shared), server, Session::new(1, addr, addr, Scopes::FREE)).await;
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

fn integers(numbers: [u64; 5]) -> String {
    numbers.iter().fold("*5\r\n".to_owned(), |text, number| text + &format!(":{number}\r\n"))
}

#[tokio::test]
async fn what_a_key_used_is_told_by_command_and_in_words() {
    let (shared, clock) = shared();
    let check: &[&str] = &["TG.CHECK", "user:42", "login"];
    let _ = ask(&shared, &[check, &["TG.PEEK", "user:42", "login"]]).await;
    clock.advance(Micros::from_secs(5));
    let _ = ask(&shared, &[check, &["TG.CHECK", "user:42", "login", "COST", "2", "FULL"], check]).await;
    let usage: &[&str] = &["TG.USAGE", "user:42", "login"];
    assert_eq!(ask(&shared, &[usage]).await, integers([4, 1, 3, START, START + 5_000_000]));
    let told = ask(&shared, &[&["TG.EXPLAIN", "user:42", "login"]]).await;
    assert!(told.contains("used so far: 4 requests, 1 of them refused, 3 units granted; first at 1790000000000000us"));
    // Other keys and policies are counted separately.
    for words in [&["TG.USAGE", "user:43", "login"][..], &["TG.USAGE", "user:42", "other"]] {
        assert_eq!(ask(&shared, &[words]).await, integers([0; 5]));
    }
    for policy in ["plain", "3/min"] {
        let told = ask(&shared, &[&["TG.USAGE", "user:42", policy]]).await;
        assert!(told.starts_with("-ERR policy: expected one with usage: true"), "{told}");
    }
    assert!(ask(&shared, &[&["TG.USAGE", "", "login"]]).await.starts_with("-ERR"));
    // TG.CHECKALL counts each part.
    let _ = ask(&shared, &[&["TG.CHECKALL", "a", "login", "AND", "b", "other", "COST", "9"]]).await;
    assert_eq!(
        ask(&shared, &[&["TG.USAGE", "b", "other"]]).await,
        integers([1, 1, 0, START + 5_000_000, START + 5_000_000])
    );
}

#[test]
fn so_many_keys_are_kept_and_whoever_was_used_last_is_among_them() {
    let (shared, clock) = shared();
    let engine = &shared.engine;
    let known = engine.policy(b"login", None).unwrap();
    let mut decisions = Vec::new();
    let mut check =
        |key: &str| engine.check_many_now(&known, &[key.as_bytes()], &Request::ONE, &mut decisions).unwrap().unwrap();
    check("first");
    check("kept");
    for number in 0..MAX_KEYS as u64 + 10 {
        check(&format!("key:{number}"));
        if number % 1_000 == 0 {
            check("kept");
        }
    }
    assert_eq!(engine.ops().usage.keys(), MAX_KEYS);
    assert_eq!(engine.usage_of(&known, b"first"), Some(UsageRecord::default()));
    assert_eq!(engine.usage_of(&known, b"kept").unwrap().requests, 1 + 101);
    let newest = engine.usage_of(&known, format!("key:{}", MAX_KEYS + 9).as_bytes()).unwrap();
    assert_eq!((newest.requests, newest.last), (1, clock.now()));
}
