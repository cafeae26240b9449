//! The arguments of `tollgate bench`.

use clap::Args;

use super::subject::CallPreference;
use crate::error::CliError;
use crate::server::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  tollgate bench 100/min
  tollgate bench 100/min --store redis://127.0.0.1:6379
  tollgate bench \"10000/min\" \"500/3s\" \"10000/min gcra\" \"10000/min slots\"
  tollgate bench sliding_window --keys 10000 --connections 16 --pipeline 10
  tollgate bench sliding_window -- 60000 10000
  tollgate bench slot_window -- 1 ns '[[100,60,1]]' @now_s

It puts load on that server: run it against one nobody depends on. Keys are
asked at random. They begin with a name of the run and are deleted at the end;
those of a run that was cut short expire by themselves. On Redis and Valkey the
function is measured if the library is installed, else the script, which is
loaded. On a Tollgate server, which is the default, TG.CHECK is measured for
policies and the function for dialects; --function and --script measure these
calls there, and processor time and bytes are not told.
Arguments behind -- are those of a dialect after its key; @now_s, @now_ms and
@now_us become the time of the call. Exit code: 0 done, 2 error.";

/// What `tollgate bench` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Policies such as "100/min", or dialects such as sliding_window
    #[arg(required = true, value_name = "POLICY|DIALECT")]
    pub(crate) what: Vec<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// How many keys
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) keys: u64,

    /// How many connections, each with a thread of its own
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) connections: usize,

    /// How many calls a connection sends before it waits for replies
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pipeline: usize,

    /// How long each is measured
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "calls")]
    pub(crate) seconds: u64,

    /// How many calls instead
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<u64>,

    /// Measure the script, even if there is a function or a command
    #[arg(long)]
    pub(crate) script: bool,

    /// Measure the function; an error on a Redis where it is not installed
    #[arg(long, conflicts_with = "script")]
    pub(crate) function: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Arguments of one dialect, after its key
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

impl BenchArgs {
    /// Returns whether a function or a script was requested.
    pub(crate) fn preference(&self) -> CallPreference {
        match (self.function, self.script) {
            (true, _) => CallPreference::Function,
            (_, true) => CallPreference::Script,
            _ => CallPreference::Either,
        }
    }

    /// Refuses arguments that cannot be measured.
    pub(crate) fn validate(&self) -> Result<(), CliError> {
        let ranges = [
            ("--keys", self.keys, 10_000_000, "1 to 10,000,000"),
            ("--connections", self.connections as u64, 1_000, "1 to 1,000"),
            ("--pipeline", self.pipeline as u64, 10_000, "1 to 10,000"),
            ("--seconds", self.seconds, 86_400, "1 to 86,400"),
            ("--calls", self.calls.unwrap_or(1), u64::MAX, "1 or more"),
        ];
        match ranges.into_iter().find(|(_, given, most, _)| *given == 0 || given > most) {
            Some((what, given, _, expected)) => Err(CliError::Argument { what, found: given.to_string(), expected }),
            None if !self.args.is_empty() && self.what.len() > 1 => Err(CliError::Argument {
                what: "arguments behind --",
                found: self.args.join(" "),
                expected: "them with one dialect only",
            }),
            None => Ok(()),
        }
    }
}
