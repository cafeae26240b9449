//! A script or library that the server has lost is sent again in the next pipeline, and no caller gets an error.

use std::time::{Duration, Instant};

use crate::common::{command, held, policy, storm};
use tollgate_kernel::{Request, Source, Store};
use tollgate_kit::Server;
use tollgate_redis::{Packaging, Redis};

async fn open(server: &Server, packaging: Packaging) -> Redis {
    // No call may fail here because the machine is busy.
    Redis::builder(&server.url()).packaging(packaging).deadline(Duration::from_secs(5)).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_on_an_empty_server_are_all_charged_once() {
    for packaging in [Packaging::Function, Packaging::Script, Packaging::Auto] {
        let server = Server::start().unwrap();
        let store = open(&server, packaging).await;
        let admitted = storm(&store, "1000/h fixed", b"k", 64, 10).await;
        assert_eq!(admitted, 640, "{packaging:?}");
        assert_eq!(held(&store, "1000/h fixed", b"k").await, 640, "{packaging:?}");
        let stats = store.stats();
        assert!(stats.reloads >= 1 && stats.home == 641, "{packaging:?}: {stats:?}");
        if packaging != Packaging::Script {
            assert_eq!(stats.reloads, 1, "{packaging:?}: {stats:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flushing_under_load_causes_no_error_and_loses_no_charge() {
    for (packaging, flush) in [(Packaging::Function, "FUNCTION"), (Packaging::Script, "SCRIPT")] {
        let server = Server::start().unwrap();
        let store = open(&server, packaging).await;
        let (addr, end) = (server.url(), Instant::now() + Duration::from_secs(2));
        let flusher = std::thread::spawn(move || {
            let mut flushes = 0;
            while Instant::now() < end {
                command(&addr, &[flush, "FLUSH"]);
                flushes += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            flushes
        });
        let mut admitted = 0;
        while Instant::now() < end {
            admitted += storm(&store, "1000000/h fixed", b"k", 64, 20).await;
        }
        let flushes = flusher.join().unwrap();
        let stats = store.stats();
        assert_eq!(held(&store, "1000000/h fixed", b"k").await, admitted, "{packaging:?}");
        assert_eq!((stats.local, stats.errors), (0, 0), "{packaging:?}: {stats:?}");
        assert!(stats.retries > 0 && stats.home == admitted, "{packaging:?}: {stats:?}");
        // One per flush, and a few more if two flushes hit the same calls.
        assert!(stats.reloads <= flushes + flushes / 5 + 1, "{stats:?}, {flushes} flushes");
        println!("{packaging:?}: {flushes} flushes, {stats:?}");
    }
}

#[tokio::test]
async fn a_server_that_lacks_functions_gets_scripts() {
    let server = Server::builder().args(["--rename-command", "FCALL", ""]).start().unwrap();
    let store = open(&server, Packaging::Auto).await;
    let decision = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap();
    assert_eq!((decision.source, decision.remaining), (Source::Home, 4));
    assert_eq!(held(&store, "5/h", b"k").await, 1);
}

#[tokio::test]
async fn a_user_who_may_not_load_functions_gets_scripts() {
    let server = Server::start().unwrap();
    command(&server.url(), &["ACL", "SETUSER", "u", "on", ">pw", "~*", "+@all", "-function"]);
    let url = server.url().replace("redis://", "redis://u:pw@");
    let store = Redis::builder(&url).deadline(Duration::from_secs(5)).connect().await.unwrap();
    let decision = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap();
    assert_eq!((decision.source, decision.remaining), (Source::Home, 4));
}

#[tokio::test]
async fn names_taken_by_another_library_mean_scripts_or_a_remedy() {
    let server = Server::start().unwrap();
    let other = "#!lua name=other\nredis.register_function('tollgate_peek_0_1', function() return 1 end)";
    command(&server.url(), &["FUNCTION", "LOAD", other]);
    let store = open(&server, Packaging::Auto).await;
    let decision = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap();
    assert_eq!((decision.source, decision.remaining), (Source::Home, 4));
    let store = open(&server, Packaging::Function).await;
    let error = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap_err().to_string();
    assert!(error.contains("Packaging::Script") && error.contains("already exists"), "{error}");
}

#[tokio::test]
async fn a_restarted_server_is_found_again_without_losing_a_call() {
    let mut server = Server::start().unwrap();
    let store = open(&server, Packaging::Auto).await;
    for _ in 0..3 {
        assert_eq!(store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap().source, Source::Home);
        server.restart().unwrap();
        // The end of the connection was noticed; two connections must not be opened within the minimum time.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
