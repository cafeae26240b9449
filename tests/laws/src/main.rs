//! `laws`: the laws of the kernel as property tests over the algorithm registry, and random texts
//! into the policy parser.
//!
//! Every law runs on random cases for every listed algorithm, so a new algorithm is tested by being
//! listed. A case is made from its seed alone; a failure prints the law, the algorithm, the seed
//! and the smallest case found that still fails.

mod case;
mod fuzz;
mod laws;
mod walk;

use std::process::ExitCode;

use case::Case;
use laws::{LAWS, Law};
use tollgate_kernel::algorithms::{ALGORITHMS, AlgorithmInfo};

/// The seed of the first case, unless another is asked for.
const SEED: u64 = 1;

fn main() -> ExitCode {
    let mut cases = 1_000;
    let mut seed = SEED;
    let mut only = None;
    let mut fuzz = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        let number = value.replace('_', "").parse::<u64>().ok();
        match (word.as_str(), number) {
            ("--cases", Some(number)) => cases = number,
            ("--seed", Some(number)) => seed = number,
            ("--fuzz", Some(number)) => fuzz = Some(number),
            ("--law", _) if LAWS.iter().any(|law| law.name == value) => only = Some(value),
            _ => {
                eprintln!("usage: laws [--cases N] [--seed N] [--law NAME] | laws --fuzz N [--seed N]\n\nLaws:");
                for law in LAWS {
                    eprintln!("  {:<13} {}", law.name, law.says);
                }
                return ExitCode::from(2);
            }
        }
    }
    if let Some(cases) = fuzz {
        return match fuzz::policies(seed, cases) {
            Ok(tried) => {
                println!("{cases} texts into the policy parser: {} taken, {} refused", tried.taken, tried.refused);
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("seed {seed}: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    for law in LAWS.iter().filter(|law| only.as_ref().is_none_or(|only| only == law.name)) {
        for listed in ALGORITHMS {
            if let Err(failure) = run(law, listed, seed, cases) {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
        println!("{:<13} {} cases for each of {} algorithms", law.name, cases, ALGORITHMS.len());
    }
    ExitCode::SUCCESS
}

/// Runs `cases` cases from `seed` on; tells of the first that fails, made small.
fn run(law: &Law, listed: &AlgorithmInfo, seed: u64, cases: u64) -> Result<(), String> {
    for seed in seed..seed + cases {
        let case = Case::random(listed, seed, law.needs);
        if let Err(reason) = (law.check)(&case) {
            let (case, reason) = shrink(law, case, reason);
            return Err(format!(
                "{} is broken by {} (seed {seed}): {reason}\nlaw: {}\nstart {}\npolicies {:?}\n{}",
                law.name,
                listed.name,
                law.says,
                case.start,
                case.stages.iter().map(|stage| format!("{stage} ({})", stage.mode().name())).collect::<Vec<_>>(),
                case.ops.iter().map(|op| format!("  {op:?}\n")).collect::<String>()
            ));
        }
    }
    Ok(())
}

fn shrink(law: &Law, mut case: Case, mut reason: String) -> (Case, String) {
    for _ in 0..40 {
        let smaller = case.smaller().into_iter().find_map(|smaller| {
            let reason = (law.check)(&smaller).err()?;
            Some((smaller, reason))
        });
        match smaller {
            Some(found) => (case, reason) = found,
            None => break,
        }
    }
    (case, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases of each law for each algorithm in the test command.
    const CASES: u64 = 10_000;

    fn holds(name: &str) {
        let law = LAWS.iter().find(|law| law.name == name).expect("listed");
        for listed in ALGORITHMS {
            if let Err(failure) = run(law, listed, SEED, CASES) {
                panic!("{failure}");
            }
        }
    }

    macro_rules! laws {
        ($($test:ident: $name:literal,)+) => {
            $(#[test] fn $test() { holds($name); })+

            #[test]
            fn every_law_has_its_test() {
                let tested = [$($name),+];
                assert_eq!(LAWS.iter().map(|law| law.name).collect::<Vec<_>>(), tested);
            }
        };
    }

    #[test]
    fn no_text_panics_the_policy_parser() {
        let tried = fuzz::policies(SEED, 200_000).unwrap();
        assert!(tried.taken > 2_000 && tried.refused > 2_000, "both kinds are tried");
    }

    laws! {
        bound: "bound",
        promise: "promise",
        quiet_denial: "quiet denial",
        forgetting: "forgetting",
        monotone: "monotone",
        clock: "clock",
        all_or_none: "all or none",
        identity: "identity",
        asking: "asking",
        agreement: "agreement",
        refund: "refund",
        long_logs: "long logs",
        extremes: "extremes",
        size: "size",
        stored: "stored",
        windows: "windows",
    }
}
