//! `torture`: what Tollgate promises of Redis and of its own server, tried by force.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use tollgate_stress::args::{Args, help};
use tollgate_stress::{CAMPAIGNS, Failure, PARTS, Report, TOLLGATE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match words.split_first() {
        None => usage("expected a campaign"),
        Some((word, _)) if word == "--help" || word == "-h" => {
            let _ = write!(io::stdout(), "{}", help());
            ExitCode::SUCCESS
        }
        Some((word, rest)) => start(word, rest),
    }
}

fn start(word: &str, rest: &[String]) -> ExitCode {
    // The server of a campaign, where no `tollgate` is given: all of it is in a library.
    if word == TOLLGATE {
        return tollgate_cli::main_of(std::env::args_os().skip(1));
    }
    // A process of a campaign, started by this program.
    if let Some((_, part)) = PARTS.iter().find(|(name, _)| *name == word) {
        return match part(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failed(&failure),
        };
    }
    match CAMPAIGNS.iter().find(|campaign| campaign.name == word) {
        None => usage(&format!("unknown campaign {word:?}")),
        Some(campaign) => match Args::read(campaign, rest) {
            Err(message) => usage(&message),
            Ok(args) => run(campaign.name, &args, campaign.run),
        },
    }
}

fn run(name: &str, args: &Args, run: fn(&Args) -> Result<Report, Failure>) -> ExitCode {
    let started = Instant::now();
    match run(args) {
        Err(failure) => failed(&failure),
        Ok(report) => {
            let seed = args.get("seed");
            let last = format!("{name}: {report} (seed {seed}, {:.1?})", started.elapsed());
            // Whoever asked for one object gets nothing else.
            let _ = match args.get("json") {
                0 => writeln!(io::stdout(), "{last}"),
                _ => writeln!(io::stderr(), "{last}"),
            };
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
    }
}

fn usage(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "torture: {message}; see torture --help");
    ExitCode::from(2)
}

fn failed(failure: &Failure) -> ExitCode {
    let _ = writeln!(io::stderr(), "torture: {failure}");
    ExitCode::from(2)
}
