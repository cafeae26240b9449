//! The names of the files, and the kind of each.
//!
//! `journal-0000000012`, `snapshot-0000000012`: numbers count up. `*.new` is being written, `*.damaged` was moved out
//! of the way by a repair, `newest` contains the newest journal's number, `lock` is held by the single writer, as is
//! the directory itself.

use std::path::{Path, PathBuf};

/// The file held by the single writer.
pub(crate) const LOCK: &str = "lock";
/// The file that contains the number of the newest journal.
pub(crate) const NEWEST: &str = "newest";
/// The ending of files that are being written.
pub(crate) const NEW: &str = ".new";
/// The ending of files that a repair moved out of the way.
pub(crate) const DAMAGED: &str = ".damaged";

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileRole {
    Journal(u64),
    Snapshot(u64),
    Lock,
    Newest,
    /// Left by a write that was not finished.
    Unfinished,
    /// Left by a repair.
    Damaged,
    Foreign,
}

impl FileRole {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            LOCK => return Self::Lock,
            NEWEST => return Self::Newest,
            _ => {}
        }
        if let Some(stem) = name.strip_suffix(NEW) {
            let ours = !matches!(Self::of(stem), Self::Foreign | Self::Unfinished | Self::Lock);
            return if ours { Self::Unfinished } else { Self::Foreign };
        }
        if let Some(stem) = name.strip_suffix(DAMAGED) {
            // A second file of the same name has a count: journal-0000000012.2.damaged.
            let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
            let ours = matches!(Self::of(stem), Self::Journal(_) | Self::Snapshot(_) | Self::Newest);
            return if ours { Self::Damaged } else { Self::Foreign };
        }
        if let Some(number) = name.strip_prefix("journal-").and_then(number) {
            return Self::Journal(number);
        }
        name.strip_prefix("snapshot-").and_then(number).map_or(Self::Foreign, Self::Snapshot)
    }
}

pub(crate) fn journal(number: u64) -> String {
    format!("journal-{number:010}")
}

pub(crate) fn snapshot(number: u64) -> String {
    format!("snapshot-{number:010}")
}

pub(crate) fn new(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{NEW}"))
}

/// Parses ten digits or more, without unnecessary leading zeros, so that a number has only one name.
fn number(digits: &str) -> Option<u64> {
    let plain = digits.len() == 10 || (digits.len() > 10 && !digits.starts_with('0'));
    if !plain || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // The largest number is reserved, so that there is always a next one.
    digits.parse().ok().filter(|number| (1..u64::MAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::{FileRole, journal, snapshot};

    #[test]
    fn names_say_what_a_file_is() {
        let rows = [
            ("journal-0000000012", FileRole::Journal(12)),
            ("snapshot-0000000001", FileRole::Snapshot(1)),
            ("snapshot-12345678901", FileRole::Snapshot(12_345_678_901)),
            ("journal-012345678901", FileRole::Foreign),
            ("journal-0000000000", FileRole::Foreign),
            ("journal-18446744073709551615", FileRole::Foreign),
            ("journal-99999999999999999999", FileRole::Foreign),
            ("journal-12", FileRole::Foreign),
            ("journal-00000000+1", FileRole::Foreign),
            ("journal-0000000012.new", FileRole::Unfinished),
            ("newest.new", FileRole::Unfinished),
            ("notes.new", FileRole::Foreign),
            ("journal-0000000012.damaged", FileRole::Damaged),
            ("journal-0000000012.2.damaged", FileRole::Damaged),
            ("journal-0000000012.damaged.new", FileRole::Unfinished),
            ("notes.damaged", FileRole::Foreign),
            ("lock", FileRole::Lock),
            ("newest", FileRole::Newest),
            ("", FileRole::Foreign),
        ];
        for (name, is) in rows {
            assert_eq!(FileRole::of(name), is, "{name}");
        }
        assert_eq!(journal(7), "journal-0000000007");
        assert_eq!(FileRole::of(&snapshot(u64::MAX - 1)), FileRole::Snapshot(u64::MAX - 1));
    }
}
