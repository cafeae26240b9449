//! `tollgate bench`: what policies and dialects cost a server, so that configurations can be compared.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | the arguments of the command |
//! | `subject.rs`, `dialects.rs` | what is measured: a call, its arguments, its keys |
//! | `drive.rs` | connections that call as fast as they can |
//! | `histogram.rs` | the durations of calls |
//! | `server.rs` | what the server reports: processor time, memory; and the removal of keys |
//! | `report.rs`, `progress.rs` | the output, at the end and on the way |

mod args;
mod dialects;
mod drive;
mod histogram;
mod progress;
mod report;
mod server;
mod subject;

use std::io::Write;

pub(crate) use args::BenchArgs;

use crate::error::CliError;
use crate::server::{Fleet, ServerError, ServerTarget, token};
use report::{BenchRow, BenchSetup};
use subject::{BenchSubject, CallForm};

/// Runs the command; returns what to print.
pub(crate) fn run(args: &BenchArgs) -> Result<String, CliError> {
    args.validate()?;
    let target = args.store.target()?;
    let is_tollgate = target.url.tollgate;
    let measured = run_on(target, args);
    if is_tollgate { measured.map_err(|error| CliError::Tollgate(Box::new(error))) } else { measured }
}

fn run_on(target: ServerTarget, args: &BenchArgs) -> Result<String, CliError> {
    let prefix = format!("tollgate-bench-{:08x}", server::seed() as u32);
    let subjects = args.what.iter().map(|what| BenchSubject::new(what, &args.args)).collect::<Result<Vec<_>, _>>()?;
    let target = token::authenticate(target)?;
    let mut fleet = Fleet::open(&target)?;
    let setup = BenchSetup::of(&mut fleet, &target, args);
    let _ = writeln!(std::io::stderr(), "{}", setup.notice(&prefix, subjects.len()));
    let mut rows = Vec::new();
    for (number, subject) in subjects.iter().enumerate() {
        rows.push(measure(&mut fleet, subject, args, &format!("{prefix}-{number}"))?);
    }
    Ok(if args.json { setup.json(&rows) } else { setup.print(&rows) })
}

/// Measures one subject, and removes its keys whether or not that succeeded.
fn measure(fleet: &mut Fleet, subject: &BenchSubject, args: &BenchArgs, prefix: &str) -> Result<BenchRow, CliError> {
    let form = subject.form(fleet, args.preference())?;
    if form == CallForm::Script {
        server::load(fleet, &subject.script)?;
    }
    let keys = subject.keys(&form, prefix, args.keys);
    let before = server::cpu(fleet);
    let outcome = drive::drive(fleet, subject, &form, &keys, args);
    let after = server::cpu(fleet);
    let bytes = server::bytes_per_key(fleet, subject, &keys);
    let removed = match server::remove(fleet, subject, &keys) {
        // A token that may check may lack the scope to reset.
        Err(ServerError::Refused { code, .. }) if fleet.is_tollgate && code == "NOPERM" => None,
        removed => Some(removed?),
    };
    let outcome = outcome?;
    let cpu = before.zip(after).map(|(before, after)| (after - before).max(0.0) * 1e6 / outcome.calls.max(1) as f64);
    Ok(BenchRow::new(subject, &form, &outcome, cpu, bytes, removed))
}
