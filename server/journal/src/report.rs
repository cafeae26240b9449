//! The report of a start, in words.

use std::fmt;

/// The report of a start: one line for each fact.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecoveryReport {
    pub(crate) facts: Vec<String>,
    pub(crate) records: u64,
    pub(crate) snapshot: Option<u64>,
    pub(crate) lost: bool,
    pub(crate) clean: bool,
}

impl RecoveryReport {
    /// Returns the facts, one line each.
    pub fn facts(&self) -> &[String] {
        &self.facts
    }

    /// Returns the number of records after the snapshot.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of the snapshot that the state begins with.
    pub fn snapshot(&self) -> Option<u64> {
        self.snapshot
    }

    /// Returns whether something was found that could not be kept, so that the state may not be the latest.
    pub fn is_cut(&self) -> bool {
        self.lost
    }

    /// Returns whether the last writer stopped cleanly, or there never was one.
    pub fn is_clean(&self) -> bool {
        self.clean
    }

    pub(crate) fn push(&mut self, fact: String) {
        self.facts.push(fact);
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fact) in self.facts.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(fact)?;
        }
        Ok(())
    }
}

/// Formats a count with commas between its thousands.
pub(crate) fn counted(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_told_apart() {
        for (count, told) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(super::counted(count), told);
        }
    }
}
