//! The policies, and how each changes. Periods are so long that nothing comes back within a campaign.

use std::fmt::Write;

/// A policy of the file.
pub(super) struct Policy {
    pub(super) name: &'static str,
    /// Its texts in turn, of which an empty one leaves it out of the file.
    texts: &'static [&'static str],
    /// Its text at the end, which has room for all that was ever admitted.
    last: &'static str,
    /// The most that any of its texts admits.
    pub(super) most: u64,
    /// What its first limit holds at the end.
    pub(super) holds: u64,
}

impl Policy {
    /// Whether its text stays the same all the time: then it admits all of it, and no more.
    pub(super) fn is_steady(&self) -> bool {
        self.texts.len() == 1
    }

    /// Whether it is in every file.
    pub(super) fn is_always_there(&self) -> bool {
        !self.texts.contains(&"")
    }

    fn text(&self, turn: u64) -> &'static str {
        self.texts[(turn % self.texts.len() as u64) as usize]
    }
}

const fn steady(name: &'static str, text: &'static [&'static str; 1], most: u64, holds: u64) -> Policy {
    Policy { name, texts: text, last: text[0], most, holds }
}

/// All of them.
pub(super) static POLICIES: &[Policy] = &[
    steady("steady-fixed", &["700/366d fixed"], 700, 700),
    steady("steady-sliding", &["600/366d"], 600, 600),
    steady("steady-gcra", &["500/366d gcra"], 500, 500),
    steady("steady-bucket", &["900/366d bucket burst=450"], 450, 900),
    steady("steady-two", &["800/366d fixed, 550/365d"], 550, 800),
    Policy {
        name: "swing-fixed",
        texts: &["300/366d fixed", "600/366d fixed"],
        last: "100k/366d fixed",
        most: 600,
        holds: 100_000,
    },
    Policy { name: "swing-sliding", texts: &["300/366d", "600/366d"], last: "100k/366d", most: 600, holds: 100_000 },
    Policy {
        name: "swing-gcra",
        texts: &["300/366d gcra", "600/366d gcra", "450/366d gcra"],
        last: "5000/366d gcra",
        most: 600,
        holds: 5_000,
    },
    Policy {
        name: "swing-bucket",
        texts: &["900/366d bucket burst=300", "1000/366d bucket burst=500"],
        last: "100k/366d bucket burst=500",
        most: 500,
        holds: 100_000,
    },
    Policy {
        name: "swing-slots",
        texts: &["300/366d slots resolution=1d", "600/366d slots resolution=1d"],
        last: "100k/366d slots resolution=1d",
        most: 600,
        holds: 100_000,
    },
    Policy {
        name: "swing-estimate",
        texts: &["300/366d estimate", "600/366d estimate"],
        last: "100k/366d estimate",
        most: 600,
        holds: 100_000,
    },
    Policy {
        name: "grows-fixed",
        texts: &["500/366d fixed", "500/366d fixed, 200/365d gcra"],
        last: "500/366d fixed",
        most: 500,
        holds: 500,
    },
    Policy {
        name: "grows-sliding",
        texts: &["500/366d, 400/365d fixed", "500/366d", "500/366d, 300/364d"],
        last: "500/366d",
        most: 500,
        holds: 500,
    },
    Policy {
        name: "comes-and-goes",
        texts: &["400/366d fixed", "", "500/366d fixed"],
        last: "500/366d fixed",
        most: 500,
        holds: 500,
    },
    Policy {
        name: "comes-seldom",
        texts: &["", "", "400/366d gcra", ""],
        last: "400/366d gcra",
        most: 400,
        holds: 400,
    },
];

/// The file of a turn; its number is in it, so that no two are the same.
pub(super) fn file(turn: u64, number: u64) -> String {
    write(number, |policy| policy.text(turn))
}

/// The file at the end.
pub(super) fn last(number: u64) -> String {
    write(number, |policy| policy.last)
}

fn write(number: u64, text: impl Fn(&Policy) -> &'static str) -> String {
    let mut file =
        format!("# change {number}\npolicies:\n  counter:\n    limit: \"1/d\"\n    note: \"change {number}\"\n");
    for policy in POLICIES {
        match text(policy) {
            "" => {}
            text => drop(writeln!(file, "  {}: \"{text}\"", policy.name)),
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_differ_and_what_is_always_there_is_there() {
        let files: std::collections::BTreeSet<String> = (0..12).map(|number| file(number / 2, number)).collect();
        assert_eq!(files.len(), 12);
        for file in files.iter().chain([&last(12)]) {
            for policy in POLICIES.iter().filter(|policy| policy.is_always_there()) {
                assert!(file.contains(&format!("\n  {}: \"", policy.name)), "{file}");
            }
        }
        assert!(!file(1, 1).contains("comes-and-goes"));
    }
}
