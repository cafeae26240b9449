//! `tollgate explain`: what a policy promises; with `--at`, the reasons for decisions; and with `--key`, the state of a
//! key in a store.
//!
//! | file | what it is |
//! |---|---|
//! | `events.rs` | the events of `--at` |
//! | `live.rs` | the state of a key in a store now |
//! | `report.rs` | the output |

mod events;
mod live;
mod report;

use clap::Args;
use tollgate_kernel::{Explanation, KeyState, Policy, Request, explain};

use crate::error::CliError;
use crate::policy::{self, ModeArg};
use crate::server::StoreArgs;
use events::ExplainEvent;

const EXAMPLES: &str = "\
Examples:
  tollgate explain \"100/min, 1000/h\"
  tollgate explain \"10/s gcra burst=20\" --json
  tollgate explain \"1/5s, 5/h\" --at 0s,1s,4.5s,5s
  tollgate explain 100/min --at 0sx60 --at 30sx60 --mode nary
  tollgate explain 100/min --key user:42

Events of --at are made by one key, in the order given. An event is a time and
perhaps xCOST: 4.5s, 1500ms, 2minx5, or RFC 3339 such as 2026-01-05T09:00:00Z.
Offsets count from 2024-01-01T00:00:00Z, a Monday, so that the windows of
align=clock begin at 0s. --key looks at a key in a store and charges nothing.
Exit code: 0 done, 2 error.";

/// What `tollgate explain` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// A policy such as "1/5s, 5/h"
    pub(crate) policy: String,

    /// A request that does not fit: all or nothing, what fits, or count it anyway
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeArg,

    /// Requests of one key to decide, TIME[xCOST], with commas or repeated
    #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
    pub(crate) at: Vec<String>,

    /// Show how this key stands in the store now
    #[arg(long, conflicts_with = "at")]
    pub(crate) key: Option<String>,

    /// With --key: how many units to ask for
    #[arg(long, value_name = "N", default_value_t = 1, requires = "key")]
    pub(crate) cost: u64,

    /// The policy's name, which its state is filed under
    #[arg(long, requires = "key")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// An event and its decision.
struct ExplainedEvent {
    event: ExplainEvent,
    explanation: Explanation,
}

/// Runs the command; returns what to print.
pub(crate) fn run(args: &ExplainArgs) -> Result<String, CliError> {
    let policy = policy::parse(&args.policy, args.mode)?;
    if let Some(key) = &args.key {
        return live::run(args, &policy::named(policy, args.name.as_deref())?, key);
    }
    let events = args.at.iter().map(|text| ExplainEvent::parse(text)).collect::<Result<Vec<_>, _>>()?;
    events::refuse_mixture(&events)?;
    let events = explain_events(&policy, events);
    Ok(if args.json { report::json(&policy, &events) } else { report::print(&policy, &events) })
}

fn explain_events(policy: &Policy, events: Vec<ExplainEvent>) -> Vec<ExplainedEvent> {
    let mut key = KeyState::default();
    let explained = |event: ExplainEvent| {
        let explanation = explain(&mut key, policy, event.at, &Request::cost(event.cost));
        ExplainedEvent { event, explanation }
    };
    events.into_iter().map(explained).collect()
}
