//! `embedded`: limiters inside one process, on the same keys, in one run.
//!
//! Without a command it compares: nanoseconds a check, bytes a key, stalls while keys come.
//! `embedded bytes CONTENDER KEYS` and `embedded stall CONTENDER KEYS` measure one contender in a
//! process of its own and print a line a figure; the comparison starts itself again for these.
//! What is compared is in `contenders`, the traffic in `workload`.

mod args;
mod bytes;
mod child;
mod compare;
mod contenders;
mod draw;
mod keys;
mod measure;
mod report;
mod stall;
mod targets;
mod workload;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match args::parse(&words) {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            Ok(())
        }
        Ok(Command::Compare(options)) => compare::compare(&options),
        Ok(Command::Bytes(contender, keys)) => bytes::print(contender, keys),
        Ok(Command::Stall(contender, keys)) => stall::print(contender, keys),
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
