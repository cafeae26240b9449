//! `bench-redis`: what a decision costs inside one redis-server of its own.
//!
//! `bench-redis [--quick] [--only WORD] [--experiment] [--json]`. What costs are compared with is the empty
//! script of the same run, since machines differ and drift. Run by `cargo xtask bench redis`.
//!
//! | file | what it is |
//! |---|---|
//! | `home.rs` | the server: what it has used, what it is told |
//! | `load.rs` | redis-benchmark, and what a call costs under it |
//! | `subjects.rs` | what is measured, as function and as script, with targets |
//! | `calls.rs` | every subject between two empty scripts |
//! | `flood.rs`, `logs.rs` | full logs in steady traffic |
//! | `slowlog.rs`, `longest.rs` | the longest call while a log grows |
//! | `bytes.rs` | bytes a key with one event |
//! | `experiment.rs` | one growing string against a hash of chunks |
//! | `table.rs` | the answer, for people and as JSON |

mod bytes;
mod calls;
mod experiment;
mod flood;
mod home;
mod load;
mod logs;
mod longest;
mod slowlog;
mod subjects;
mod table;

use std::process::ExitCode;

use home::{Failure, Home};
use table::Table;

const HELP: &str = "\
bench-redis [--quick] [--only WORD] [--experiment] [--json]

  --quick        less of everything: under a minute, and noisier
  --only WORD    what has WORD in its name: a subject such as `ar1`, or logs, longest, bytes
  --experiment   only the comparison of one growing string with a hash of chunks
  --json         one object instead of tables
";

/// The options of a run.
#[derive(Clone, Debug, Default)]
struct RunOptions {
    quick: bool,
    only: Option<String>,
    experiment: bool,
    json: bool,
}

impl RunOptions {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--experiment" => options.experiment = true,
                "--json" => options.json = true,
                "--only" => options.only = Some(words.next()?),
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }

    /// One of two sizes.
    fn size<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }
}

/// A part of the run, by its name.
type Part = (&'static str, fn(&mut Home, &RunOptions) -> Result<Table, Failure>);

const PARTS: &[Part] =
    &[("calls", calls::measure), ("logs", logs::measure), ("longest", longest::measure), ("bytes", bytes::measure)];

fn main() -> ExitCode {
    let Some(options) = RunOptions::read(std::env::args().skip(1)) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &RunOptions) -> Result<(), Failure> {
    let mut home = Home::start()?;
    let mut tables = Vec::new();
    let parts: &[Part] = if options.experiment { &[("experiment", experiment::measure)] } else { PARTS };
    for (name, measure) in parts {
        // The calls are chosen one by one.
        let chosen = || subjects::subjects().iter().any(|subject| subject.is_wanted(options));
        if options.experiment || options.wants(name) || *name == "calls" && chosen() {
            let table = measure(&mut home, options)?;
            if !options.json {
                print!("{table}");
            }
            tables.push(table);
        }
    }
    if options.json {
        println!("{}", table::json(&tables));
    }
    Ok(())
}
