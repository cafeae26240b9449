//! The command line as clap sees it. Each command's own arguments are beside the command.

use clap::{Parser, Subcommand};

use crate::explain::ExplainArgs;
use crate::replay::ReplayArgs;

const EXAMPLES: &str = "\
Examples:
  tollgate replay access_log.gz --key ip --policy \"100/min, 1000/h\"
  tollgate explain \"10/s gcra burst=20\"
  tollgate help replay

A policy is one or more limits, such as \"1/5s, 5/h\", decided together.
Exit code: 0 done, 2 error.";

/// Rate limiting, decided exactly.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, a file each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run policies over recorded traffic and show who would have been refused
    Replay(ReplayArgs),
    /// Say in plain words what a policy promises, and why a decision comes out
    Explain(ExplainArgs),
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
