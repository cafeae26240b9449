//! Instructions a request, as valgrind counts them in the part of a run that is requests and nothing else. Not from the
//! difference of two runs: governor's clock and ours begin by measuring the processor's for as long as they like, and
//! that is other millions of instructions each time.

use std::process::{Command, Stdio};

use crate::Failure;
use crate::contenders::{Case, Contender};
use crate::inside::How;

/// Requests that are counted. Each takes the same path, so more would tell no more.
const COUNTED: u64 = 10_000;
/// The same of a quick comparison.
const QUICK: u64 = 1_000;
/// The function whose instructions count, with all that it calls.
const FUNCTION: &str = "--toggle-collect=tower::inside::counted";

/// Instructions a request of one contender.
pub(crate) struct Count {
    pub(crate) how: How,
    pub(crate) case: Case,
    pub(crate) contender: &'static Contender,
    pub(crate) instructions: f64,
}

pub(crate) fn all(quick: bool) -> Result<Vec<Count>, Failure> {
    let there = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Err("valgrind counts the instructions: apt-get install valgrind (or --only sockets)".into());
    }
    let requests = if quick { QUICK } else { COUNTED };
    let mut counts = Vec::new();
    for how in How::ALL {
        for case in Case::ALL {
            for contender in case.contenders() {
                let instructions = counted(how, contender, case, requests)? as f64 / requests as f64;
                counts.push(Count { how, case, contender, instructions });
            }
        }
    }
    Ok(counts)
}

fn counted(how: How, contender: &Contender, case: Case, requests: u64) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=no", FUNCTION, "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["run", how.name(), contender.name, case.name(), &requests.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let refs = said.lines().find(|line| line.contains("Collected :")).and_then(|line| line.split_whitespace().last());
    let refs = refs.filter(|_| output.status.success()).and_then(|refs| refs.replace(',', "").parse().ok());
    refs.ok_or_else(|| format!("valgrind counted nothing: {said}").into())
}
