//! On a cluster: keys find their nodes, slots may move and nodes may die under load, and still no request is
//! charged twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{TimerLag, held, policy};
use tollgate_kernel::{Cost, KeyCheck, Request, Source, Store, StoreError};
use tollgate_kit::{Cluster, Fault, Proxy, slot};
use tollgate_redis::lua::{LuaNaming, dialect_script, library};
use tollgate_redis::{CustomScript, Packaging, Redis, RedisBuilder};

const TEXT: &str = "1000000/h fixed";

fn builder(cluster: &Cluster) -> RedisBuilder {
    let hosts: Vec<String> = cluster.nodes()[..2].iter().map(|node| node.addr().to_string()).collect();
    Redis::builder(&format!("redis+cluster://{}", hosts.join(","))).deadline(Duration::from_secs(5))
}

fn state_slot(key: &[u8]) -> u16 {
    slot(format!("tg:{{{}}}", String::from_utf8_lossy(key)))
}

/// Two keys on different nodes at the start.
const APART: [&[u8]; 2] = [b"a", b"b"];

#[tokio::test(flavor = "multi_thread")]
async fn keys_find_their_nodes() {
    let cluster = Cluster::start().unwrap();
    let store = builder(&cluster).connect().await.unwrap();
    let keys: Vec<Vec<u8>> = (0..500).map(|key: u32| key.to_string().into_bytes()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for round in 1..=3 {
        let decisions = store.check_many(&policy("5/h"), &keys, Request::ONE).await.unwrap();
        assert!(decisions.iter().all(|d| d.source == Source::Home && d.remaining == 5 - round), "{decisions:?}");
    }
    let stats = store.stats();
    assert_eq!((stats.errors, stats.home), (0, 1500), "{stats:?}");
    let custom = CustomScript::new("return {'allow', {}, redis.call('INCR', KEYS[1])}");
    for key in ["x", "y", "z"] {
        assert!(store.run_custom(&custom, &[key], &[""; 0]).await.unwrap().allowed);
    }
    let error = store.run_custom(&custom, &["a", "b"], &[""; 0]).await.unwrap_err();
    assert!(matches!(error, StoreError::Slots(0, 1)), "{error:?}");
    derived_names(&cluster);
    together(&cluster, &store).await;
    behind_address_translation(&cluster).await;
    let error = Redis::builder(&cluster.nodes()[0].url()).deadline(Duration::from_secs(5)).lazy().unwrap();
    let mut answers = Vec::new();
    for key in keys.iter().take(20) {
        answers.push(error.check(&policy("5/h"), key, Request::ONE).await);
    }
    let hint = answers.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(hint.contains("redis+cluster://"), "{hint}");
}

/// A name that a dialect derives from its key is in the slot of the key, for functions and for scripts.
fn derived_names(cluster: &Cluster) {
    for (key, namespace) in [("login:1", "ns"), ("a{b", "n}s"), ("{user}:login", "ns"), ("k", "n{s"), ("{}", "ns")] {
        let node = cluster.primary_of(slot(key)).and_then(|node| cluster.node(node)).unwrap();
        let mut connection = node.connection().unwrap();
        let load = library(LuaNaming::Plain);
        redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(load).exec(&mut connection).unwrap();
        let (function, script) = (["FCALL", "slot_window"], dialect_script("slot_window").unwrap().text);
        for (call, expected) in [(function, 0), (["EVAL", &script], 60)] {
            let mut command = redis::cmd(call[0]);
            command.arg(call[1]).arg(1).arg(key).arg(&["1", namespace, "[[1,60,1]]", "1790000000", "1"]);
            assert_eq!(command.query::<i64>(&mut connection).unwrap(), expected, "{namespace} {key}");
        }
    }
}

async fn together(cluster: &Cluster, store: &Redis) {
    let (one, team) = (policy("2/h").with_name("one").unwrap(), policy("1/h").with_name("team").unwrap());
    let item = |policy, key| KeyCheck { policy, key, cost: Cost::ONE };
    let apart = [item(&one, APART[0]), item(&team, APART[1])];
    assert_ne!(state_slot(APART[0]), state_slot(APART[1]));
    let error = store.check_all(&apart).await.unwrap_err();
    assert!(matches!(error, StoreError::Slots(0, 1)), "{error:?}");
    let same = store.check_all(&[item(&one, b"same"), item(&team, b"same")]).await.unwrap();
    assert!(same.allowed, "one key is in one slot under every policy");
    let store = builder(cluster).charge_then_refund().connect().await.unwrap();
    assert!(store.check_all(&apart).await.unwrap().allowed);
    let refused = store.check_all(&apart).await.unwrap();
    let told: Vec<_> = refused.decisions.iter().map(|d| (d.allowed, d.granted, d.charged, d.remaining)).collect();
    assert_eq!((refused.allowed, told), (false, vec![(true, 0, 0, 1), (false, 0, 0, 0)]));
    assert_eq!(store.check(&one, APART[0], Request::ONE.peek()).await.unwrap().remaining, 1, "given back");
}

/// Puts every node behind a proxy. A call whose answer is lost there is not sent again.
async fn behind_address_translation(cluster: &Cluster) {
    let proxies: Vec<Proxy> = cluster.nodes().iter().map(|node| Proxy::start(node.addr()).unwrap()).collect();
    let table: HashMap<_, _> = cluster
        .nodes()
        .iter()
        .zip(&proxies)
        .map(|(node, proxy)| (("127.0.0.1".to_string(), node.port()), ("localhost".to_string(), proxy.addr().port())))
        .collect();
    let direct = builder(cluster).connect().await.unwrap();
    let store = builder(cluster).address_table(table).connect().await.unwrap();
    for key in 0..100_u32 {
        let decision = store.check(&policy(TEXT), &key.to_le_bytes(), Request::ONE).await.unwrap();
        assert_eq!(decision.source, Source::Home);
    }
    let through: usize = proxies.iter().filter(|proxy| proxy.counters().connections > 0).count();
    assert_eq!(through, 3, "three primaries, all through their proxies");
    proxies.iter().for_each(|proxy| proxy.faults().once(Fault::CutReply { after: 0 }));
    for key in [b"p1", b"p2", b"p3", b"p4"] {
        assert_eq!(held(&direct, TEXT, key).await, 0);
        let _ = store.check(&policy(TEXT), key, Request::ONE).await.unwrap();
        let charged = held(&direct, TEXT, key).await;
        assert!(charged <= 1, "{charged}");
    }
    assert!(store.stats().local >= 1, "{:?}", store.stats());
}

struct Load {
    stop: Arc<AtomicBool>,
    admitted: Arc<[AtomicU64]>,
    elsewhere: Arc<AtomicU64>,
    tasks: tokio::task::JoinSet<()>,
}

fn key(number: usize) -> Vec<u8> {
    format!("load:{number}").into_bytes()
}

impl Load {
    fn start(store: &Redis, keys: usize) -> Self {
        let admitted: Arc<[AtomicU64]> = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let mut load = Self { stop: Arc::default(), admitted, elsewhere: Arc::default(), tasks: Default::default() };
        for number in 0..keys {
            let (stop, admitted, elsewhere) = (load.stop.clone(), load.admitted.clone(), load.elsewhere.clone());
            let (store, policy) = (store.clone(), policy(TEXT));
            load.tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let decision = store.check(&policy, &key(number), Request::ONE).await.unwrap();
                    if decision.source == Source::Home {
                        admitted[number].fetch_add(1, Ordering::Relaxed);
                    } else {
                        elsewhere.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            });
        }
        load
    }

    async fn end(mut self) -> (Vec<u64>, u64) {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        let admitted = self.admitted.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        (admitted, self.elsewhere.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_under_load_and_every_charge_counts_once() {
    let cluster = Cluster::start().unwrap();
    for packaging in [Packaging::Function, Packaging::Script] {
        cluster.nodes().iter().take(3).for_each(|node| {
            crate::common::command(&node.url(), &["FLUSHALL"]);
        });
        let store = builder(&cluster).packaging(packaging).connect().await.unwrap();
        let load = Load::start(&store, 32);
        let slots: Vec<u16> = (0..32).map(|number| state_slot(&key(number))).collect();
        tokio::task::block_in_place(|| {
            for round in 0..3 {
                for slot in &slots {
                    let from = cluster.primary_of(*slot).unwrap();
                    cluster.reshard([*slot], from, (from + 1 + round % 2) % 3).unwrap();
                }
            }
        });
        let (admitted, elsewhere) = load.end().await;
        let stats = store.stats();
        assert_eq!((elsewhere, stats.errors), (0, 0), "{packaging:?} {stats:?}");
        for (number, admitted) in admitted.iter().enumerate() {
            assert_eq!(held(&store, TEXT, &key(number)).await, *admitted, "{packaging:?} key {number}");
        }
        println!("{packaging:?}: {} decisions while 96 slots moved, {stats:?}", admitted.iter().sum::<u64>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_primary_costs_only_its_keys_and_its_successor_is_found_within_a_second() {
    let lag = TimerLag::start();
    let mut cluster = Cluster::start().unwrap();
    let store = builder(&cluster).deadline(Duration::from_millis(20)).connect().await.unwrap();
    let patient = builder(&cluster).connect().await.unwrap();
    for key in APART {
        assert_eq!(store.check(&policy(TEXT), key, Request::ONE).await.unwrap().source, Source::Home);
    }
    let slot = state_slot(APART[0]);
    assert_ne!(cluster.primary_of(slot).unwrap(), cluster.primary_of(state_slot(APART[1])).unwrap());
    cluster.kill_primary_of(slot).unwrap();
    let mut longest = Duration::ZERO;
    let others = tokio::spawn(async move {
        let (end, mut lost) = (Instant::now() + Duration::from_millis(1500), 0);
        while Instant::now() < end {
            lost +=
                u32::from(patient.check(&policy(TEXT), APART[1], Request::ONE).await.unwrap().source != Source::Home);
        }
        lost
    });
    for _ in 0..1000 {
        let start = Instant::now();
        let decision = store.check(&policy(TEXT), APART[0], Request::ONE).await.unwrap();
        longest = longest.max(start.elapsed());
        assert_eq!(decision.source, Source::Local);
    }
    assert!(longest <= Duration::from_millis(250) + lag.latest(), "{longest:?}");
    assert_eq!(others.await.unwrap(), 0, "keys of other nodes are still decided there");
    tokio::task::block_in_place(|| cluster.wait_until_writable(slot, Duration::from_secs(30)).unwrap());
    let start = Instant::now();
    while store.check(&policy(TEXT), APART[0], Request::ONE).await.unwrap().source != Source::Home {
        assert!(start.elapsed() < Duration::from_secs(10) + lag.latest(), "{:?}", store.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("failover: longest call {longest:?}, on the successor {:?} after it is writable", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_costs_a_deadline_then_nothing() {
    let lag = TimerLag::start();
    let store = Redis::builder("redis+cluster://127.0.0.1:1,127.0.0.1:2").lazy().unwrap();
    assert!(Redis::builder("redis+cluster://127.0.0.1:1").connect().await.is_err());
    let mut longest = Duration::ZERO;
    for call in 0..200 {
        let start = Instant::now();
        assert_eq!(store.check(&policy("5/h"), b"k", Request::ONE).await.unwrap().source, Source::Local);
        let took = start.elapsed();
        assert!(took <= Duration::from_millis(250) + lag.latest(), "{took:?}");
        if call >= 20 {
            longest = longest.max(start.elapsed());
        }
    }
    assert!(longest < Duration::from_millis(5) + lag.latest(), "{longest:?}");
    assert_eq!(store.stats().open_breakers, 1);
}
