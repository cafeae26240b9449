//! Servers with a journal that are killed under load, lose their power, or have a disk that fails.
//!
//! Connections ask for keys of every kind, algorithm and convention, and know exactly how each must stand. What is
//! held: a server that was killed knows all that it answered, and for each connection a beginning of what was
//! sent; after a loss of power with `always` too, and with `everysec` all that was answered 1.1 s before. What
//! was on the disk is emulated: a library preloaded into the server records what it synced.
//!
//! | file | what it is |
//! |---|---|
//! | `kind.rs` | the kinds of keys: how each is charged and read |
//! | `history.rs` | what one connection asked, and what can have come of it |
//! | `client.rs`, `crowd.rs` | one connection that asks; all of them, and the judgement |
//! | `read.rs` | what a server knows of keys |
//! | `rounds.rs`, `power.rs` | servers that are killed; servers whose power is lost |
//! | `faults.rs` | disks that are full, or whose syncs fail |
//! | `disk.rs`, `shim.rs` | what would be on the disk; the library that records it |

mod client;
mod crowd;
mod disk;
mod faults;
mod history;
mod kind;
mod power;
mod read;
mod rounds;
mod shim;

use std::path::Path;
use std::time::Duration;

use crate::args::Args;
use crate::{Campaign, Failure, Report};

pub(crate) use client::Client;
pub(crate) use history::HistoryFigures;
pub(crate) use shim::{Shim, Trouble};

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "kills",
    options: &[
        ("kills", 50, "kills -9 under load"),
        ("losses", 20, "losses of power under load, with fsync always and everysec each"),
        ("faults", 12, "seconds for which disks are full or fail; 0 tries none"),
        ("connections", 8, "connections that ask"),
        ("longest", 1_500, "milliseconds between a start and a kill, at most"),
    ],
    texts: &[],
    help: "servers with a journal that are killed, lose their power, or have a disk that fails",
    run,
};

/// The sizes of a run.
struct Sizes {
    kills: u64,
    losses: u64,
    connections: u64,
    longest: u64,
    seed: u64,
}

fn run(args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let sizes = Sizes {
        kills: args.get("kills"),
        losses: args.get("losses"),
        connections: args.some("connections"),
        longest: args.some("longest"),
        seed: args.get("seed"),
    };
    if sizes.kills > 0 {
        rounds::kill(&mut report, &sizes)?;
    }
    if sizes.losses > 0 {
        power::lose(&mut report, &sizes, "always")?;
        power::lose(&mut report, &sizes, "everysec")?;
    }
    if args.get("faults") > 0 {
        faults::fail(&mut report, Duration::from_secs(args.get("faults")))?;
    }
    Ok(report)
}

/// The words of a server that keeps everything in a folder, and writes a snapshot so often, else as it grows.
fn words(data: &Path, fsync: &str, snapshots: Option<&str>) -> Vec<String> {
    let data = data.display().to_string();
    let mut words = vec!["--http", "127.0.0.1:0", "--memory", "256M", "--keys", "256M", "--data", &data];
    words.extend(["--persist", "journal", "--fsync", fsync]);
    words.extend(snapshots.iter().flat_map(|every| ["--snapshot-every", every]));
    words.into_iter().map(str::to_owned).collect()
}
