//! What Tollgate promises of Redis and of its own server, tried by force on real servers.
//!
//! Every campaign is bounded in count and time, prints its seed and a summary that a person reads, and
//! fails if a promise was broken.
//!
//! | file | what it is |
//! |---|---|
//! | `crowd/` | two processes of 64 connections on one key, scripts and functions flushed away |
//! | `cluster/` | slots that move, primaries that die |
//! | `cuts/` | connections cut at every byte |
//! | `down/` | a server that refuses, stalls, resets or is slow |
//! | `clock/` | a server whose clock jumps |
//! | `connections/` | Tollgate's server among clients that mean harm |
//! | `kills/` | Tollgate's server with a journal, killed, without power, on a disk that fails |
//! | `damage/` | servers that find their files damaged |
//! | `reloads/` | a policy file that changes under load |
//! | `attack/` | a server among callers that mean harm and an operator with bad luck |
//! | `serving/` | a server process of a campaign, and how it is asked |
//! | `args.rs` | the options of a campaign |
//! | `report.rs` | what came of it |
//! | `lateness.rs`, `timing.rs` | how late the machine is; how long calls took, and which took too long |
//! | `machine.rs` | memory and connections, panics, one command to a server |

pub mod args;
mod attack;
mod clock;
mod cluster;
mod connections;
mod crowd;
mod cuts;
mod damage;
mod down;
mod kills;
mod lateness;
mod machine;
mod reloads;
mod report;
mod serving;
mod timing;

use args::Args;
pub use report::{Failure, Report};
pub use serving::TOLLGATE;

/// A campaign.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Its word on the command line.
    pub name: &'static str,
    /// Its options, with the full campaign as defaults.
    pub options: &'static [Setting],
    /// Its options that are words, with their defaults.
    pub texts: &'static [TextSetting],
    /// What it does, for help.
    pub help: &'static str,
    /// Runs it.
    pub run: fn(&Args) -> Result<Report, Failure>,
}

/// An option: its name, its default, and what it says.
pub type Setting = (&'static str, u64, &'static str);

/// The same of an option that is a word or a list of them.
pub type TextSetting = (&'static str, &'static str, &'static str);

/// All campaigns.
pub static CAMPAIGNS: &[Campaign] = &[
    crowd::CAMPAIGN,
    cluster::CAMPAIGN,
    cuts::CAMPAIGN,
    down::CAMPAIGN,
    clock::CAMPAIGN,
    connections::CAMPAIGN,
    kills::CAMPAIGN,
    damage::CAMPAIGN,
    reloads::CAMPAIGN,
    attack::CAMPAIGN,
];

/// A part of a campaign that is a process of its own.
pub type Part = fn(&[String]) -> Result<(), Failure>;

/// All such parts, by their word on the command line.
pub static PARTS: &[(&str, Part)] =
    &[("work", crowd::work), ("serve", connections::serve), ("attacker", connections::attack)];
