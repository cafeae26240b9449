//! The store as a home: it decides as the embedded one does, shows no password, and refuses what is wrong.

use std::time::Duration;

use crate::common::policy;
use tollgate_kernel::{Cost, KeyCheck, Mode, Request, Source, Store, StoreError};
use tollgate_kit::Server;
use tollgate_memory::Memory;
use tollgate_redis::{Packaging, Redis};

fn units(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_decides_as_the_embedded_store_does() {
    let server = Server::start().unwrap();
    for packaging in [Packaging::Function, Packaging::Script] {
        crate::common::command(&server.url(), &["FLUSHALL"]);
        let store = Redis::builder(&server.url()).packaging(packaging).deadline(Duration::from_secs(5));
        let (store, memory) = (store.connect().await.unwrap(), Memory::new(tollgate_memory::DEFAULT_CAP));
        let policies = ["5/h", "5/h fixed, 3/d name=day", "10/h gcra burst=4", "6/h sliding", "8/d estimate"];
        for text in policies {
            let policy = policy(text).with_name("p").unwrap();
            let requests = [
                Request::ONE,
                Request::cost(units(2)),
                Request::cost(units(3)).peek(),
                Request::cost(units(9)).mode(Mode::Nary),
                Request::ONE,
                Request::ONE.mode(Mode::Uniform),
                Request::cost(units(0)),
                Request::cost(units(100)),
            ];
            for request in requests {
                let (ours, details) = store.check_full(&policy, text.as_bytes(), request).await.unwrap();
                let (theirs, expected) = Store::check_full(&memory, &policy, text.as_bytes(), request).await.unwrap();
                let told = |d: &tollgate_kernel::Decision| {
                    (d.allowed, d.granted, d.charged, d.remaining, d.limited_by, d.source)
                };
                assert_eq!(told(&ours), told(&theirs), "{packaging:?} {text} {request:?}");
                let parts = |details: &[tollgate_kernel::Detail]| {
                    details.iter().map(|detail| (detail.fits, detail.remaining, detail.count)).collect::<Vec<_>>()
                };
                assert_eq!(parts(&details), parts(&expected), "{packaging:?} {text} {request:?}");
            }
        }
    }
}

#[tokio::test]
async fn several_keys_are_charged_together_or_not_at_all() {
    let server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    let (user, team) = (policy("2/h"), policy("3/h").with_name("team").unwrap());
    let item = |policy, key, cost| KeyCheck { policy, key, cost };
    let items = [item(&user, b"u", units(1)), item(&team, b"t", units(2))];
    let first = store.check_all(&items).await.unwrap();
    assert!(first.allowed && first.decisions[1].remaining == 1, "{first:?}");
    let second = store.check_all(&items).await.unwrap();
    assert!(!second.allowed && second.decisions[0].allowed && !second.decisions[1].allowed, "{second:?}");
    assert_eq!(store.check(&user, b"u", Request::ONE.peek()).await.unwrap().remaining, 1);
    let twice = store.check_all(&[item(&user, b"u", units(1)), item(&user, b"u", units(1))]).await.unwrap_err();
    assert!(matches!(twice, StoreError::Twice(0, 1)));
    assert!(store.check_all(&[]).await.unwrap().allowed);
}

#[tokio::test]
async fn resets_and_refunds_reach_the_server() {
    let server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    let policy = policy("5/h");
    let decision = store.check(&policy, b"k", Request::cost(units(3))).await.unwrap();
    assert_eq!(store.refund(&policy, b"k", units(2), decision.at).await.unwrap(), 2);
    assert_eq!(store.check(&policy, b"k", Request::ONE).await.unwrap().remaining, 3);
    store.reset(&policy, b"k").await.unwrap();
    assert_eq!(store.check(&policy, b"k", Request::ONE).await.unwrap().remaining, 4);
}

#[tokio::test]
async fn wrong_keys_and_requests_are_errors() {
    let store = Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
    let policy = policy("5/h");
    for key in [vec![], vec![b'x'; 513]] {
        assert!(matches!(store.check(&policy, &key, Request::ONE).await, Err(StoreError::Key(_))));
        assert!(matches!(store.reset(&policy, &key).await, Err(StoreError::Key(_))));
        assert!(matches!(store.check_many(&policy, &[&key], Request::ONE).await, Err(StoreError::Key(_))));
        let items = [KeyCheck { policy: &policy, key: &key, cost: Cost::ONE }];
        assert!(matches!(store.check_all(&items).await, Err(StoreError::Key(_))));
    }
    assert!(matches!(store.check(&policy, b"k", Request::ONE.wait_for(2)).await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn users_databases_and_sockets_are_those_of_the_url_and_no_password_is_shown() {
    let folder = std::env::temp_dir().join(format!("tollgate-redis-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("r.sock");
    let server = Server::builder().option("--unixsocket", socket.to_str().unwrap()).start().unwrap();
    crate::common::command(&server.url(), &["ACL", "SETUSER", "u", "on", ">sesame@1", "~*", "+@all"]);
    crate::common::command(&server.url(), &["ACL", "SETUSER", "default", "off"]);
    let urls = [
        format!("redis://u:sesame%401@127.0.0.1:{}/3", server.port()),
        format!("unix://u:sesame%401@{}?db=3", socket.display()),
    ];
    for (place, url) in urls.iter().enumerate() {
        let store = Redis::builder(url).deadline(Duration::from_secs(5)).connect().await.unwrap();
        let decision = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap();
        assert_eq!((decision.source, decision.remaining), (Source::Home, 4 - place as i64));
        assert!(!format!("{store:?} {:?}", Redis::builder(url)).contains("sesame"));
    }
    let error = Redis::builder(&urls[0].replace("sesame", "seasam")).connect().await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("authentication failed") && !shown.contains("seasam"), "{shown}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn calls_may_come_from_a_thread_without_a_runtime() {
    let server = Server::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    assert!(Redis::builder(&server.url()).lazy().is_err(), "a store needs a runtime to live in");
    let store = runtime.block_on(Redis::builder(&server.url()).deadline(Duration::from_secs(5)).connect()).unwrap();
    let policy = policy("5/h");
    let mut reply = std::pin::pin!(store.check(&policy, b"k", Request::ONE));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let decision = loop {
        if let std::task::Poll::Ready(decision) = reply.as_mut().poll(&mut context) {
            break decision.unwrap();
        }
        std::thread::yield_now();
    };
    assert_eq!(decision.source, Source::Home);
}

#[test]
fn a_store_that_outlives_its_runtime_is_away() {
    let server = Server::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = runtime.block_on(Redis::builder(&server.url()).connect()).unwrap();
    drop(runtime);
    let policy = policy("5/h");
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..50 {
        assert_eq!(other.block_on(store.check(&policy, b"k", Request::ONE)).unwrap().source, Source::Local);
    }
    let error = other.block_on(store.reset(&policy, b"k")).unwrap_err();
    assert!(matches!(error, StoreError::Away { untouched: true, .. }), "{error:?}");
}

#[tokio::test]
async fn invalid_settings_are_errors() {
    for share in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(Redis::builder("redis://h").share(share).lazy().is_err());
    }
    assert!(Redis::builder("redis://h").deadline(Duration::ZERO).lazy().is_err());
    assert!(Redis::builder("rediss://h").authority("no certificate").lazy().is_err());
}
