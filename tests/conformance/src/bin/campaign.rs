//! `campaign`: eight threads at the embedded store, and the interval checker on what they were admitted.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use tollgate_conformance::campaign::{Plan, run};

const HELP: &str = "\
campaign [--operations N] [--seeds N] [--seed S]

Eight threads at one embedded store for every algorithm: a hot key and 1,000 others, policies of one
limit and of three, by the process's clock and by one that is advanced. No interval may admit more than
promised, a key offered too much must be full, and nothing decided together may be charged in part.

  --operations N   decisions in all (default: 10_000_000; the full campaign is 100_000_000)
  --seeds N        over so many seeds (default: 200)
  --seed S         from this seed on (default: 1)
  --help           this text

The table tells how much hot keys were admitted of what one thread alone would have been: the least
full one where the clock was advanced in steps, where all of it is demanded (99.9 % with decay), and all
of those by the process's clock together, where it is only told.

A seed chooses policy, clock and traffic. It does not choose how threads interleave: what was found with a
seed may take several runs to be found again.
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let plan = match read(&words) {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            let _ = write!(io::stdout(), "{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            let _ = writeln!(io::stderr(), "campaign: {message}");
            return ExitCode::from(2);
        }
    };
    let (started, watched) = (Instant::now(), io::stderr().is_terminal());
    let summary = run(&plan, |seed| {
        if watched {
            let _ = write!(io::stderr(), "\rseed {} of {}", seed - plan.seed + 1, plan.seeds);
        }
    });
    if watched {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    let _ = writeln!(io::stdout(), "{summary} ({:.1?})", started.elapsed());
    if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// What to do; nothing if help is asked for.
fn read(words: &[String]) -> Result<Option<Plan>, String> {
    let mut plan = Plan { seed: 1, seeds: 200, operations: 10_000_000 };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let number = match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--operations" => &mut plan.operations,
            "--seeds" => &mut plan.seeds,
            "--seed" => &mut plan.seed,
            other => return Err(format!("unknown argument {other:?}; see --help")),
        };
        let value = rest.next().map_or("nothing", String::as_str);
        *number = value
            .replace('_', "")
            .parse()
            .map_err(|_| format!("{word}: expected a whole number, found {value:?}; for example {word} 200"))?;
    }
    if plan.seeds == 0 {
        return Err("--seeds: expected at least 1".to_owned());
    }
    Ok(Some(plan))
}
