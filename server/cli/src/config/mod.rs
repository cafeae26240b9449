//! `tollgate config`: policy files.
//!
//! | file | what it is |
//! |---|---|
//! | `check.rs` | `check`: what a file means, or every mistake in it |
//! | `messages.rs` | mistakes and warnings with their line and a caret |
//! | `plan/` | `plan`: what a change would do, on recorded traffic if there is some |

mod check;
pub(crate) mod messages;
mod plan;

use clap::{Args, Subcommand};

use crate::CommandOutput;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  tollgate config check tollgate.yaml
  tollgate config plan new.yaml --from tollgate.yaml
  tollgate config plan new.yaml --from tollgate.yaml --log access_log.gz
  tollgate config schema > tollgate.schema.json

A policy file is YAML (.yaml, .yml, .json) or TOML (.toml):
  policies:
    login: 5/min
    api: {limit: \"100/s gcra burst=200\", key: [header:x-tenant]}
Exit code: 0 right, 2 wrong.";

/// What `tollgate config` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// What to do
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what a policy file means, or every mistake in it
    Check(check::ConfigCheckArgs),
    /// Say what a change of the policy file would do
    Plan(plan::PlanArgs),
    /// Print the JSON Schema of policy files, for editors
    Schema,
}

/// Runs the command; returns what to print.
pub(crate) fn run(args: &ConfigArgs) -> Result<CommandOutput, CliError> {
    match &args.command {
        ConfigCommand::Check(args) => check::run(args),
        ConfigCommand::Plan(args) => plan::run(args).map(CommandOutput::from),
        ConfigCommand::Schema => Ok(CommandOutput::from(tollgate_config::schema().to_owned())),
    }
}
