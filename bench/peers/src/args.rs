//! The command line.

use crate::contenders::{CONTENDERS, Contender};

pub(crate) const HELP: &str = "\
embedded [FLAGS]                   compare all contenders on all workloads
embedded bytes CONTENDER KEYS      resident bytes a key of one contender
embedded stall CONTENDER KEYS      longest single call of one contender while KEYS keys come

  --quick            a twentieth of the keys and checks: does it run, not how fast
  --only WORD        contenders whose name contains WORD
  --workload WORD    workloads whose name contains WORD: hot-deny, hot-allow, 1M, zipf, 10M, bytes, stall
  --repeats N        measurements a figure, of which the median is told (5)
  --json             one JSON document at the end instead of tables
";

pub(crate) enum Command {
    Help,
    Compare(Options),
    Bytes(&'static Contender, u64),
    Stall(&'static Contender, u64),
}

/// The flags of a comparison.
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) json: bool,
    /// Parts of names; empty is everything.
    pub(crate) only: String,
    pub(crate) workload: String,
    pub(crate) repeats: usize,
}

pub(crate) fn parse(words: &[&str]) -> Result<Command, String> {
    match words {
        ["help" | "--help" | "-h", ..] => Ok(Command::Help),
        ["bytes", name, keys] => Ok(Command::Bytes(contender(name)?, number(keys)?)),
        ["stall", name, keys] => Ok(Command::Stall(contender(name)?, number(keys)?)),
        flags => options(flags).map(Command::Compare),
    }
}

fn options(mut words: &[&str]) -> Result<Options, String> {
    let mut options = Options { quick: false, json: false, only: String::new(), workload: String::new(), repeats: 5 };
    loop {
        words = match words {
            [] => return Ok(options),
            ["--quick", rest @ ..] => {
                options.quick = true;
                rest
            }
            ["--json", rest @ ..] => {
                options.json = true;
                rest
            }
            ["--only", word, rest @ ..] => {
                options.only = (*word).to_owned();
                rest
            }
            ["--workload", word, rest @ ..] => {
                options.workload = (*word).to_owned();
                rest
            }
            ["--repeats", count, rest @ ..] => {
                options.repeats = usize::try_from(number(count)?).map_err(|problem| problem.to_string())?;
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
    match word.replace('_', "").parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("expected a number from 1, found {word:?}")),
    }
}
