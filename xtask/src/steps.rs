//! `cargo xtask test`: every test, step by step, each with the time it took beside the one it may take.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::run::{Failure, run};
use crate::{bench, clients, dropin, examples, gate, guides, install, models, mutants, outsiders, schema};

/// What each step may take: see the file.
const BUDGET: &str = include_str!("../budget.txt");

type Step = (&'static str, fn() -> Result<(), Failure>);

/// The steps in their order. What is quick to fail comes first.
const STEPS: &[Step] = &[
    ("install", install::install),
    ("format", || run("cargo", &["fmt", "--all", "--check"])),
    ("lints", lints),
    ("build", build),
    ("tests", tests),
    ("models", || models("20000")),
    ("examples", examples),
    ("guides", guides::guides),
    ("clients", clients::clients),
    ("http", gate::schemathesis_in_short),
    ("schema", schema),
    ("outsiders", outsiders::outsiders),
    ("dropin", dropin::in_short),
    ("peers", bench::check_peers),
    ("mutants", mutants::in_short),
];

/// Every test program of every package. Built at once, since one package by itself has other features, and is built anew with
/// all it depends on.
const TESTS: [&str; 5] = ["--workspace", "--lib", "--bins", "--test", "*"];

/// Runs all steps, and prints what each took, also if one fails.
pub(crate) fn test() -> Result<(), Failure> {
    let started = Instant::now();
    let mut took = Vec::new();
    let mut outcome = Ok(());
    for (name, step) in STEPS {
        let began = Instant::now();
        outcome = step().map_err(|failure| Failure(format!("{name}: {failure}")));
        took.push((*name, began.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    print(&took, started.elapsed());
    outcome
}

/// The table of times.
fn print(took: &[(&str, Duration)], all: Duration) {
    let budget = budget();
    println!("\n{:<12} {:>8} {:>8}", "step", "seconds", "budget");
    for (name, took) in took {
        let most = budget.get(name).copied().unwrap_or_default();
        let over = if took.as_secs() > most { "  over its budget" } else { "" };
        println!("{name:<12} {:>8.0} {most:>8}{over}", took.as_secs_f64());
    }
    println!("{:<12} {:>8.0} {:>8}", "all", all.as_secs_f64(), budget.values().sum::<u64>());
}

fn budget() -> HashMap<&'static str, u64> {
    let lines = BUDGET.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, most)| Some((name, most.trim().parse().ok()?)))
        .collect()
}

fn lints() -> Result<(), Failure> {
    // The first leaves out the test programs that `cargo test` leaves out.
    let lint = |targets: &[&str]| {
        run("cargo", &[&["clippy", "--workspace", "--quiet"], targets, &["--", "-D", "warnings"]].concat())
    };
    lint(&["--all-targets"])?;
    lint(&["--test", "*"])
}

fn build() -> Result<(), Failure> {
    run("cargo", &[&["test", "--quiet", "--no-run"], TESTS.as_slice()].concat())?;
    crate::build()
}

fn tests() -> Result<(), Failure> {
    run("cargo", &[&["test", "--quiet", "--no-fail-fast"], TESTS.as_slice()].concat())?;
    // Unit tests that need redis-server, which `cargo test` must do without.
    run("cargo", &["test", "--quiet", "--workspace", "--lib", "--", "--ignored", "with_redis"])?;
    run("cargo", &["test", "--quiet", "--workspace", "--doc"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_budget() {
        let budget = budget();
        assert_eq!(budget.len(), STEPS.len());
        assert!(STEPS.iter().all(|(name, _)| budget.contains_key(name)));
    }
}
