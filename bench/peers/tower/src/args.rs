//! The command line.

use std::time::Duration;

use crate::contenders::{CONTENDERS, Case, Contender};
use crate::inside::How;

pub(crate) const HELP: &str = "\
tower [FLAGS]                                 compare all contenders
tower run HOW CONTENDER CASE REQUESTS         requests without sockets; HOW: call, connection
tower serve CONTENDER CASE                    a server, until its standard input ends; it prints its port

  --quick            one short round: does it run, not how fast
  --only WORD        instructions or sockets: one of the two parts
  --rounds N         rounds, each of which gives a pair of every two contenders (20)
  --seconds S        length of a contender's slice of a round (0.5)
  --connections N    connections a server is asked over (32)
  --json             one JSON document at the end instead of tables

CASE is allowed (no request is refused) or refused (all are).
";

pub(crate) enum Command {
    Help,
    Compare(Options),
    Run(How, &'static Contender, Case, u64),
    Serve(&'static Contender, Case),
}

/// The flags of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) instructions: bool,
    pub(crate) sockets: bool,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    pub(crate) connections: usize,
}

pub(crate) fn parse(words: &[&str]) -> Result<Command, String> {
    match words {
        ["help" | "--help" | "-h", ..] => Ok(Command::Help),
        ["run", how, name, case, requests] => {
            Ok(Command::Run(How::from_name(how)?, contender(name)?, Case::from_name(case)?, number(requests)?))
        }
        ["serve", name, case] => Ok(Command::Serve(contender(name)?, Case::from_name(case)?)),
        flags => options(flags).map(Command::Compare),
    }
}

fn options(mut words: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        quick: false,
        json: false,
        instructions: true,
        sockets: true,
        rounds: 20,
        slice: Duration::from_millis(500),
        connections: 32,
    };
    loop {
        words = match words {
            [] => return Ok(options),
            ["--quick", rest @ ..] => {
                (options.quick, options.rounds, options.slice) = (true, 1, Duration::from_millis(100));
                rest
            }
            ["--json", rest @ ..] => {
                options.json = true;
                rest
            }
            ["--only", part @ ("instructions" | "sockets"), rest @ ..] => {
                options.instructions = *part == "instructions";
                options.sockets = !options.instructions;
                rest
            }
            ["--rounds", count, rest @ ..] => {
                options.rounds = count_of(count, 1_000)?;
                rest
            }
            ["--seconds", seconds, rest @ ..] => {
                options.slice = slice(seconds)?;
                rest
            }
            ["--connections", count, rest @ ..] => {
                options.connections = count_of(count, 1_000)?;
                rest
            }
            [word, ..] => return Err(format!("{word:?} is not known here, or something after it is missing")),
        }
    }
}

fn contender(name: &str) -> Result<&'static Contender, String> {
    CONTENDERS.iter().find(|contender| contender.name == name).ok_or_else(|| {
        let names: Vec<&str> = CONTENDERS.iter().map(|contender| contender.name).collect();
        format!("no contender is named {name:?}; there are {}", names.join(", "))
    })
}

fn number(word: &str) -> Result<u64, String> {
    word.replace('_', "").parse().map_err(|_| format!("expected a number, found {word:?}"))
}

fn count_of(word: &str, most: usize) -> Result<usize, String> {
    let count = word.replace('_', "").parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {most}, found {word:?}"))
}

fn slice(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("expected seconds from 0.01 to 600, found {word:?}"))
}
