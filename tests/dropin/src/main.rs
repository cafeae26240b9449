//! Clients of the five limiters, written after their documents, run unchanged against every home: redis-server with
//! Tollgate's Lua, and Tollgate as installed, with a journal, with tokens, and over a Redis or a cluster.
//!
//! | file | what it is |
//! |---|---|
//! | `home.rs` | the homes, and how each is started |
//! | `serve.rs` | a process of `tollgate serve` |
//! | `program.rs` | the programs, their languages and libraries |
//! | `tape.rs` | a relay that notes which commands a client sends |
//!
//! The programs are in `programs`. `cargo xtask dropin` fetches their libraries and runs this.

mod home;
mod program;
mod serve;
mod tape;

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;

use home::{HOMES, HomeKind, Place};
use program::{COMMANDS, PROGRAMS, Program, Surroundings};
use tape::Tape;

type Failure = Box<dyn Error>;

const HELP: &str = "\
dropin [--short] [WORD]

Runs every client against every home; with WORD, those whose program, library or home has it in its name.
--short leaves out homes that take long to start, and tests that wait for windows.";

fn main() -> ExitCode {
    match read_args().and_then(|(short, word)| run(short, &word)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn read_args() -> Result<(bool, String), Failure> {
    let (mut short, mut word) = (false, None);
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--short" => short = true,
            "--help" => return Err(HELP.into()),
            _ if word.is_none() => word = Some(arg),
            _ => return Err(format!("expected --short or one word, found {arg:?} too\n\n{HELP}").into()),
        }
    }
    Ok((short, word.unwrap_or_default()))
}

fn run(short: bool, word: &str) -> Result<(), Failure> {
    let surroundings = Surroundings::new(short)?;
    let (mut homes, mut runs, mut failures) = (0, 0, 0);
    for home in HOMES.iter().filter(|home| !short || home.is_quick) {
        let chosen: Vec<&Program> =
            PROGRAMS.iter().filter(|program| program.fits(home) && has(home, program, word)).collect();
        if chosen.is_empty() {
            continue;
        }
        let results = run_home(&surroundings, home, &chosen)?;
        homes += 1;
        runs += results.len();
        for failure in results.into_iter().filter_map(Result::err) {
            eprintln!("error: {failure}");
            failures += 1;
        }
    }
    println!("dropin: {runs} programs on {homes} homes, {failures} failed");
    match (runs, failures) {
        (0, _) => Err(format!("no home or program has {word:?} in its name").into()),
        (_, 0) => Ok(()),
        _ => Err(format!("{failures} of {runs} programs failed").into()),
    }
}

fn has(home: &HomeKind, program: &Program, word: &str) -> bool {
    [home.name, program.file, program.library].iter().any(|name| name.contains(word))
}

/// Runs programs against a home, one after the other, since each empties its database; returns what came of each.
fn run_home(
    surroundings: &Surroundings,
    kind: &HomeKind,
    chosen: &[&Program],
) -> Result<Vec<Result<(), Failure>>, Failure> {
    let home = kind.start(surroundings)?;
    let (mut sent, mut results) = (BTreeSet::new(), Vec::new());
    for program in chosen {
        let tape = Tape::start(home.place.addr)?;
        let place = Place { addr: tape.addr, ..home.place.clone() };
        results.push(program.run(surroundings, kind, &place, &BTreeSet::new()));
        sent.extend(tape.sent());
    }
    if COMMANDS.fits(kind) {
        results.push(COMMANDS.run(surroundings, kind, &home.place, &sent));
    }
    Ok(results)
}
