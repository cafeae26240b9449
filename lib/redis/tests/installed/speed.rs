//! What pipelines save. Timings are printed by
//! `cargo test -p tollgate-redis --release --test installed speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use crate::common::{policy, storm};
use tollgate_kernel::{Request, Store};
use tollgate_kit::Server;
use tollgate_redis::{Packaging, Redis};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_share_pipelines() {
    let server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    storm(&store, "1000000/h fixed", b"k", 64, 200).await;
    let stats = store.stats();
    assert!(stats.calls / stats.batches >= 4, "{stats:?}");
    let keys: Vec<Vec<u8>> = (0..1000).map(|key: u32| key.to_string().into_bytes()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let before = store.stats().batches;
    let decisions = store.check_many(&policy("5/h"), &keys, Request::ONE).await.unwrap();
    assert!(decisions.iter().all(|decision| decision.remaining == 4));
    assert!(store.stats().batches - before <= 64, "{:?}", store.stats());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn decisions_a_second() {
    let server = Server::start().unwrap();
    for packaging in [Packaging::Function, Packaging::Script] {
        let store = Redis::builder(&server.url()).packaging(packaging).deadline(Duration::from_secs(5));
        let store = store.connect().await.unwrap();
        for text in ["1000000/h fixed", "1000000/h gcra", "100/min"] {
            for callers in [1, 8, 64, 256] {
                let before = store.stats();
                let (start, times) = (Instant::now(), 40_000 / callers);
                let mut tasks = tokio::task::JoinSet::new();
                for caller in 0..callers {
                    let (store, policy) = (store.clone(), policy(text));
                    tasks.spawn(async move {
                        let key = caller.to_string();
                        let mut longest = Duration::ZERO;
                        for _ in 0..times {
                            let start = Instant::now();
                            let _ = store.check(&policy, key.as_bytes(), Request::ONE).await.unwrap();
                            longest = longest.max(start.elapsed());
                        }
                        longest
                    });
                }
                let longest = tasks.join_all().await.into_iter().max().unwrap();
                let (after, span) = (store.stats(), start.elapsed());
                let calls = after.calls - before.calls;
                let batch = calls as f64 / (after.batches - before.batches) as f64;
                let rate = calls as f64 / span.as_secs_f64();
                println!(
                    "{packaging:?} {text:16} {callers:3} callers: {rate:7.0}/s, {batch:5.1} a batch, longest {longest:?}"
                );
            }
        }
    }
    alone(&server).await;
}

/// Makes the same calls through the redis crate's multiplexed connection, with one command per message.
async fn alone(server: &Server) {
    let connection = redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let compact = tollgate_redis::lua::compact(&policy("1000000/h fixed"));
    for callers in [1, 64, 256] {
        let (start, mut tasks) = (Instant::now(), tokio::task::JoinSet::new());
        for caller in 0..callers {
            let (mut connection, compact) = (connection.clone(), compact.clone());
            tasks.spawn(async move {
                for _ in 0..40_000 / callers {
                    let mut command = redis::cmd("FCALL");
                    command.arg("tollgate_0_1").arg(1).arg(format!("tg:{{{caller}}}")).arg(&compact).arg("REST");
                    let _: Vec<i64> = command.query_async(&mut connection).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        println!(
            "multiplexed single commands, fixed, {callers:3} callers: {:7.0}/s",
            40_000.0 / start.elapsed().as_secs_f64()
        );
    }
}
