//! The rolling limiter in Rust over every home answers what it answers in memory.

use std::net::Ipv4Addr;
use std::time::Duration;

use tollgate::redis::Redis;
use tollgate::{
    ManualClock, Memory, Micros, Mode, OnError, RollingLimit, RollingLimiter, RollingOptions, RollingResult,
    SharedRollingLimiter, Source, StoreError, Timestamp,
};
use tollgate_daemon::{Server, ServerSettings};
use tollgate_random::Rng;

const T: u64 = 1_700_000_000_000_000;
const DEADLINE: Duration = Duration::from_secs(20);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn open(url: &str) -> Redis {
    Redis::builder(url).deadline(DEADLINE).connect_timeout(DEADLINE).response_timeout(DEADLINE).connect().await.unwrap()
}

/// Options of each shape, in each mode.
fn all_options() -> Vec<RollingOptions> {
    let second = RollingLimit::new(Micros::from_secs(1), 5).buckets(10);
    let minute = RollingLimit::new(Micros::from_secs(60), 20).min_difference(Micros::new(250_000));
    let third = RollingLimit::new(Micros::new(999_999), 7).buckets(3);
    let shapes = [
        RollingOptions::single(second).namespace("mails"),
        RollingOptions::list([second, minute]).namespace("mails:list"),
        RollingOptions::map([("short", third), ("long", minute)]),
    ];
    let modes = [Mode::Binary, Mode::Nary, Mode::Uniform];
    shapes.into_iter().flat_map(|shape| modes.map(|mode| shape.clone().mode(mode))).collect()
}

/// Random attempts on a store and in memory.
async fn agrees(store: &Redis, seed: u64) {
    let mut rng = Rng::new(seed);
    for (number, options) in all_options().into_iter().enumerate() {
        let clock = ManualClock::at(Timestamp::saturating(T));
        let memory = Memory::with_clock(8 << 20, Box::new(clock.clone()));
        let near = RollingLimiter::over(&memory, &options).unwrap();
        let far = SharedRollingLimiter::over(store, &options).unwrap().clock(clock.clone());
        for step in 0..120 {
            clock.advance(Micros::new(rng.below(400_000)));
            let (id, n) = (format!("{number}-{}", rng.below(2)), 1 + rng.below(8));
            let (near, far) = (near.attempt(&id, n).unwrap(), far.attempt(&id, n).await.unwrap());
            assert_eq!(near, far, "seed {seed}, step {step}: {n} of {id} under {options:?}");
        }
    }
}

#[test]
fn over_redis_and_a_cluster_of_it() {
    let redis = tollgate_kit::Server::start().unwrap();
    runtime().block_on(async { agrees(&open(&redis.url()).await, 1).await });
    let cluster = tollgate_kit::Cluster::start().unwrap();
    let nodes: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let url = format!("redis+cluster://{}", nodes.join(","));
    runtime().block_on(async { agrees(&open(&url).await, 2).await });
}

#[test]
fn over_a_tollgate_server_that_clients_of_the_original_use_too() {
    let resp = Some((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::start(ServerSettings { resp, http: None, threads: 1, ..ServerSettings::default() }).unwrap();
    let addr = server.resp_addr().unwrap();
    runtime().block_on(async {
        let store = open(&format!("tollgate://{addr}")).await;
        agrees(&store, 3).await;
        // A client of the original counts on the same keys.
        let options = RollingOptions::single(RollingLimit::new(Micros::from_secs(60), 3)).namespace("shared");
        let clock = ManualClock::at(Timestamp::saturating(T));
        let limiter = SharedRollingLimiter::over(&store, &options).unwrap().clock(clock);
        assert_eq!(limiter.attempt("alice", 2).await.unwrap().actions_remaining, 1);
        let mut client = redis::Client::open(format!("redis://{addr}")).unwrap().get_connection().unwrap();
        let mut call = redis::cmd("FCALL");
        call.arg("rolling").arg(1).arg(options.keys(b"alice")).arg(options.args("1", &T.to_string()));
        let reply: (i64, i64, i64) = call.query(&mut client).unwrap();
        assert_eq!((reply.0, reply.1), (0, 1));
        assert_eq!(limiter.attempt("alice", 1).await.unwrap().acknowledged, 0);
    });
}

#[test]
fn what_cannot_be_asked_is_an_error_and_a_store_that_is_away_has_a_stand_in() {
    runtime().block_on(async {
        let store =
            Redis::builder("redis://127.0.0.1:1").deadline(Duration::from_millis(50)).share(0.5).lazy().unwrap();
        let options = RollingOptions::single(RollingLimit::new(Micros::from_secs(60), 10));
        let limiter = SharedRollingLimiter::over(&store, &options).unwrap();
        assert!(matches!(limiter.attempt("a", 0).await, Err(StoreError::Cost(0))));
        assert!(matches!(limiter.attempt("", 1).await, Err(StoreError::Key(0))));
        assert!(matches!(limiter.attempt([7; 513], 1).await, Err(StoreError::Key(513))));
        let result = |result: RollingResult| (result.acknowledged, result.actions_remaining, result.source);
        assert_eq!(result(limiter.attempt("a", 4).await.unwrap()), (4, 1, Source::Local));
        assert_eq!(result(limiter.attempt("a", 4).await.unwrap()), (0, 1, Source::Local));
        let allow = limiter.clone().on_error(OnError::Allow);
        assert_eq!(result(allow.attempt("a", 4).await.unwrap()), (4, 10, Source::Open));
        let deny = limiter.on_error(OnError::Deny).attempt("a", 4).await.unwrap();
        assert_eq!((result(deny), deny.wait), ((0, 0, Source::Closed), Micros::from_secs(1)));
    });
}
