//! The crowd: two processes with 64 connections each on one key of one server.
//!
//! A connection is a store of its own with one caller, because a store keeps one connection to a server
//! and sends what its callers ask as pipelines; 64 callers of one store would be one connection, and meet
//! before they meet in the server. What is held: no interval admits more than the policy promises; offered
//! twice as much, the key is admitted 99.9 % of what its windows allow, and exactly what the kernel admits
//! if asked at the same times; every decision is the server's, also while a third party flushes scripts and
//! functions; no key lives for ever.
//!
//! | file | what it is |
//! |---|---|
//! | `round.rs` | one policy through all processes |
//! | `process.rs` | the processes as their parent sees them |
//! | `work.rs` | one of them, from inside |
//! | `flush.rs` | the third party |
//! | `judge.rs` | the events of a round against the promises |

mod flush;
mod judge;
mod process;
mod round;
mod work;

use std::time::Duration;

use tollgate_kernel::Micros;
use tollgate_kit::Server;

use crate::args::Args;
use crate::{Campaign, Failure, Report, machine};
use flush::Flusher;
use round::Round;

pub(crate) use work::work;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "crowd",
    options: &[
        ("operations", 1_000_000, "decisions in all, an eighth for each policy and packaging"),
        ("connections", 64, "connections of each of the two processes"),
        ("flush", 0, "flush scripts and functions every so many milliseconds; 0 does not"),
    ],
    texts: &[],
    help: "two processes with 64 connections each on one key",
    run,
};

const PROCESSES: u64 = 2;
const KINDS: [&str; 4] = ["fixed", "gcra", "sliding", "bucket"];
const PACKAGINGS: [&str; 2] = ["function", "script"];
/// Windows in a round, about.
const WINDOWS: u64 = 8;
/// The most decisions that measure how fast the crowd is.
const MEASURED: u64 = 20_000;

fn run(args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let (each, connections) = (args.some("operations") / 8, args.some("connections"));
    let server = Server::start()?;
    let flusher = match args.get("flush") {
        0 => None,
        every => Some(Flusher::start(server.connection()?, Duration::from_millis(every))?),
    };
    for packaging in PACKAGINGS {
        let round = |policy: &str, key: &str, operations: u64| Round {
            url: server.url(),
            packaging,
            policy: policy.to_owned(),
            key: key.to_owned(),
            connections,
            operations,
        };
        let pace = round("1000000000/h fixed", packaging, MEASURED.min(each)).run(&server)?.pace();
        for kind in KINDS {
            let round = round(&policy(kind, pace, each), &format!("{packaging}-{kind}"), each);
            let flushes = flusher.as_ref().map_or(0, Flusher::count);
            let outcome = round.run(&server)?;
            let flushes = flusher.as_ref().map_or(0, Flusher::count) - flushes;
            judge::judge(&mut report, &round, outcome, flushes)?;
        }
    }
    if let Some(flusher) = flusher {
        let flushes = flusher.count();
        report.say(format!("{flushes} times SCRIPT FLUSH and FUNCTION FLUSH"));
        flusher.end()?;
    }
    let keys = machine::judge_lives(&mut report, |see| server.scan_all(see))?;
    report.say(format!("{keys} keys left, each with its TTL looked at"));
    Ok(report)
}

/// A policy of which the crowd offers about four times as much as it admits, in windows of which the
/// round has several.
fn policy(kind: &str, pace: u64, operations: u64) -> String {
    let period = (operations * 1_000_000 / pace.max(1) / WINDOWS).clamp(20_000, 1_000_000);
    let count = (pace * period / 4_000_000).max(10);
    let options = match kind {
        "gcra" | "bucket" => format!(" burst={}", count / 2),
        _ => String::new(),
    };
    format!("{count}/{}us {kind}{options}", Micros::new(period).get())
}
