//! Servers that are down in all the ways a server is: it refuses, stops, resets, or is slow.
//!
//! Callers under three policies ask one store all the while, about 5,000 times a second. What is held: every
//! call returns within its deadline and five milliseconds (the machine's own lateness aside); every decision
//! says who made it; `deny` admits nothing and `allow` everything; `local` stays within this process's
//! share, in every interval; a second after the server answers again, it decides again; memory and
//! connections stay bounded.
//!
//! | file | what it is |
//! |---|---|
//! | `outage.rs` | the ways, each with its beginning and its end |
//! | `resetter.rs` | somebody who listens and resets every connection |
//! | `callers.rs` | the traffic |
//! | `watch.rs` | memory and connections while it lasts |
//! | `round.rs` | one outage from beginning to end, and what came of it |

mod callers;
mod outage;
mod resetter;
mod round;
mod watch;

use std::time::Duration;

use crate::args::Args;
use crate::{Campaign, Failure, Report, machine};
use outage::Outage;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "down",
    options: &[("seconds", 5, "how long each trouble lasts"), ("callers", 48, "callers at once")],
    texts: &[],
    help: "a server that refuses, stops, resets or is slow",
    run,
};

fn run(args: &Args) -> Result<Report, Failure> {
    machine::watch_panics();
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (lasts, callers) = (Duration::from_secs(args.some("seconds")), args.some("callers"));
    for outage in Outage::ALL {
        runtime.block_on(round::run(&mut report, outage, lasts, callers))?;
    }
    machine::judge_panics(&mut report);
    Ok(report)
}
