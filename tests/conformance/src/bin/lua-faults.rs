//! `lua-faults [WORD]`: the Lua broken on purpose, one fault at a time; a trace must find each.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use tollgate_conformance::redis::{FAULTS, NO_FAULT, Target, is_found};

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let (mut found, mut missed) = (0, 0);
    let mut out = std::io::stdout();
    let started = Instant::now();
    for nothing in &NO_FAULT {
        if !matches!(is_found(nothing, &Target::Own), Ok(false)) {
            let _ =
                writeln!(out, "{}: the trace differs without a fault; see cargo xtask traces --seed 77", nothing.what);
            return ExitCode::FAILURE;
        }
    }
    for fault in FAULTS.iter().filter(|fault| fault.what.contains(&word)) {
        match is_found(fault, &Target::Own) {
            Ok(true) => found += 1,
            Ok(false) => {
                missed += 1;
                let _ = writeln!(out, "missed: {}", fault.what);
            }
            Err(error) => {
                missed += 1;
                let _ = writeln!(out, "{error}");
            }
        }
    }
    let _ = writeln!(out, "lua faults: {found} found, {missed} missed, in {:.0?}", started.elapsed());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
