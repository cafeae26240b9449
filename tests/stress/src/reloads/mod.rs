//! A policy file that changes a thousand times under load, a tenth of the times into something wrong.
//!
//! Connections ask for policies by name all the while. What is held: a policy that is always in the file is never
//! unknown; one that never changes admits its count to the unit; one whose count goes up and down, or to which a
//! limit is added and taken away, never admits more than the largest, and what was admitted is what is used at
//! the end; each explanation names one generation, which only grows; a file that is wrong raises a metric and
//! nothing else.
//!
//! | file | what it is |
//! |---|---|
//! | `policies.rs` | the policies, and how each changes |
//! | `change.rs` | the ways in which a file changes, and goes wrong |
//! | `driver.rs` | the changes, one after the other, each waited for |
//! | `traffic.rs` | the connections, and what they were granted |
//! | `judge.rs` | what came of it |

mod change;
mod driver;
mod judge;
mod policies;
mod traffic;

use std::time::Duration;

use crate::args::Args;
use crate::serving::{Folder, ServerProcess};
use crate::{Campaign, Failure, Report};
use change::PolicyFile;
use driver::Driver;
use traffic::{GrantCounts, Traffic};

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "reloads",
    options: &[
        ("reloads", 1_000, "changes of the policy file"),
        ("connections", 8, "connections that ask"),
        ("before", 3_000, "milliseconds without changes, to compare with"),
    ],
    texts: &[],
    help: "a policy file that changes under load, a tenth of the times into something wrong",
    run,
};

fn run(args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let (reloads, connections, seed) = (args.some("reloads"), args.some("connections"), args.get("seed"));
    let folder = Folder::new("reloads")?;
    let place = PolicyFile::new(&folder)?;
    place.begin(&policies::file(0, 0))?;
    let config = place.path().display().to_string();
    let words = ["--http", "127.0.0.1:0", "--memory", "256M", "--config", &config].map(str::to_owned);
    let mut server = ServerProcess::start(&words, &[])?;
    let granted = GrantCounts::new(reloads);

    let quiet = Traffic::start(&server, &granted, connections, seed);
    std::thread::sleep(Duration::from_millis(args.get("before")));
    let before = quiet.end(&mut report)?;

    let traffic = Traffic::start(&server, &granted, connections, seed ^ 0xaa);
    let driver = Driver { server: &server, place: &place, granted: &granted, seed };
    let driven = driver.run(&mut report, reloads);
    let during = traffic.end(&mut report)?;
    let mut driven = driven?;
    driver.end(&mut driven, reloads)?;

    judge::judge(&mut report, &server, &granted, &driven)?;
    report.demand(server.is_alive(), || "the server is gone".to_owned());
    if let Some(panic) = server.panic() {
        report.violated(panic);
    }
    report.say(format!(
        "{} changes of the policy file: {} by rename, {} in place, {} by links, {} SIGHUP; {} of them wrong in {} ways; \
         generation {} at the end",
        reloads, driven.renames, driven.in_place, driven.links, driven.signals, driven.wrong, driven.ways, driven.generation
    ));
    for (name, seen) in [("without changes", &before), ("with changes", &during)] {
        report.say(format!(
            "{name}: {} checks, {} granted, one by one within {} us (p50) and {} us (p99)",
            seen.checks,
            seen.granted,
            seen.within(500),
            seen.within(990)
        ));
    }
    Ok(report)
}
