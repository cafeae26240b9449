//! `tower`: what a rate limit in front of an axum handler costs, beside the bare handler and tower_governor.
//!
//! Without a command it compares. The other commands are one contender in a process of its own, started by the
//! comparison: `tower run HOW CONTENDER CASE REQUESTS` under valgrind, `tower serve CONTENDER CASE` behind a socket.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | the command line |
//! | `contenders.rs` | what is compared: layers on the same handler; a new one is a line in `CONTENDERS` |
//! | `inside.rs` | requests without sockets, as many as are asked for |
//! | `count.rs` | instructions a request, of those of `inside.rs` |
//! | `serve.rs`, `process.rs` | a contender behind a socket, and its process |
//! | `response.rs`, `driver.rs` | the load |
//! | `cpu.rs` | processor time of a process |
//! | `rounds.rs` | who is measured when |
//! | `pairs.rs` | ratios of pairs, their median and its interval |
//! | `targets.rs` | what Tollgate set out to reach |
//! | `compare.rs`, `report.rs` | the comparison, for people and as JSON |

mod args;
mod compare;
mod contenders;
mod count;
mod cpu;
mod driver;
mod inside;
mod pairs;
mod process;
mod report;
mod response;
mod rounds;
mod serve;
mod targets;

use std::process::ExitCode;

use args::Command;

/// Why a measurement ended.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match args::parse(&words) {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            Ok(())
        }
        Ok(Command::Compare(options)) => compare::compare(&options),
        Ok(Command::Run(how, contender, case, requests)) => inside::run(how, contender, case, requests),
        Ok(Command::Serve(contender, case)) => serve::serve(contender, case),
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
