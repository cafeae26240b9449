//! `tollgate config plan`: what a change of the policy file would do, in words and on recorded traffic.
//!
//! | file | what it is |
//! |---|---|
//! | `policy_pair.rs` | the policies that decide differently, before and after |
//! | `policy_side.rs` | one of the two: lists, overrides, limits |
//! | `decider.rs` | both sides decide each request; replay does the rest |
//! | `log.rs` | a recorded log, and whether its lines name policies |
//! | `report.rs` | the output |

mod decider;
mod log;
mod policy_pair;
mod policy_side;
mod report;

use std::path::{Path, PathBuf};

use clap::Args;
use tollgate_config::{Config, ParsedConfig, changes, read_file};

use crate::error::CliError;
use crate::replay::{FormatArg, UnitArg};

const EXAMPLES: &str = "\
Examples:
  tollgate config plan new.yaml
  tollgate config plan new.yaml --from tollgate.yaml
  tollgate config plan new.yaml --from tollgate.yaml --log access_log.gz
  tollgate config plan new.yaml --from tollgate.yaml --log events.jsonl --json

Without --from everything is new. A log is what tollgate replay reads. If the
first of its JSON lines has a field \"policy\", each request is decided by the
policy that its line names; otherwise by every policy that changes.
Limits, modes, allow and deny lists, overrides and shadow are replayed at the
log's own time, each side from nothing; bans are not, and candidates decide
nothing. A list or override is matched with the key of the log; several fields
of --key are the parts of a key. Exit code: 0 done, 2 error.";

/// What `tollgate config plan` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// The policy file as it would be
    new: PathBuf,

    /// The policy file as it is
    #[arg(long, value_name = "OLD")]
    from: Option<PathBuf>,

    /// Recorded traffic to try it on; - reads standard input
    #[arg(long, value_name = "LOG")]
    log: Option<String>,

    /// With --log: only this policy; give several for more
    #[arg(long, value_name = "NAME", requires = "log")]
    policy: Vec<String>,

    /// Who is limited: one or more fields [default: key; ip in access logs]
    #[arg(long, short, value_name = "FIELD[,FIELD]", requires = "log")]
    key: Option<String>,

    /// The field of JSON lines that holds the time
    #[arg(long, value_name = "FIELD", default_value = "t", requires = "log")]
    time: String,

    /// The unit of times that are numbers; auto goes by the first one
    #[arg(long, value_enum, default_value_t, value_name = "UNIT", requires = "log")]
    time_unit: UnitArg,

    /// The format of the log; auto goes by the first line
    #[arg(long, value_enum, default_value_t, requires = "log")]
    format: FormatArg,

    /// How many of the keys hit hardest to show
    #[arg(long, value_name = "N", default_value_t = 10, requires = "log")]
    top: usize,

    /// Stop at the first line that is malformed or out of order
    #[arg(long, requires = "log")]
    strict: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command; returns what to print.
pub(super) fn run(args: &PlanArgs) -> Result<String, CliError> {
    let new = read(&args.new)?;
    let old = match &args.from {
        Some(path) => read(path)?.config,
        None => Config::default(),
    };
    let changes = changes(&old, &new.config);
    let replay = match &args.log {
        Some(path) => Some(log::replay(args, path, &old, &new.config)?),
        None => None,
    };
    let plan = report::PlanDocument::new(args, &new.warnings, changes, replay);
    Ok(if args.json { plan.json() } else { plan.print(&new.warnings) })
}

fn read(path: &Path) -> Result<ParsedConfig, CliError> {
    read_file(path).map_err(CliError::Config)
}
