//! Connections that mean harm, against a server process of its own: thousands that say nothing, clients
//! that never read, slow heads and commands, handshakes that do not end, storms, browsers, wrong tokens.
//!
//! Attackers come from other addresses of 127.0.0.0/8 and are a process of the lowest priority, since in life
//! they have machines of their own. A good client at 127.0.0.1 asks all the while. What is held: caps, of all
//! and of one address; whoever stalls is cut off; the good client is answered, right, on new connections too,
//! and its p99 is at most twice what it was before, or what it is meanwhile at a twin of the server that nobody
//! attacks, if others keep the machine busy; memory grows by 64 MB at most; no file is left open.
//!
//! | file | what it is |
//! |---|---|
//! | `server.rs`, `serve.rs` | the server as its parent sees it; from inside, where no `tollgate` is given |
//! | `identity.rs` | tokens and certificate of the servers, in a folder of their own |
//! | `good.rs`, `client.rs` | the good client: what it asks and how long it took; one connection of it |
//! | `watch.rs` | files and memory of the server while it lasts |
//! | `attack/` | the attackers |
//! | `round.rs` | one attack from beginning to end |
//! | `judge.rs` | what came of it against the promises |
//! | `table.rs` | the same for people and for programs |
//! | `program.rs`, `room.rs` | a process with lines in and out; whether there are files enough |

mod attack;
mod client;
mod good;
mod identity;
mod judge;
mod program;
mod room;
mod round;
mod serve;
mod server;
mod table;
mod watch;

use std::time::Duration;

use crate::args::Args;
use crate::{Campaign, Failure, Report};
use identity::Identity;
use round::{Round, Stage};

pub(crate) use attack::attack;
pub(crate) use serve::serve;

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "connections",
    options: &[
        ("idle", 5_000, "connections that say nothing"),
        ("unread", 500, "clients that ask and never read, and that send half of long commands"),
        ("slow", 500, "clients that send a byte now and then"),
        ("half", 500, "TLS handshakes that do not end"),
        ("addresses", 20, "addresses that attackers come from"),
        ("seconds", 5, "how long attacks last that do not end by themselves"),
        ("patience", 45, "seconds in which who stalls must be cut off; fewer than 35 do not ask it of slow commands"),
        ("connections", 4_096, "connections that the server takes"),
        ("reserved", 512, "of these, kept for 127.0.0.1"),
        ("prefix", 256, "connections that the server takes from one address"),
        ("handshake", 10, "seconds that a TLS handshake may take"),
        ("json", 0, "one object instead of a table"),
    ],
    texts: &[],
    help: "a server among clients that mean harm",
    run,
};

/// The sizes of a run.
#[derive(Clone, Debug)]
struct Sizes {
    idle: usize,
    unread: usize,
    slow: usize,
    half: usize,
    addresses: usize,
    lasts: Duration,
    patience: Duration,
    caps: Caps,
}

/// What the server is told to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caps {
    connections: usize,
    reserved: usize,
    prefix: usize,
    /// Seconds of a handshake.
    handshake: usize,
}

impl Caps {
    /// Connections of all that have a limit by address.
    fn of_strangers(self) -> usize {
        self.connections - self.reserved.min(self.connections)
    }
}

/// How long commands may take to come, with some for the machine.
const COMMANDS: Duration = Duration::from_secs(35);

impl Sizes {
    /// Whether slow commands are waited for until they are cut off.
    fn sees_slow_commands_cut(&self) -> bool {
        self.patience >= COMMANDS
    }

    fn new(args: &Args) -> Self {
        let size = |name| args.some(name) as usize;
        let caps = Caps {
            connections: size("connections"),
            reserved: args.get("reserved") as usize,
            prefix: size("prefix"),
            handshake: size("handshake"),
        };
        Self {
            idle: size("idle"),
            unread: size("unread"),
            slow: size("slow"),
            half: size("half"),
            // The last part of an address.
            addresses: size("addresses").min(250),
            lasts: Duration::from_secs(args.some("seconds")),
            patience: Duration::from_secs(args.some("patience")),
            caps,
        }
    }
}

fn run(args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let (sizes, json) = (Sizes::new(args), args.get("json") != 0);
    room::judge(&sizes)?;
    let identity = Identity::new()?;
    let plain = Stage::new(sizes.caps, &identity, false)?;
    let locked = Stage::new(sizes.caps, &identity, true)?;
    if !json {
        report.say(format!("{}; attackers from {} addresses each", plain.server.told(), sizes.addresses));
        report.say(table::head());
    }
    let mut rows = Vec::new();
    for (number, kind) in attack::KINDS.iter().enumerate() {
        let stage = if kind.is_tls { &locked } else { &plain };
        let to = kind.target(&stage.server);
        let net = u8::try_from(number + 1).unwrap_or(u8::MAX);
        let outcome = Round { kind, stage, sizes: &sizes, identity: &identity, to, net }.run()?;
        judge::judge(&mut report, kind, &sizes, stage, &outcome);
        if !json {
            report.say(table::row(kind, stage, &outcome));
        }
        rows.push((kind, outcome));
    }
    if json {
        report.say(table::json(&rows, &plain, &locked));
    } else {
        report.say(table::foot(&rows));
    }
    Ok(report)
}
