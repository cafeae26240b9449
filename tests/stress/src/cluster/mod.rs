//! A cluster of six nodes under traffic: half its slots move, then its primaries are killed one by one.
//!
//! Keys hold braces, percent signs and bytes that are no text. A limit is five an hour, so that a state that
//! was lost shows at once. What is held: no call takes longer than its deadline and five milliseconds (the
//! machine's own lateness aside), none hangs, none ends in an error; each key is admitted at most
//! (F+1)*B + r*t by the server, F being the deaths of its primary, and what this process may grant by itself
//! beside; within a second of a slot being writable its keys are decided by the server again; no key lives
//! for ever.
//!
//! | file | what it is |
//! |---|---|
//! | `keys.rs` | the keys, their slots, and what each was admitted |
//! | `traffic.rs` | the callers |
//! | `moves.rs` | slots that move |
//! | `deaths.rs` | primaries that die |
//! | `owners.rs` | who has which slot |
//! | `judge.rs` | what came of it |

mod deaths;
mod judge;
mod keys;
mod moves;
mod owners;
mod traffic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_kit::{Cluster, Server};
use tollgate_redis::Redis;

use crate::args::Args;
use crate::lateness::LatenessMonitor;
use crate::{Campaign, Failure, Report, machine};
use keys::Keys;
use traffic::Traffic;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "cluster",
    options: &[
        ("keys", 10_000, "keys asked for"),
        ("kills", 10, "primaries killed, one after the other"),
        ("slots", 8_192, "slots moved"),
        ("apart", 0, "1 moves every second slot, so that the nodes tell thousands of ranges"),
        ("seconds", 0, "the least time of traffic after the kills"),
        ("callers", 64, "callers at once"),
        ("timeout", 2_000, "milliseconds after which nodes think a node dead"),
    ],
    texts: &[],
    help: "six nodes: half the slots move, primaries are killed",
    run,
};

/// Of a call.
const DEADLINE: Duration = Duration::from_millis(50);

fn run(args: &Args) -> Result<Report, Failure> {
    machine::watch_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(campaign(args))
}

async fn campaign(args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let node = Server::builder().option("--cluster-node-timeout", &args.some("timeout").to_string());
    let mut cluster = tokio::task::block_in_place(|| Cluster::start_with(&node))?;
    let hosts: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let store = Redis::builder(&format!("redis+cluster://{}", hosts.join(","))).deadline(DEADLINE).connect().await?;
    let keys = Arc::new(Keys::new(args.some("keys") as usize)?);
    let (lateness, started) = (LatenessMonitor::start(), Instant::now());
    let traffic = Traffic::start(&store, &keys, args.some("callers"), args.get("seed"));
    traffic.wait_for(2 * keys.all.len() as u64).await;
    let (slots, apart) = (args.get("slots").min(tollgate_kit::SLOTS.into()), args.get("apart") > 0);
    tokio::task::block_in_place(|| moves::run(&mut report, &cluster, (slots, apart), &traffic))?;
    let mut deaths = deaths::Deaths::default();
    for number in 0..args.get("kills") {
        deaths.one(&mut report, &mut cluster, &store, &keys, number).await?;
    }
    tokio::time::sleep(Duration::from_secs(args.get("seconds"))).await;
    let seen = traffic.end().await?;
    judge::calls(&mut report, &seen, &lateness);
    judge::keys(&mut report, &keys, started.elapsed());
    deaths.judge(&mut report, &lateness);
    let stats = store.stats();
    report.say(format!("{} connections, {} retries, {} reloads", stats.connections, stats.retries, stats.reloads));
    let left = machine::judge_lives(&mut report, |see| cluster.scan_all(see))?;
    report.say(format!("{left} keys left, each with its TTL looked at"));
    machine::judge_panics(&mut report);
    Ok(report)
}
