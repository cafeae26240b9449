//! `cargo xtask`: everything this repository does, one command each.

mod bench;
mod guides;
mod mutants;
mod run;

use std::process::ExitCode;
use std::time::Instant;

use run::{Failure, run};

const HELP: &str = "\
cargo xtask COMMAND

  test                 all tests: format, lints, unit tests, laws, vectors, mutants, guides
  laws [ARGS]          the laws alone, e.g. cargo xtask laws --cases 1_000_000
  fuzz policy [N]      N random texts into the policy parser (10 million)
  mutants [WORD]       the kernel broken on purpose: every mutant (with WORD) must be caught
  guides               the documents' examples, run
  bench kernel         nanoseconds and instructions a decision (needs valgrind)
  bench replay [N]     lines a second over N lines of 100,000 keys (10 million)
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test(),
        ["laws", args @ ..] => laws(args),
        ["fuzz", "policy"] => laws(&["--fuzz", "10_000_000"]),
        ["fuzz", "policy", cases] => laws(&["--fuzz", cases]),
        ["mutants"] => mutants::mutants(""),
        ["mutants", word] => mutants::mutants(word),
        ["guides"] => build_and_guide(),
        ["bench", "kernel"] => bench::kernel(),
        ["bench", "replay"] => bench::replay("10_000_000"),
        ["bench", "replay", lines] => bench::replay(lines),
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
    let started = Instant::now();
    run("cargo", &["fmt", "--all", "--check"])?;
    run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    run("cargo", &["test", "--workspace", "--quiet"])?;
    build_and_guide()?;
    mutants::mutants("")?;
    println!("all tests passed in {:.0?}", started.elapsed());
    Ok(())
}

fn build_and_guide() -> Result<(), Failure> {
    run("cargo", &["build", "--quiet", "--bin", "tollgate"])?;
    guides::guides()
}

fn laws(args: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tollgate-laws", "--"];
    all.extend(args);
    run("cargo", &all)
}
