//! One request, at most one charge: an unknown outcome is never sent again.

use std::time::{Duration, Instant};

use crate::common::{held, policy};
use tollgate_kernel::{Cost, Request, Source, Store, StoreError};
use tollgate_kit::{Fault, Proxy, Server};
use tollgate_redis::{CustomScript, Packaging, Redis};

const TEXT: &str = "100/h fixed";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_is_lost_is_charged_once_and_decided_by_on_error() {
    for packaging in [Packaging::Function, Packaging::Script] {
        let server = Server::start().unwrap();
        let proxy = Proxy::start(server.addr()).unwrap();
        let build = |url: &str| Redis::builder(url).packaging(packaging).deadline(Duration::from_millis(500));
        let (direct, store) =
            (build(&server.url()).connect().await.unwrap(), build(&proxy.url()).connect().await.unwrap());
        assert_eq!(store.check(&policy(TEXT), b"warm", Request::ONE).await.unwrap().source, Source::Home);
        for round in 1..=5 {
            // Connections are opened at most five times a second.
            tokio::time::sleep(Duration::from_millis(250)).await;
            assert_eq!(store.check(&policy(TEXT), b"warm", Request::ONE).await.unwrap().source, Source::Home);
            proxy.faults().once(Fault::CutReply { after: 0 });
            let decision = store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap();
            assert_eq!(decision.source, Source::Local, "{packaging:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(held(&direct, TEXT, b"k").await, round, "{packaging:?}: charged exactly once each");
        }
        assert_eq!(store.stats().retries, 1, "the first load: {:?}", store.stats());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_answers_are_lost_at_any_byte_is_charged_at_most_once_each() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let direct = Redis::builder(&server.url()).connect().await.unwrap();
    let mut before = 0;
    for after in [0, 1, 7, 30, 100, 333] {
        let store = Redis::builder(&proxy.url()).deadline(Duration::from_millis(500)).connect().await.unwrap();
        let keys: Vec<&[u8]> = vec![b"k"; 10];
        assert_eq!(store.check(&policy(TEXT), b"warm", Request::ONE).await.unwrap().source, Source::Home);
        proxy.faults().once(Fault::CutReply { after });
        let decisions = store.check_many(&policy(TEXT), &keys, Request::ONE).await.unwrap();
        assert_eq!(decisions.len(), 10);
        tokio::time::sleep(Duration::from_millis(50)).await;
        // They may be sent in one pipeline or in several, of which only the first is cut.
        let now = held(&direct, TEXT, b"k").await;
        assert!((1..=10).contains(&(now - before)), "cut after {after}: {before}, then {now}");
        before = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_cut_before_the_server_has_it_is_not_charged_and_not_sent_again() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let direct = Redis::builder(&server.url()).connect().await.unwrap();
    let store = Redis::builder(&proxy.url()).deadline(Duration::from_millis(500)).connect().await.unwrap();
    assert_eq!(store.check(&policy(TEXT), b"warm", Request::ONE).await.unwrap().source, Source::Home);
    proxy.faults().once(Fault::CutRequest { after: 20 });
    assert_eq!(store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap().source, Source::Local);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(held(&direct, TEXT, b"k").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_behind_a_stalled_server_is_not_sent_when_it_resumes() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).response_timeout(Duration::from_secs(10)).connect().await.unwrap();
    assert_eq!(store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap().source, Source::Home);
    server.stop_answering().unwrap();
    // More calls than can be in flight at once; the others are still queued when they are given up.
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        callers.spawn(async move { store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap().source });
    }
    assert!(callers.join_all().await.into_iter().all(|source| source == Source::Local));
    let sent = store.stats().calls;
    server.resume().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        held(&store, TEXT, b"k").await,
        sent - store.stats().retries,
        "what was given up before it was sent was not sent"
    );
    assert_eq!(store.stats().calls, sent + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_and_custom_scripts_report_an_unknown_outcome() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let build = || Redis::builder(&proxy.url()).deadline(Duration::from_millis(500));
    let store = build().connect().await.unwrap();
    let decision = store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap();
    store.refund(&policy(TEXT), b"k", Cost::ONE, decision.at).await.unwrap();
    proxy.faults().once(Fault::CutReply { after: 0 });
    let error = store.refund(&policy(TEXT), b"k", Cost::ONE, decision.at).await.unwrap_err();
    assert!(matches!(error, StoreError::Away { untouched: false, .. }), "{error:?}");
    let (store, custom) =
        (build().connect().await.unwrap(), CustomScript::new("redis.call('INCR', KEYS[1]) return {'allow', {}}"));
    store.run_custom(&custom, &["n"], &[""; 0]).await.unwrap();
    proxy.faults().once(Fault::CutReply { after: 0 });
    let error = store.run_custom(&custom, &["n"], &[""; 0]).await.unwrap_err();
    assert!(matches!(error, StoreError::Away { untouched: false, .. }), "{error:?}");
    assert_eq!(crate::common::command(&server.url(), &["GET", "n"]), redis::Value::BulkString(b"2".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_never_sent_is_reported_as_untouched() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).response_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let at = store.check(&policy(TEXT), b"k", Request::ONE).await.unwrap().at;
    let before = store.stats().calls;
    server.stop_answering().unwrap();
    let mut callers = tokio::task::JoinSet::new();
    let mut call = || {
        let store = store.clone();
        callers.spawn(async move { store.refund(&policy(TEXT), b"k", Cost::ONE, at).await.unwrap_err() });
    };
    call();
    // What comes after the first call was sent waits for its reply, and is not sent.
    while store.stats().calls == before {
        tokio::task::yield_now().await;
    }
    (1..32).for_each(|_| call());
    let errors = callers.join_all().await;
    let unknown = errors.iter().filter(|error| matches!(error, StoreError::Away { untouched: false, .. })).count();
    assert_eq!(unknown as u64, store.stats().calls - before, "{errors:?}");
    assert!(unknown < 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_under_load_never_charge_twice() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let direct = Redis::builder(&server.url()).connect().await.unwrap();
    let store = Redis::builder(&proxy.url()).deadline(Duration::from_millis(100)).connect().await.unwrap();
    let text = "1000000/h fixed";
    let end = Instant::now() + Duration::from_secs(4);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = store.clone();
        callers.spawn(async move {
            let (mut home, mut other) = (0, 0);
            while Instant::now() < end {
                match store.check(&policy(text), b"k", Request::ONE).await.unwrap().source {
                    Source::Home => home += 1,
                    _ => {
                        other += 1;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
            }
            (home, other)
        });
    }
    let mut cuts = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(130)).await;
        match cuts % 3 {
            0 => proxy.faults().once(Fault::CutReply { after: cuts }),
            1 => proxy.faults().once(Fault::CutRequest { after: 10 * cuts }),
            _ => drop(proxy.faults().close_all()),
        }
        cuts += 1;
    }
    let counts = callers.join_all().await;
    let (home, other) = counts.iter().fold((0, 0), |(home, other), count| (home + count.0, other + count.1));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let charged = held(&direct, text, b"k").await;
    println!("{home} answered, {other} by on_error, {charged} charged, {cuts} cuts, {:?}", store.stats());
    assert!(home > 100 && other > 0, "{home} {other}");
    assert!((home..=home + other).contains(&charged), "{home} {charged} {other}");
    // At most four pipelines of 128 calls were in flight on a connection when it broke.
    assert!(charged - home <= 512 * cuts);
}
