//! The command line as clap sees it. Each command's own arguments are beside the command.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::config::ConfigArgs;
use crate::decide::{CheckArgs, PeekArgs, RefundArgs, ResetArgs};
use crate::explain::ExplainArgs;
use crate::redis::RedisArgs;
use crate::replay::ReplayArgs;
use crate::serve::ServeArgs;
use crate::token::TokenArgs;

const EXAMPLES: &str = "\
Examples:
  tollgate serve
  tollgate replay access_log.gz --key ip --policy \"100/min, 1000/h\"
  tollgate explain \"10/s gcra burst=20\"
  tollgate check user:42 100/min
  tollgate config check tollgate.yaml
  tollgate redis doctor redis://127.0.0.1:6379
  tollgate help replay

A policy is one or more limits, such as \"1/5s, 5/h\", decided together.
Exit code: 0 done or allowed, 1 denied or a problem found, 2 error.";

/// Rate limiting, decided exactly.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The commands, a file each.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the server: exact limits for every language, over the Redis protocol and HTTP
    Serve(Box<ServeArgs>),
    /// Make a token for a server
    Token(TokenArgs),
    /// Decide a request against a store and charge it
    Check(CheckArgs),
    /// Look what check would answer, and charge nothing
    Peek(PeekArgs),
    /// Forget what a key used under a policy
    Reset(ResetArgs),
    /// Give back units that were charged
    Refund(RefundArgs),
    /// Run policies over recorded traffic and show who would have been refused
    Replay(ReplayArgs),
    /// Say in plain words what a policy promises, and why a decision comes out
    Explain(ExplainArgs),
    /// Check a policy file, show what a change of it would do, print its schema
    Config(ConfigArgs),
    /// Install the Lua on Redis and Valkey, examine servers, print scripts
    Redis(RedisArgs),
    /// Measure what policies and dialects cost a server
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
