//! `tollgate redis`: the Lua on Redis servers, and the state of those servers.
//!
//! | file | what it is |
//! |---|---|
//! | `install.rs`, `libraries.rs`, `name_conflict.rs` | `install`: function libraries on every primary |
//! | `scripts.rs` | `install --scripts`: scripts in the cache of every node |
//! | `doctor/` | `doctor`: what is wrong with a server, and what to do |
//! | `script.rs` | `script` and `compact`: the text itself |

mod doctor;
mod install;
pub(crate) mod libraries;
mod name_conflict;
mod script;
mod scripts;

use clap::{Args, Subcommand};

use crate::CommandOutput;
use crate::error::CliError;
pub(crate) use name_conflict::NameConflict;

/// Exit code of a check that found something.
pub(crate) const FOUND: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  tollgate redis install redis://127.0.0.1:6379
  tollgate redis install redis://127.0.0.1:6379 --check
  tollgate redis doctor redis+cluster://10.0.0.1,10.0.0.2
  tollgate redis script tollgate > tollgate.lua

A URL is redis://[user:password@]host[:port][/db], rediss:// with TLS,
redis+cluster://host,host or redis+sentinel://host,host/MASTER. Passwords are
never printed.";

/// What `tollgate redis` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RedisArgs {
    /// What to do
    #[command(subcommand)]
    command: RedisCommand,
}

#[derive(Debug, Subcommand)]
enum RedisCommand {
    /// Load the function libraries, or with --scripts the scripts
    Install(install::InstallArgs),
    /// Say what is wrong with a server, and what to do about it
    Doctor(doctor::DoctorArgs),
    /// Print the Lua of a call or dialect, or list what there is
    Script(script::ScriptArgs),
    /// Print a policy in the form that scripts read fastest
    Compact(script::CompactArgs),
}

/// Runs the command; returns what to print.
pub(crate) fn run(args: &RedisArgs) -> Result<CommandOutput, CliError> {
    match &args.command {
        RedisCommand::Install(args) => install::run(args),
        RedisCommand::Doctor(args) => doctor::run(args),
        RedisCommand::Script(args) => script::run(args).map(CommandOutput::from),
        RedisCommand::Compact(args) => script::compact(args).map(CommandOutput::from),
    }
}
