//! Runs the program as a person would.

use std::process::Command;

/// Runs a short form of a campaign; it must break no promise. Answers what it said.
pub(crate) fn torture(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_torture")).args(words).env("TOLLGATE_UNTIMED", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{said}{complained}", output.status);
    assert!(said.contains("no promise was broken (seed "), "{said}");
    println!("{said}");
    said
}
