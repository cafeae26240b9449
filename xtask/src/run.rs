//! Running commands, and saying which one failed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a task failed, for people.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Runs a command in the root, showing what it prints.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<(), Failure> {
    run_with(program, args, &[])
}

/// The same with variables of its environment set.
pub(crate) fn run_with(program: &str, args: &[&str], set: &[(&str, &str)]) -> Result<(), Failure> {
    println!("\n== {program} {}", args.join(" "));
    let status = Command::new(program).args(args).envs(set.iter().copied()).current_dir(root()).status()?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{program} {} failed", args.join(" ")))) }
}

/// Runs a command in the root and takes what it prints.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(args).current_dir(root()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure(format!("{program} {} failed: {said}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
