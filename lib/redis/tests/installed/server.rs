//! The store under `tollgate://`, against a server in this process: it decides as the embedded store does,
//! reports the source of each decision, and distinguishes a refusal from an outage.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::common::policy;
use tollgate_daemon::{AccessToken, Server, ServerSettings};
use tollgate_kernel::{
    Cost, KeyCheck, Limit, Micros, Mode, OnError, Options, Policy, Request, Source, Store, StoreError, Timestamp,
};
use tollgate_kit::{Fault, Proxy};
use tollgate_memory::{ManualClock, Memory};
use tollgate_redis::{Packaging, Redis, RedisOpenError};

const PATIENCE: Duration = Duration::from_secs(10);

fn settings() -> ServerSettings {
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    ServerSettings { resp: Some(any), http: None, threads: 1, ..ServerSettings::default() }
}

fn url(server: &Server) -> String {
    format!("tollgate://{}", server.resp_addr().unwrap())
}

/// Opens a store with the token that the server generated, which has all scopes.
async fn entitled(server: &Server) -> Redis {
    let url = format!("tollgate://{}@{}", server.token().unwrap().text(), server.resp_addr().unwrap());
    Redis::builder(&url).deadline(PATIENCE).connect().await.unwrap()
}

async fn store(server: &Server) -> Redis {
    Redis::builder(&url(server)).deadline(PATIENCE).connect().await.unwrap()
}

fn units(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[tokio::test]
async fn it_decides_as_the_embedded_store_does_to_the_microsecond() {
    let clock = ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap());
    let server = Server::start_with_clock(settings(), &clock).unwrap();
    let store = entitled(&server).await;
    let memory = Memory::with_clock(tollgate_memory::DEFAULT_CAP, Box::new(clock.clone()));
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
    for text in [
        "5/h",
        "5/h fixed, 3/d name=day",
        "10/h gcra burst=4",
        "8/d estimate",
        "5/h slots resolution=10min",
        "15/60s bucket burst=3",
        "20/10s decay factor=1.5",
        "100/s spacing=10ms",
    ] {
        for name in ["", "p"] {
            let policy = policy(text);
            let policy = if name.is_empty() { policy } else { policy.with_name(name).unwrap() };
            for (step, request) in requests.into_iter().enumerate() {
                clock.advance(Micros::new(1_000 * step as u64 + 7));
                let key = format!("{text}\r\n\0{{").into_bytes();
                let ours = store.check_full(&policy, &key, request).await.unwrap();
                let theirs = Store::check_full(&memory, &policy, &key, request).await.unwrap();
                assert_eq!(ours, theirs, "{text} {name} {request:?}");
                let ours = store.check(&policy, b"other", request).await.unwrap();
                assert_eq!(
                    ours,
                    Store::check(&memory, &policy, b"other", request).await.unwrap(),
                    "{text} {request:?}"
                );
                let (back, at) = (units(1), ours.at);
                let given = store.refund(&policy, b"other", back, at).await.unwrap();
                assert_eq!(given, Store::refund(&memory, &policy, b"other", back, at).await.unwrap(), "{text}");
            }
        }
    }
    assert_eq!(store.stats().reloads, 0, "nothing is loaded");
}

#[tokio::test]
async fn many_keys_travel_together_and_several_are_decided_together() {
    let server = Server::start(settings()).unwrap();
    let store = store(&server).await;
    let keys: Vec<Vec<u8>> = (0..300_u32).map(|number| (number % 150).to_be_bytes().to_vec()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let decisions = store.check_many(&policy("1/h"), &keys, Request::ONE).await.unwrap();
    let allowed: Vec<bool> = decisions.iter().map(|decision| decision.allowed).collect();
    assert_eq!(allowed, [[true; 150], [false; 150]].concat());
    assert!(store.stats().batches < 300, "{:?}", store.stats());

    let (user, team) = (policy("2/h"), policy("3/h").with_name("team").unwrap());
    let item = |policy, key, cost| KeyCheck { policy, key, cost };
    let items = [item(&user, b"u", units(1)), item(&team, b"t", units(2))];
    let first = store.check_all(&items).await.unwrap();
    assert!(first.allowed && first.decisions[1].remaining == 1, "{first:?}");
    assert!(first.decisions.iter().all(|decision| decision.source == Source::Home));
    let second = store.check_all(&items).await.unwrap();
    assert!(!second.allowed && second.decisions[0].allowed && !second.decisions[1].allowed, "{second:?}");
    assert_eq!(store.check(&user, b"u", Request::ONE.peek()).await.unwrap().remaining, 1, "nothing was charged");
    assert!(store.check_all(&[]).await.unwrap().allowed);
}

#[tokio::test]
async fn what_the_server_refuses_is_an_error_in_its_words_and_no_outage() {
    let server = Server::start(ServerSettings { free: "check,read".parse().unwrap(), ..settings() }).unwrap();
    let store = store(&server).await;
    let policy = policy("5/h").with_on_error(OnError::Allow);
    for _ in 0..100 {
        let refused = store.reset(&policy, b"k").await.unwrap_err();
        assert!(matches!(&refused, StoreError::Refused(words) if words.starts_with("NOPERM ")), "{refused}");
    }
    let parts: Vec<String> = (0..33).map(|part| format!("k{part}")).collect();
    let items: Vec<KeyCheck<'_>> =
        parts.iter().map(|key| KeyCheck { policy: &policy, key: key.as_bytes(), cost: Cost::ONE }).collect();
    for _ in 0..100 {
        let refused = store.check_all(&items).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Refused(words) if words.starts_with("ERR ")), "{refused}");
    }
    assert_eq!((store.stats().open_breakers, store.stats().errors), (0, 0), "{:?}", store.stats());
    assert_eq!(store.check(&policy, b"k", Request::ONE).await.unwrap().source, Source::Home);
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_is_no_outage() {
    let server = Server::start(settings()).unwrap();
    let place = server.resp_addr().unwrap();
    let builder = || Redis::builder(&format!("tollgate://sesame@{place}")).deadline(PATIENCE);
    let opened = builder().connect().await.unwrap_err();
    assert!(matches!(opened, RedisOpenError::Refused(_)) && !opened.to_string().contains("sesame"), "{opened}");
    let store = builder().lazy().unwrap();
    let policy = policy("5/h").with_on_error(OnError::Allow);
    for _ in 0..50 {
        let refused = store.check(&policy, b"k", Request::ONE).await.unwrap_err();
        assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    }
    assert_eq!(store.stats().open_breakers, 0);
    let no_token = Redis::builder(&url(&server)).deadline(PATIENCE).connect().await.unwrap();
    assert_eq!(no_token.check(&policy, b"k", Request::ONE).await.unwrap().source, Source::Home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_store_says_that_it_decided_alone() {
    // No server listens on port 1.
    let away = Redis::builder("redis://127.0.0.1:1").deadline(Duration::from_millis(50)).lazy().unwrap();
    let server = Server::start(ServerSettings { store: Some(away), ..settings() }).unwrap();
    let store = entitled(&server).await;
    let policy = policy("2/h").with_on_error(OnError::Deny);
    let decision = store.check(&policy, b"k", Request::ONE).await.unwrap();
    assert_eq!((decision.allowed, decision.source), (true, Source::Local));
    assert_eq!(store.check_full(&policy, b"k", Request::ONE).await.unwrap().0.source, Source::Local);
    let items = [KeyCheck { policy: &policy, key: b"k", cost: Cost::ONE }];
    let together = store.check_all(&items).await.unwrap();
    assert_eq!((together.allowed, together.decisions[0].source), (false, Source::Local));
    let refund = store.refund(&policy, b"k", Cost::ONE, decision.at).await.unwrap_err();
    let StoreError::Away { why, untouched: false } = &refund else { panic!("{refund:?}") };
    assert!(why.starts_with("UNAVAILABLE "), "{why}");
    let stats = store.stats();
    assert_eq!((stats.local, stats.open_breakers), (3, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_the_policy_says_who_decides() {
    let server = Server::start(settings()).unwrap();
    let proxy = Proxy::start(server.resp_addr().unwrap()).unwrap();
    let url = format!("tollgate://{}", proxy.addr());
    let store = Redis::builder(&url).deadline(PATIENCE).share(0.5).connect().await.unwrap();
    let limit = policy("10/h");
    assert_eq!(store.check(&limit, b"k", Request::ONE).await.unwrap().source, Source::Home);
    proxy.faults().refuse();
    proxy.faults().close_all();
    for (on_error, expected) in
        [(OnError::Local, Source::Local), (OnError::Allow, Source::Open), (OnError::Deny, Source::Closed)]
    {
        let policy = limit.clone().with_on_error(on_error);
        assert_eq!(store.check(&policy, b"k", Request::ONE).await.unwrap().source, expected);
    }
    assert!(matches!(store.reset(&limit, b"k").await, Err(StoreError::Away { .. })));
    proxy.faults().accept().unwrap();
    for _ in 0..1_000 {
        if store.check(&limit, b"k", Request::ONE.peek()).await.unwrap().source == Source::Home {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(store.check(&limit, b"k", Request::ONE).await.unwrap().source, Source::Home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_not_asked_for_again() {
    let server = Server::start(settings()).unwrap();
    let proxy = Proxy::start(server.resp_addr().unwrap()).unwrap();
    let through = Redis::builder(&format!("tollgate://{}", proxy.addr())).deadline(PATIENCE).connect().await.unwrap();
    let straight = store(&server).await;
    let policy = policy("100/h");
    proxy.faults().once(Fault::CutReply { after: 0 });
    let lost = through.check(&policy, b"k", Request::ONE).await.unwrap();
    assert_eq!(lost.source, Source::Local);
    let held = crate::common::held(&straight, "100/h", b"k").await;
    assert!(held <= 1, "one request was charged {held} times");
}

#[tokio::test]
async fn a_redis_is_no_tollgate_server_and_says_so() {
    let redis = tollgate_kit::Server::start().unwrap();
    let store = Redis::builder(&format!("tollgate://{}", redis.addr())).deadline(PATIENCE).connect().await.unwrap();
    let error = store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap_err().to_string();
    assert!(error.contains("expected a Tollgate server") && error.contains("TG.CHECK"), "{error}");
    // `Packaging::Commands` is set explicitly, as for a Redis that has these commands.
    let store = Redis::builder(&redis.url()).packaging(Packaging::Commands).deadline(PATIENCE).connect().await.unwrap();
    assert!(matches!(store.check(&policy("5/h"), b"k", Request::ONE).await, Err(StoreError::Refused(_))));
}

#[tokio::test]
async fn limits_that_no_text_makes_are_not_sent() {
    let server = Server::start(settings()).unwrap();
    let store = store(&server).await;
    let none = Limit::build("fixed", 0, Micros::from_secs(60), &Options::default()).unwrap();
    let policy = Policy::new(vec![none]).unwrap();
    let refused = store.check(&policy, b"k", Request::ONE).await.unwrap_err().to_string();
    assert!(refused.contains("sent as text"), "{refused}");
    assert_eq!(store.stats().calls, 0);
}

/// A store for refunds fails to open if the token does not permit refunds.
#[tokio::test]
async fn a_store_for_refunds_opens_only_with_a_token_that_allows_them() {
    let file = std::env::temp_dir().join(format!("tollgate-refunds-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let token = |scopes: &str, name: &str| AccessToken::add_to(&file, scopes.parse().unwrap(), name).unwrap().0;
    let (old, new) = (token("check,read", "old"), token("check,refund", "new"));
    let server = Server::start(ServerSettings { tokens: Some(file.clone()), ..settings() }).unwrap();
    std::fs::remove_file(&file).unwrap();
    let place = server.resp_addr().unwrap();
    let builders = |token: &str| {
        let url = format!("tollgate://{token}@{place}");
        [Redis::builder(&url).refunds(), Redis::builder(&url).charge_then_refund()].map(|one| one.deadline(PATIENCE))
    };
    for builder in builders(old.text()) {
        let error = builder.connect().await.unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, RedisOpenError::Refund(_)), "{said}");
        assert!(said.starts_with("the server does not permit refunds: NOPERM expected a token with the scope refund"));
        assert!(said.contains("add refund to the token's scopes") && !said.contains(old.text()), "{said}");
    }
    for builder in builders(new.text()) {
        let store = builder.connect().await.unwrap();
        let policy = policy("5/h");
        let charged = store.check(&policy, b"k", Request::cost(units(3))).await.unwrap();
        assert_eq!(store.refund(&policy, b"k", units(3), charged.at).await.unwrap(), 3);
        let decision = store.check(&policy, b"k", Request::ONE.peek()).await.unwrap();
        assert_eq!(decision.remaining, 5, "and asking at the start changed nothing");
    }
    // A store that is not for refunds does not need the scope.
    let store =
        Redis::builder(&format!("tollgate://{}@{place}", old.text())).deadline(PATIENCE).connect().await.unwrap();
    let refused = store.refund(&policy("5/h"), b"k", units(1), Timestamp::saturating(1)).await.unwrap_err();
    assert!(refused.to_string().contains("add refund to the token's scopes"), "{refused}");
}
