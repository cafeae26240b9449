//! While the server does not answer: the deadline holds, the policy's on_error decides and says so, the
//! breaker spares callers the wait, and the server is used again soon after it answers.

use std::time::{Duration, Instant};

use crate::common::{TimerLag, policy};
use tollgate_kernel::{Cost, KeyCheck, OnError, Policy, Request, Source, Store, StoreError, Timestamp};
use tollgate_kit::{Fault, Proxy, Server};
use tollgate_redis::Redis;

const DEADLINE: Duration = Duration::from_millis(20);
/// Far above the deadline, so that a call that hangs fails the test and a busy machine does not. `torture down`
/// measures the times.
const MAX_TIME: Duration = Duration::from_millis(250);
/// The time limit of a call that does not use the network.
const AT_ONCE: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(10);

fn with(text: &str, on_error: OnError) -> Policy {
    policy(text).with_on_error(on_error)
}

/// Makes calls one after the other; returns the longest time of a call under the deadline, and all sources.
async fn longest(store: &Redis, calls: usize) -> (Duration, Vec<Source>) {
    let (policy, mut longest, mut sources) = (with("1000/h", OnError::Local), Duration::ZERO, Vec::new());
    for _ in 0..calls {
        let start = Instant::now();
        sources.push(store.check(&policy, b"k", Request::ONE).await.unwrap().source);
        longest = longest.max(start.elapsed());
    }
    (longest, sources)
}

/// Waits until the server decides again; returns how long that took.
async fn back(store: &Redis) -> Duration {
    let (start, policy) = (Instant::now(), policy("1000/h"));
    while store.check(&policy, b"k", Request::ONE).await.unwrap().source != Source::Home {
        assert!(start.elapsed() < Duration::from_secs(5), "still not back: {:?}", store.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_server_costs_a_deadline_then_nothing_and_is_used_again_within_a_second() {
    let lag = TimerLag::start();
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(DEADLINE).connect().await.unwrap();
    back(&store).await;
    server.stop_answering().unwrap();
    let (slow, sources) = longest(&store, 20).await;
    assert!(slow <= MAX_TIME + lag.latest(), "{slow:?}");
    assert!(sources.iter().all(|source| *source == Source::Local));
    assert_eq!(store.stats().open_breakers, 1, "{:?}", store.stats());
    let (fast, _) = longest(&store, 1000).await;
    assert!(fast < AT_ONCE + lag.latest(), "{fast:?}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let connections = store.stats().connections;
    server.resume().unwrap();
    let took = back(&store).await;
    assert!(took < SOON + lag.latest(), "{took:?}");
    println!(
        "stalled: longest call {slow:?}, with an open breaker {fast:?}, back after {took:?}, {connections} connections"
    );
    assert_eq!(store.stats().open_breakers, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_found_again_within_a_second() {
    let lag = TimerLag::start();
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(DEADLINE).connect().await.unwrap();
    back(&store).await;
    server.kill_hard().unwrap();
    let (slow, sources) = longest(&store, 2000).await;
    assert!(slow <= MAX_TIME + lag.latest(), "{slow:?}");
    assert!(sources.iter().all(|source| *source == Source::Local));
    server.restart().unwrap();
    let took = back(&store).await;
    assert!(took < SOON + lag.latest(), "{took:?}");
    println!("dead: longest call {slow:?}, back after {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opens_while_the_server_is_down() {
    let lag = TimerLag::start();
    let mut server = Server::start().unwrap();
    server.kill_hard().unwrap();
    let url = server.url();
    assert!(Redis::builder(&url).connect().await.is_err());
    let store = Redis::builder(&url).deadline(DEADLINE).lazy().unwrap();
    let (slow, sources) = longest(&store, 100).await;
    assert!(slow <= MAX_TIME + lag.latest() && sources[99] == Source::Local, "{slow:?}");
    server.restart().unwrap();
    assert!(back(&store).await < SOON + lag.latest());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_keep_the_deadline_and_few_connections_are_tried() {
    let lag = TimerLag::start();
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let store = Redis::builder(&proxy.url()).deadline(DEADLINE).connect().await.unwrap();
    back(&store).await;
    proxy.faults().set(Fault::Stall);
    let (end, before) = (Instant::now() + Duration::from_secs(2), store.stats().connections);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        callers.spawn(async move {
            let mut slowest = Duration::ZERO;
            while Instant::now() < end {
                slowest = slowest.max(longest(&store, 1).await.0);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            slowest
        });
    }
    let slowest = callers.join_all().await.into_iter().max().unwrap();
    let tried = store.stats().connections - before;
    assert!(slowest <= MAX_TIME + lag.latest(), "{slowest:?}");
    assert!(tried <= 10, "{tried} connections in 2 s");
    proxy.faults().clear();
    assert!(back(&store).await < SOON + lag.latest());
    println!("64 callers, stalled: longest call {slowest:?}, {tried} connections in 2 s");
}

#[tokio::test]
async fn each_kind_of_on_error_decides_and_says_so() {
    let store = Redis::builder("redis://127.0.0.1:1").share(0.5).lazy().unwrap();
    let rows = [
        (OnError::Local, Source::Local, vec![true, true, false]),
        (OnError::Allow, Source::Open, vec![true; 3]),
        (OnError::Deny, Source::Closed, vec![false; 3]),
    ];
    for (on_error, source, allowed) in rows {
        let policy = with("4/h", on_error).with_name(on_error.name()).unwrap();
        let mut found = Vec::new();
        for _ in 0..3 {
            let decision = store.check(&policy, b"check", Request::ONE).await.unwrap();
            assert_eq!(decision.source, source);
            found.push(decision.allowed);
        }
        assert_eq!(found, allowed, "{on_error:?}");
        let (decision, details) = store.check_full(&policy, b"full", Request::ONE).await.unwrap();
        assert_eq!((decision.source, decision.allowed, details.len()), (source, allowed[0], 1));
        let keys: [&[u8]; 3] = [b"many"; 3];
        let many = store.check_many(&policy, &keys, Request::ONE).await.unwrap();
        assert!(many.iter().all(|decision| decision.source == source));
        assert_eq!(many.iter().map(|decision| decision.allowed).collect::<Vec<_>>(), allowed);
        let item = |key| KeyCheck { policy: &policy, key, cost: Cost::ONE };
        let all = store.check_all(&[item(b"a"), item(b"b")]).await.unwrap();
        assert_eq!(all.allowed, allowed[0]);
        assert!(all.decisions.iter().all(|decision| decision.source == source));
    }
    let stats = store.stats();
    assert_eq!((stats.local, stats.open, stats.closed, stats.home), (9, 9, 9, 0), "{stats:?}");
}

#[tokio::test]
async fn together_one_closed_part_refuses_and_charges_nothing() {
    let store = Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
    let (local, deny, allow) = (with("4/h", OnError::Local), with("4/h", OnError::Deny), with("4/h", OnError::Allow));
    let item = |policy, key| KeyCheck { policy, key, cost: Cost::ONE };
    let all = store.check_all(&[item(&local, b"a"), item(&deny, b"b"), item(&allow, b"c")]).await.unwrap();
    let told: Vec<_> = all.decisions.iter().map(|d| (d.source, d.allowed, d.granted, d.charged)).collect();
    let expected = [(Source::Local, true, 0, 0), (Source::Closed, false, 0, 0), (Source::Open, true, 0, 0)];
    assert_eq!((all.allowed, told.as_slice()), (false, &expected[..]));
    let all = store.check_all(&[item(&local, b"a"), item(&allow, b"c")]).await.unwrap();
    assert!(all.allowed && all.decisions[0].remaining == 3, "{all:?}");
}

#[tokio::test]
async fn calls_that_are_no_decisions_return_away() {
    let store = Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
    let (policy, at) = (policy("4/h"), Timestamp::new(1).unwrap());
    let reset = store.reset(&policy, b"k").await.unwrap_err();
    assert!(matches!(reset, StoreError::Away { untouched: true, .. }), "{reset:?}");
    let refund = store.refund(&policy, b"k", Cost::ONE, at).await.unwrap_err();
    assert!(matches!(refund, StoreError::Away { untouched: true, .. }), "{refund:?}");
    let custom = tollgate_redis::CustomScript::new("return {'allow', {}}");
    let error = store.run_custom(&custom, &["k"], &["1"]).await.unwrap_err();
    assert!(matches!(error, StoreError::Away { untouched: true, .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_cannot_decide_and_a_foreign_type_is_an_error() {
    let server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_secs(1)).connect().await.unwrap();
    crate::common::command(&server.url(), &["LPUSH", "tg:{list}", "x"]);
    let error = store.check(&policy("4/h"), b"list", Request::ONE).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(why) if why.starts_with("WRONGTYPE")), "{error:?}");
    crate::common::command(&server.url(), &["CONFIG", "SET", "maxmemory", "1"]);
    let decision = store.check(&with("4/h", OnError::Deny), b"k", Request::ONE).await.unwrap();
    assert_eq!(decision.source, Source::Closed);
    crate::common::command(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.check(&policy("4/h"), b"k", Request::ONE).await.unwrap().source, Source::Home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_cannot_decide() {
    let lag = TimerLag::start();
    let (server, replica) = (Server::start().unwrap(), Server::start().unwrap());
    let store = Redis::builder(&replica.url()).deadline(Duration::from_millis(100)).lazy().unwrap();
    assert_eq!(store.check(&policy("4/h"), b"k", Request::ONE).await.unwrap().source, Source::Home);
    crate::common::command(&replica.url(), &["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    for _ in 0..50 {
        assert_eq!(store.check(&policy("4/h"), b"k", Request::ONE).await.unwrap().source, Source::Local);
    }
    assert_eq!(store.stats().open_breakers, 1);
    crate::common::command(&replica.url(), &["REPLICAOF", "NO", "ONE"]);
    assert!(back(&store).await < SOON + lag.latest());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_busy_with_a_script_cannot_decide_until_it_is_done() {
    let lag = TimerLag::start();
    let server = Server::builder().option("--busy-reply-threshold", "10").start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_millis(50)).connect().await.unwrap();
    assert!(back(&store).await < SOON + lag.latest());
    let long = "local now = function() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
                local start = now() while now() < start + 1000 do end return 1";
    let url = server.url();
    let busy = std::thread::spawn(move || crate::common::command(&url, &["EVAL", long, "0"]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!(store.check(&policy("1000/h"), b"k", Request::ONE).await.unwrap().source, Source::Local);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    busy.join().unwrap();
    assert!(back(&store).await < SOON + lag.latest());
}
