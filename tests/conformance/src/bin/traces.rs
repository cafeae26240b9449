//! `traces [--operations N] [--seed N] [URL]`: random traces through kernel, script, function and server.

use std::io::Write;
use std::process::ExitCode;

use tollgate_conformance::redis::{Difference, Target, Trace, TraceFigures, play, play_dialects};

const HELP: &str = "\
traces [--operations N] [--seed N] [URL]

Asks the kernel, the Lua script, the Lua function, a party that switches between the two, the server over the
Redis protocol and over HTTP, and a server with --store, the same random questions by one clock. They must give
the same answers, and in Redis leave the same states. URL is a Redis or Valkey of yours (keys of this run only,
deleted at its end; the server with --store is left out); without it one is started.
";

fn main() -> ExitCode {
    let mut trace = Trace { target: Target::from_env(), seed: 1, operations: 1_000_000, stored: 1, fault: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.replace('_', "").parse().ok());
        match arg.as_str() {
            "--operations" => trace.operations = number().unwrap_or(trace.operations),
            "--seed" => trace.seed = number().unwrap_or(trace.seed),
            url if url.contains("://") => trace.target = Target::Url(url.to_owned()),
            _ => {
                let _ = write!(std::io::stderr(), "{HELP}");
                return ExitCode::from(2);
            }
        }
    }
    let spoken = Trace { operations: trace.operations / 4, ..trace.clone() };
    let done = tell("policies", |progress| play(&trace, progress))
        && tell("calls of dialects", |progress| play_dialects(&spoken, progress));
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays, and says what came of it.
fn tell(what: &str, play: impl FnOnce(&mut dyn FnMut(u64)) -> Result<TraceFigures, Box<Difference>>) -> bool {
    let mut shown = 0;
    let played = play(&mut |done| {
        if done / 100_000 > shown {
            shown = done / 100_000;
            let _ = writeln!(std::io::stderr(), "{what}: {done} operations agree");
        }
    });
    let mut out = std::io::stdout();
    match &played {
        Ok(TraceFigures { operations, allowed, states, chunked }) => {
            let states = if *states > 0 {
                format!(" ({allowed} allowed), and {states} states, {chunked} of them with long logs")
            } else {
                String::new()
            };
            let _ = writeln!(out, "{what}: {operations} operations agree{states}");
        }
        Err(differs) => {
            let asked = differs.asked.join("\n  ");
            let _ = writeln!(out, "{what}: seed {}:\n  {asked}\n{}", differs.seed, differs.what);
        }
    }
    played.is_ok()
}
