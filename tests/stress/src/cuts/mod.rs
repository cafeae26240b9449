//! Cut connections: one decision each, its connection cut at some byte of the request or of the answer, or
//! stalled. Then the server is asked, on a way of its own, what it charged.
//!
//! What is held: a request is charged at most once; what the server answered to a caller was charged; no
//! key lives for ever. A store opens at most five connections a second, so every cut has a store of its own;
//! lanes with a server and a proxy each do their cuts side by side.
//!
//! | file | what it is |
//! |---|---|
//! | `kind.rs` | what is cut, where |
//! | `lane.rs` | a server, a proxy, and the cuts that are made there |
//! | `ledger.rs` | what was asked of each key, and what the server says it charged |

mod kind;
mod lane;
mod ledger;

use crate::args::Args;
use crate::{Campaign, Failure, Report, machine};
use lane::Lane;
use ledger::Counts;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "cuts",
    options: &[("cuts", 10_000, "connections cut"), ("lanes", 4, "servers, each with a proxy")],
    texts: &[],
    help: "connections cut at every byte, and what was charged",
    run,
};

fn run(args: &Args) -> Result<Report, Failure> {
    machine::watch_panics();
    let (cuts, lanes, seed) = (args.some("cuts"), args.some("lanes"), args.get("seed"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..lanes {
            let cuts = cuts / lanes + u64::from(number < cuts % lanes);
            tasks.spawn(async move { Lane::start(number, seed).await?.run(cuts).await });
        }
        let mut found = Vec::new();
        while let Some(lane) = tasks.join_next().await {
            found.push(lane?);
        }
        Ok::<_, Failure>(found)
    })?;
    let (mut report, mut counts) = (Report::default(), Counts::default());
    for lane in found {
        let (lane, counted) = lane?;
        report.absorb(lane);
        counts.absorb(&counted);
    }
    counts.tell(&mut report);
    machine::judge_panics(&mut report);
    Ok(report)
}
