//! The `tollgate` command.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | the command line as clap sees it |
//! | `error.rs` | everything that can go wrong, each with a hint |
//! | `policy.rs` | policies and modes from the command line |
//! | `moment.rs` | times for people and machines: RFC 3339 |
//! | `text.rs` | numbers and tables for people |
//! | `replay/` | `tollgate replay`: a policy over recorded traffic |
//! | `explain/` | `tollgate explain`: what a policy promises, and the reasons for a decision |
//! | `decide/` | `tollgate check`, `peek`, `reset`, `refund`: one question to a store |
//! | `config/` | `tollgate config`: a policy file checked, a change of it tried on recorded traffic |
//! | `serve/`, `token/` | `tollgate serve`: the server; `tollgate token`: tokens for it |
//! | `token_file/` | the file in which a server leaves its token for the commands of its user |
//! | `redis/` | `tollgate redis`: install, doctor, script, compact |
//! | `bench/` | `tollgate bench`: what policies and dialects cost a server |
//! | `server/` | connections to servers, for administration and measuring |
//!
//! The interface is the command line; the library exists only to be called by `main`.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

mod args;
mod bench;
mod config;
mod decide;
mod error;
mod explain;
mod moment;
mod policy;
mod redis;
mod replay;
mod serve;
mod server;
mod text;
mod token;
pub mod token_file;

use args::{Cli, CliCommand};
use error::CliError;

/// The exit code of every failure; 1 is reserved for "denied".
const FAILED: u8 = 2;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    main_of(std::env::args_os())
}

/// Runs a command line given as words, of which the first is the program's name.
pub fn main_of(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help to standard output and mistakes to standard error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
        }
    };
    match run(&cli.command).and_then(|answer| print(&answer.text).map(|()| answer.code)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = write!(std::io::stderr(), "{}", error.report());
            ExitCode::from(FAILED)
        }
    }
}

fn run(command: &CliCommand) -> Result<CommandOutput, CliError> {
    match command {
        CliCommand::Check(args) => decide::check(args),
        CliCommand::Peek(args) => decide::peek(args),
        CliCommand::Reset(args) => decide::reset(args),
        CliCommand::Refund(args) => decide::refund(args),
        CliCommand::Replay(args) => replay::run(args).map(CommandOutput::from),
        CliCommand::Explain(args) => explain::run(args).map(CommandOutput::from),
        CliCommand::Serve(args) => serve::run(args),
        CliCommand::Token(args) => token::run(args),
        CliCommand::Config(args) => config::run(args),
        CliCommand::Redis(args) => redis::run(args),
        CliCommand::Bench(args) => bench::run(args).map(CommandOutput::from),
    }
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) text: String,
    pub(crate) code: u8,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self { text, code: 0 }
    }
}

/// Writes the output of a command. A reader that closes the pipe early, such as `head`, is no error.
fn print(output: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(output.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(CliError::Output(source)),
        _ => Ok(()),
    }
}
