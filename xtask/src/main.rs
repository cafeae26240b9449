//! `cargo xtask`: everything this repository does, one command each.

mod mutants;
mod run;

use std::process::ExitCode;

use run::{Failure, run};

const HELP: &str = "\
cargo xtask COMMAND

  test                 all tests: format, lints, unit tests, laws, vectors, mutants, fuzz, README
  laws [ARGS]          the laws alone, e.g. cargo xtask laws --cases 1_000_000
  mutants              the tests of the tests alone
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test(),
        ["laws", args @ ..] => laws(args),
        ["mutants"] => mutants::mutants(),
        _ => {
            eprint!("{HELP}");
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

fn test() -> Result<(), Failure> {
    run("cargo", &["fmt", "--all", "--check"])?;
    run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    run("cargo", &["test", "--workspace"])?;
    mutants::mutants()
}

fn laws(args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tollgate-laws", "--"];
    all.extend(args);
    run("cargo", &all)
}
