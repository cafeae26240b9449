//! `bench-server`: servers that count requests, one after the other under the same load.
//!
//! `bench-server [--quick] [--only WORD] [--rounds N] [--seconds N] [--json] PATHS`. What is compared with is
//! INCR of redis-server before and after, since machines differ and drift. Run by `cargo xtask bench server`,
//! which knows the paths.
//!
//! | file | what it is |
//! |---|---|
//! | `subjects.rs` | what is measured: servers and commands |
//! | `process.rs` | a server: start, whose port it is, end |
//! | `probe.rs` | whether its replies are right |
//! | `request.rs`, `replies.rs`, `driver.rs` | the load |
//! | `cpu.rs` | processor time of a process |
//! | `rounds.rs` | who is measured when, and the medians |
//! | `targets.rs` | what Tollgate set out to reach |
//! | `report.rs` | the answer, for people and as JSON |

mod cpu;
mod driver;
// The one of `tollgate bench`.
#[path = "../../../../server/cli/src/bench/histogram.rs"]
mod histogram;
mod probe;
mod process;
mod replies;
mod report;
mod request;
mod rounds;
mod subjects;
#[path = "../redis/table.rs"]
mod table;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Why a measurement ended.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

const HELP: &str = "\
bench-server [FLAGS]

  --quick              one round of short measurements: does it run, not how fast
  --only WORD          what has WORD in its name, beside INCR: tollgate, throttlecrab, function, gcra, journal
  --rounds N           rounds, of which the median is told (5)
  --seconds N          length of a measurement (2)
  --serve ARGS         more arguments of `tollgate serve`, e.g. --serve '--threads 1'
  --json               one object instead of tables
  --tollgate PATH      the programs, and the library that forces TCP_NODELAY
  --throttlecrab PATH
  --nodelay PATH
";

/// The options of a run.
#[derive(Clone, Debug)]
struct RunOptions {
    quick: bool,
    json: bool,
    only: Option<String>,
    rounds: usize,
    time: Duration,
    serve: String,
    tollgate: Option<PathBuf>,
    throttlecrab: Option<PathBuf>,
    nodelay: Option<PathBuf>,
}

impl RunOptions {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self {
            quick: false,
            json: false,
            only: None,
            rounds: 5,
            time: Duration::from_secs(2),
            serve: String::new(),
            tollgate: None,
            throttlecrab: None,
            nodelay: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => (options.quick, options.rounds, options.time) = (true, 1, Duration::from_millis(300)),
                "--json" => options.json = true,
                "--only" => options.only = Some(words.next()?),
                "--rounds" => options.rounds = words.next()?.parse().ok().filter(|&rounds| rounds > 0)?,
                "--seconds" => {
                    let seconds: f64 = words.next()?.parse().ok().filter(|&seconds| seconds > 0.0)?;
                    options.time = Duration::try_from_secs_f64(seconds).ok()?;
                }
                "--serve" => options.serve = words.next()?,
                "--tollgate" => options.tollgate = Some(words.next()?.into()),
                "--throttlecrab" => options.throttlecrab = Some(words.next()?.into()),
                "--nodelay" => options.nodelay = Some(words.next()?.into()),
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
    }
}

fn main() -> ExitCode {
    let Some(options) = RunOptions::read(std::env::args().skip(1)) else {
        eprint!("{HELP}");
        return ExitCode::from(2);
    };
    match rounds::run(&options) {
        Ok(all) => {
            report::print(&options, &all);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
