//! Permits in a real Redis: what is stored, and what happens when something fails.

use std::time::Duration;

use crate::common::{LONG, take, until};
use tollgate_kernel::{Micros, OnError, Source, StoreError};
use tollgate_kit::{Cluster, Server};
use tollgate_permits::{Acquisition, Concurrency, PermitRefusal, SetupError};
use tollgate_redis::Redis;

const HOUR: Duration = Duration::from_secs(3600);

fn lazy(server: &Server, deadline: Duration) -> Redis {
    Redis::builder(&server.url()).deadline(deadline).lazy().unwrap()
}

fn limit(server: &Server, most: u32, lease: Duration) -> Concurrency {
    Concurrency::redis(lazy(server, Duration::from_secs(10)), "uploads", most, lease).unwrap()
}

fn command<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    command.query(&mut server.connection().unwrap()).unwrap()
}

async fn full(limit: &Concurrency, key: &[u8]) -> PermitRefusal {
    match limit.acquire(key).await.unwrap() {
        Acquisition::Full(full) => full,
        Acquisition::Held(permit) => panic!("expected no permit, found {permit:?}"),
    }
}

/// Simulates a holder that died: its permit is neither renewed nor freed.
fn die_holding(server: &Server, most: u32, lease: Duration, key: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                std::mem::forget(take(&limit(server, most, lease), key).await);
            });
        });
    });
}

#[tokio::test]
async fn a_key_has_at_most_its_permits_over_all_processes() {
    let server = Server::start().unwrap();
    let (one, other) = (limit(&server, 2, HOUR), limit(&server, 2, HOUR));
    let (first, second) = (take(&one, b"alice").await, take(&other, b"alice").await);
    assert_eq!((first.source(), first.is_lost()), (Source::Home, false));
    assert!(first.left().unwrap() > HOUR / 2 && first.left().unwrap() < HOUR);
    let told = full(&one, b"alice").await;
    let hour = Micros::from(HOUR);
    assert_eq!((told.most, told.source), (2, Source::Home));
    assert!(told.retry_after.unwrap() <= hour && told.retry_after.unwrap() > Micros::from(HOUR / 2), "{told:?}");
    let _bob = take(&one, b"bob").await;
    assert_eq!((one.held(b"alice").await.unwrap(), other.held(b"bob").await.unwrap()), (2, 1));
    first.release().await.unwrap();
    assert_eq!(other.held(b"alice").await.unwrap(), 1);
    let third = take(&other, b"alice").await;
    drop((second, third));
    until("dropped permits to be free", async || (one.held(b"alice").await.unwrap() == 0).then_some(())).await;
}

#[tokio::test]
async fn names_and_keys_have_places_of_their_own() {
    let server = Server::start().unwrap();
    let store = lazy(&server, LONG);
    let named = |name: &str| Concurrency::redis(store.clone(), name, 1, HOUR).unwrap();
    let (uploads, exports) = (named("uploads"), named("exports"));
    let _held = [take(&uploads, b"a{b}%").await, take(&exports, b"a{b}%").await, take(&uploads, b"a").await];
    let mut keys = Vec::new();
    server.scan_all(|key, ms| keys.push((String::from_utf8(key.into()).unwrap(), ms))).unwrap();
    keys.sort();
    let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["tg:{a%7Bb%7D%25}exports:permits", "tg:{a%7Bb%7D%25}uploads:permits", "tg:{a}uploads:permits"]);
    assert!(keys.iter().all(|(_, ms)| *ms > 0 && *ms <= 3_601_000), "{keys:?}");
}

#[tokio::test]
async fn invalid_settings_are_refused_with_a_reason() {
    let server = Server::start().unwrap();
    let store = lazy(&server, LONG);
    let made =
        |name: &str, most: u32, lease: Duration| Concurrency::redis(store.clone(), name, most, lease).map(|_| ());
    assert_eq!(made("uploads", 0, HOUR), Err(SetupError::Most(0)));
    for name in ["", "two words", "a:b", "a{b", &"n".repeat(65)] {
        assert_eq!(made(name, 1, HOUR), Err(SetupError::Name(name.into())));
    }
    for lease in [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(24 * 3600 + 1), Duration::MAX] {
        assert_eq!(made("uploads", 1, lease), Err(SetupError::Lease(lease)));
    }
    assert_eq!(
        made("uploads", 1, Duration::ZERO).unwrap_err().to_string(),
        "expected a lease of 100ms to 24 h, found 0ns"
    );
    let tollgate = Redis::builder("tollgate://127.0.0.1:1").lazy().unwrap();
    let error = Concurrency::redis(tollgate, "uploads", 1, HOUR).unwrap_err();
    assert_eq!(error, SetupError::Server);
    assert!(error.to_string().contains("redis://"), "{error}");
    let outside = std::thread::spawn(move || Concurrency::redis(store, "uploads", 1, HOUR).map(|_| ())).join();
    assert_eq!(outside.unwrap(), Err(SetupError::Runtime));
    let limit = limit(&server, 1, HOUR);
    for len in [0, 513] {
        let key = vec![b'k'; len];
        assert!(matches!(limit.acquire(&key).await, Err(StoreError::Key(found)) if found == len));
        assert!(matches!(limit.held(&key).await, Err(StoreError::Key(_))));
    }
    drop(take(&limit, &[b'}'; 512]).await);
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_stays_as_it_is() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 1, HOUR);
    let () = command(&server, &["SET", "tg:{k}uploads:permits", "mine"]);
    for _ in 0..2 {
        let error = limit.acquire(b"k").await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(why) if why.starts_with("WRONGTYPE")), "{error}");
        assert!(limit.held(b"k").await.is_err());
    }
    assert_eq!(command::<String>(&server, &["GET", "tg:{k}uploads:permits"]), "mine");
    assert_eq!(command::<i64>(&server, &["PTTL", "tg:{k}uploads:permits"]), -1);
}

#[tokio::test]
async fn a_user_without_the_right_to_expire_leaves_no_key() {
    let server = Server::start().unwrap();
    let () = command(&server, &["ACL", "SETUSER", "weak", "on", ">secret", "~*", "+@all", "-pexpire"]);
    let url = server.url().replace("redis://", "redis://weak:secret@");
    let store = Redis::builder(&url).deadline(Duration::from_secs(10)).lazy().unwrap();
    let limit = Concurrency::redis(store, "uploads", 3, HOUR).unwrap().on_error(OnError::Deny);
    assert_eq!(full(&limit, b"k").await.source, Source::Closed);
    assert_eq!(server.scan_all(|_, _| ()).unwrap(), 0);
}

#[tokio::test]
async fn a_key_that_lost_its_expiry_gets_one_again() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 2, HOUR);
    let key = "tg:{k}uploads:permits";
    let _first = take(&limit, b"k").await;
    let _: i64 = command(&server, &["PERSIST", key]);
    let second = take(&limit, b"k").await;
    assert!(command::<i64>(&server, &["PTTL", key]) > 0);
    let _: i64 = command(&server, &["PERSIST", key]);
    full(&limit, b"k").await;
    assert!(command::<i64>(&server, &["PTTL", key]) > 0);
    let _: i64 = command(&server, &["PERSIST", key]);
    second.release().await.unwrap();
    assert!(command::<i64>(&server, &["PTTL", key]) > 0);
}

#[tokio::test]
async fn flushed_scripts_are_sent_again() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 1, HOUR);
    for _ in 0..3 {
        let () = command(&server, &["SCRIPT", "FLUSH"]);
        let permit = take(&limit, b"k").await;
        let () = command(&server, &["SCRIPT", "FLUSH"]);
        assert_eq!(limit.held(b"k").await.unwrap(), 1);
        let () = command(&server, &["SCRIPT", "FLUSH"]);
        permit.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_permit_is_renewed_for_as_long_as_it_is_held() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 1, Duration::from_millis(1_500));
    let permit = take(&limit, b"k").await;
    let end = |server: &Server| {
        let found: Vec<(String, f64)> = command(server, &["ZRANGE", "tg:{k}uploads:permits", "0", "0", "WITHSCORES"]);
        found.first().map(|(_, score)| *score as u64)
    };
    let first = end(&server).unwrap();
    let now = |server: &Server| {
        let (secs, micros): (u64, u64) = command(server, &["TIME"]);
        secs * 1_000_000 + micros
    };
    until("two leases to pass", async || (now(&server) > first + 1_500_000).then_some(())).await;
    // If the machine stalled for a second, the permit may be lost, and must then report that.
    if !permit.is_lost() {
        assert!(end(&server).unwrap() > first);
        assert_eq!(full(&limit, b"k").await.source, Source::Home);
    }
    drop(permit);
    until("it to be free", async || (limit.held(b"k").await.unwrap() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_permit_that_redis_forgot_takes_its_place_again() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 1, Duration::from_secs(6));
    let permit = take(&limit, b"k").await;
    let () = command(&server, &["FLUSHALL"]);
    assert_eq!(limit.held(b"k").await.unwrap(), 0);
    until("it to be renewed", async || (limit.held(b"k").await.unwrap() == 1).then_some(())).await;
    assert!(!permit.is_lost());
}

#[tokio::test]
async fn a_place_that_another_took_meanwhile_is_lost() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 1, Duration::from_secs(6));
    let permit = take(&limit, b"k").await;
    let () = command(&server, &["FLUSHALL"]);
    let other = take(&limit, b"k").await;
    until("the holder to know", async || permit.is_lost().then_some(())).await;
    assert!(!other.is_lost());
    drop(permit);
    assert_eq!(limit.held(b"k").await.unwrap(), 1, "freeing what is lost takes nothing from another");
}

#[tokio::test]
async fn a_dead_holder_frees_its_place_after_its_lease() {
    let server = Server::builder().moveable_clock().start().unwrap();
    let limit = limit(&server, 2, HOUR);
    die_holding(&server, 2, HOUR, b"k");
    die_holding(&server, 2, HOUR, b"k");
    assert_eq!(full(&limit, b"k").await.most, 2);
    server.set_clock_offset(3_590).unwrap();
    let told = full(&limit, b"k").await;
    assert!(told.retry_after.unwrap() <= Micros::from_secs(10), "{told:?}");
    server.set_clock_offset(3_601).unwrap();
    let _both = [take(&limit, b"k").await, take(&limit, b"k").await];
}

#[tokio::test]
async fn no_caller_waits_longer_than_a_lease_after_the_clock_is_set_back() {
    let server = Server::builder().moveable_clock().start().unwrap();
    let lease = Duration::from_secs(60);
    let limit = limit(&server, 2, lease);
    die_holding(&server, 2, lease, b"k");
    die_holding(&server, 2, lease, b"k");
    server.set_clock_offset(-86_400).unwrap();
    let told = full(&limit, b"k").await;
    assert!(told.retry_after.unwrap() <= Micros::from(lease), "{told:?}");
    let mut lives = 0;
    server.scan_all(|_, ms| lives = ms).unwrap();
    assert!(lives > 0 && lives <= 61_000, "{lives}");
    server.set_clock_offset(-86_400 + 61).unwrap();
    let _both = [take(&limit, b"k").await, take(&limit, b"k").await];
}

#[tokio::test]
async fn while_redis_is_silent_on_error_decides_and_nothing_is_left_behind() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_millis(50)).share(0.5).lazy().unwrap();
    let local = Concurrency::redis(store, "uploads", 4, HOUR).unwrap();
    let (open, closed) = (local.clone().on_error(OnError::Allow), local.clone().on_error(OnError::Deny));
    let home = async || match local.acquire(b"k").await.unwrap() {
        Acquisition::Held(permit) if permit.source() == Source::Home => Some(permit),
        _ => None,
    };
    let before = until("Redis to answer", home).await;
    server.stop_answering().unwrap();
    // The share is two, and one is held already.
    let stand_in = take(&local, b"k").await;
    assert_eq!((stand_in.source(), stand_in.is_lost(), stand_in.left()), (Source::Local, false, None));
    assert_eq!(full(&local, b"k").await, full_of(Source::Local, None));
    for _ in 0..30 {
        assert_eq!(take(&open, b"k").await.source(), Source::Open);
        assert_eq!(full(&closed, b"k").await, full_of(Source::Closed, Some(Micros::from_secs(1))));
    }
    let freed = before.release().await;
    assert!(matches!(freed, Err(StoreError::Away { .. })), "{freed:?}");
    server.resume().unwrap();
    drop(until("Redis to answer again", home).await);
    // The leases last an hour, so all places are free only if the freeing calls were made.
    until("nothing to be left", async || (local.held(b"k").await.ok() == Some(0)).then_some(())).await;
    drop(stand_in);
    assert_eq!(local.keys(), 0);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_leaves_nothing_behind() {
    let mut server = Server::start().unwrap();
    let limit = limit(&server, 100, HOUR);
    drop(take(&limit, b"other").await);
    server.stop_answering().unwrap();
    for _ in 0..20 {
        // Long enough for the call to be sent.
        let asked = tokio::time::timeout(Duration::from_millis(10), limit.acquire(b"k")).await;
        assert!(asked.is_err());
    }
    server.resume().unwrap();
    let taken = async || {
        let stats: String = command(&server, &["INFO", "commandstats"]);
        let line = stats.lines().find(|line| line.starts_with("cmdstat_zadd:calls="))?;
        let calls = line.trim_start_matches("cmdstat_zadd:calls=").split(',').next()?.parse::<u32>().ok()?;
        (calls > 1).then_some(())
    };
    until("Redis to run the abandoned call", taken).await;
    until("nothing to be left", async || (limit.held(b"k").await.ok() == Some(0)).then_some(())).await;
}

fn full_of(source: Source, retry_after: Option<Micros>) -> PermitRefusal {
    let Ok(Acquisition::Full(mut full)) = Concurrency::memory(4).unwrap().most_keys(0).acquire(b"k").ready().unwrap()
    else {
        panic!("no key fits");
    };
    (full.source, full.retry_after) = (source, retry_after);
    full
}

#[tokio::test]
async fn a_holder_that_cannot_renew_knows_that_it_lost_its_place() {
    let mut server = Server::start().unwrap();
    let store = lazy(&server, Duration::from_millis(50));
    let limit = Concurrency::redis(store, "uploads", 1, Duration::from_millis(600)).unwrap().on_error(OnError::Deny);
    let held = async || match limit.acquire(b"k").await.unwrap() {
        Acquisition::Held(permit) => Some(permit),
        Acquisition::Full(_) => None,
    };
    let permit = until("Redis to answer", held).await;
    server.stop_answering().unwrap();
    until("the lease to be lost", async || permit.is_lost().then_some(())).await;
    assert_eq!(permit.left(), Some(Duration::ZERO));
    server.resume().unwrap();
    let _other = until("the place to be another's", held).await;
    assert!(permit.is_lost(), "for good");
}

#[tokio::test]
async fn a_server_without_memory_grants_nothing_and_still_frees() {
    let server = Server::start().unwrap();
    let limit = limit(&server, 2, HOUR).on_error(OnError::Deny);
    let permit = take(&limit, b"k").await;
    let () = command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(full(&limit, b"k").await.source, Source::Closed);
    assert_eq!(limit.held(b"k").await.unwrap(), 1);
    permit.release().await.unwrap();
    assert_eq!(server.scan_all(|_, _| ()).unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_permits_find_their_nodes() {
    let cluster = Cluster::start().unwrap();
    let url = format!("redis+cluster://{}", cluster.nodes()[0].addr());
    let store = Redis::builder(&url).deadline(Duration::from_secs(10)).connect().await.unwrap();
    let limit = Concurrency::redis(store, "uploads", 1, Duration::from_secs(3)).unwrap();
    let keys: Vec<String> = (0..50).map(|key| format!("user:{key}")).collect();
    let mut permits = Vec::new();
    for key in &keys {
        permits.push(take(&limit, key.as_bytes()).await);
        assert_eq!(full(&limit, key.as_bytes()).await.source, Source::Home);
    }
    // By then all leases were renewed on their own nodes.
    let began = permits.iter().map(|permit| permit.left().unwrap()).min().unwrap();
    let renewed = async || permits.iter().all(|permit| permit.left().unwrap() > began).then_some(());
    until("all to be renewed", renewed).await;
    assert_eq!(cluster.scan_all(|_, ms| assert!(ms > 0 && ms <= 4_000)).unwrap(), 50);
    for permit in permits {
        permit.release().await.unwrap();
    }
    assert_eq!(cluster.scan_all(|_, _| ()).unwrap(), 0);
}
