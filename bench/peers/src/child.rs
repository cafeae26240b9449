//! A measurement in a process of its own: this program again, which prints `NAME NUMBER` lines.

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, Stdio};

use crate::contenders::Contender;

/// What one contender showed with so many keys.
pub(crate) struct Figures {
    pub(crate) contender: &'static Contender,
    pub(crate) keys: u64,
    numbers: BTreeMap<String, f64>,
}

impl Figures {
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.numbers.get(name).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&String, &f64)> {
        self.numbers.iter()
    }
}

pub(crate) fn run(command: &str, contender: &'static Contender, keys: u64) -> Result<Figures, String> {
    let failed = |why: String| format!("{command} {} {keys}: {why}", contender.name);
    let output = env::current_exe()
        .and_then(|program| {
            Command::new(program).args([command, contender.name, &keys.to_string()]).stderr(Stdio::inherit()).output()
        })
        .map_err(|problem| failed(problem.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers = said.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Ok(Figures { contender, keys, numbers: numbers.collect() })
}
