//! The kinds of keys: how each is charged, what its replies tell, and how it is read afterwards.
//!
//! Periods are as long as there are, and the callers of conventions that give the time give one and the same: in
//! a campaign nothing comes back by itself, so what is used is a whole number that only requests change.

use super::history::{Capacity, OverflowRule};
use crate::serving::Reply;

/// A way to ask for keys of a kind.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) capacity: Capacity,
    pub(crate) command: ChargeCommand,
    pub(crate) undo: UndoSupport,
}

/// How a key is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChargeCommand {
    /// `TG.CHECK`, with what each limit holds.
    Check { policy: &'static str, holds: &'static [u64] },
    /// `TG.CHECKALL` of two keys, one for each policy.
    Both { policies: [&'static str; 2], holds: [u64; 2] },
    /// Another command, with `KEY` and `N` in it.
    Other { charge: &'static [&'static str], used: fn(&Reply) -> Option<u64>, method: ReadMethod },
}

/// How a key of another convention is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadMethod {
    /// By a command that charges nothing; a key that is not there is nil.
    Command(&'static [&'static str], fn(&Reply) -> Option<u64>),
    /// By charging one more.
    OneCharge,
    /// By limits that rise until one more passes: `N` is the limit.
    RisingLimits(&'static [&'static str]),
    /// By charging until it is refused, from which it does not come back; refused counts too.
    Filling,
}

/// How what a key used can be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoSupport {
    Nothing,
    /// `TG.RESET` or DEL.
    Reset,
    /// And `TG.REFUND`.
    Refund,
}

/// More than a key is asked for in a campaign.
const MILLION: u64 = 1_000_000;

const fn whole(most: u64) -> Capacity {
    Capacity { overflow: OverflowRule::Whole, most }
}

const fn check(name: &'static str, policy: &'static str, holds: &'static [u64], capacity: Capacity) -> Kind {
    Kind { name, capacity, command: ChargeCommand::Check { policy, holds }, undo: UndoSupport::Reset }
}

const fn refunding(kind: Kind) -> Kind {
    Kind { undo: UndoSupport::Refund, ..kind }
}

const fn other(
    name: &'static str,
    charge: &'static [&'static str],
    used: fn(&Reply) -> Option<u64>,
    method: ReadMethod,
    capacity: Capacity,
) -> Kind {
    Kind { name, capacity, command: ChargeCommand::Other { charge, used, method }, undo: UndoSupport::Nothing }
}

/// All kinds.
pub(crate) static KINDS: &[Kind] = &[
    refunding(check("fixed", "1M/366d fixed", &[MILLION], whole(MILLION))),
    refunding(check("sliding", "100k/366d", &[100_000], whole(100_000))),
    check("gcra", "1000/366d gcra burst=10000", &[10_000], whole(10_000)),
    check("bucket", "20k/366d bucket burst=10000", &[20_000], whole(10_000)),
    check("slots", "1M/366d slots resolution=1d", &[MILLION], whole(MILLION)),
    check("estimate", "1M/366d estimate", &[MILLION], whole(MILLION)),
    check("soon-full", "40/366d gcra", &[40], whole(40)),
    check("two-limits", "1M/366d fixed, 1000/365d gcra burst=9000", &[MILLION, 9_000], whole(9_000)),
    check("two-windows", "9000/366d, 5000/365d", &[9_000, 5_000], whole(5_000)),
    check("uniform", "20/366d fixed", &[20], Capacity { overflow: OverflowRule::Anyway, most: 20 }),
    check("nary", "300/366d slots resolution=2d", &[300], Capacity { overflow: OverflowRule::Part, most: 300 }),
    Kind {
        name: "check-all",
        capacity: whole(MILLION),
        command: ChargeCommand::Both {
            policies: ["1M/364d fixed", "1M/363d slots resolution=1d"],
            holds: [MILLION; 2],
        },
        undo: UndoSupport::Nothing,
    },
    Kind {
        undo: UndoSupport::Reset,
        ..other(
            "CL.THROTTLE",
            &["CL.THROTTLE", "KEY", "9999", "1000", "31622400", "N"],
            |reply| left(10_000, reply.at(2)),
            ReadMethod::Command(&["CL.THROTTLE", "KEY", "9999", "1000", "31622400", "0"], |reply| {
                left(10_000, reply.at(2))
            }),
            whole(10_000),
        )
    },
    Kind {
        undo: UndoSupport::Reset,
        ..other(
            "fixed_window",
            &["FCALL", "fixed_window", "1", "KEY", "1000000", "31622400"],
            |reply| left(MILLION, reply.at(1).at(2)),
            ReadMethod::OneCharge,
            whole(MILLION),
        )
    },
    other(
        "token_bucket",
        &["FCALL", "token_bucket", "1", "KEY", "1000000", "31622400", "900000"],
        |reply| left(MILLION, reply.at(1).at(2)),
        ReadMethod::OneCharge,
        whole(900_000),
    ),
    other(
        "sliding_window",
        &["FCALL", "sliding_window", "1", "KEY", "31622400000", "1000000"],
        |_| None,
        ReadMethod::RisingLimits(&["FCALL", "sliding_window", "1", "KEY", "31622400000", "N"]),
        whole(MILLION),
    ),
    other(
        "slot_window",
        &["FCALL", "slot_window", "1", "KEY", "N", "ns", "[[1000000,31536000,86400]]", "1790000000", "0"],
        |_| None,
        ReadMethod::Filling,
        whole(MILLION),
    ),
    other(
        "ar1",
        &["FCALL", "ar1", "1", "KEY", "N", "ns", "[[1000000,2,2592000]]", "1790000000", "0"],
        |_| None,
        ReadMethod::Filling,
        whole(MILLION),
    ),
    other(
        "rolling",
        &["FCALL", "rolling", "1", "KEY", "1", "N", "1790000000000000", "0", "1000000", "31622400000", "1000"],
        |reply| left(MILLION, reply.at(0)),
        ReadMethod::OneCharge,
        whole(MILLION),
    ),
    other(
        "api_counter",
        &["FCALL", "api_counter", "1", "{api:KEY}", "1000000"],
        |reply| reply.at(4).int()?.try_into().ok(),
        ReadMethod::OneCharge,
        whole(MILLION),
    ),
    Kind {
        undo: UndoSupport::Reset,
        ..other(
            "INCRBY",
            &["INCRBY", "KEY", "N"],
            |reply| reply.int()?.try_into().ok(),
            ReadMethod::Command(&["GET", "KEY"], |reply| {
                if *reply == Reply::Nil { Some(0) } else { reply.int()?.try_into().ok() }
            }),
            whole(u64::MAX),
        )
    },
];

/// What is used if so much is left of a whole.
fn left(whole: u64, reply: &Reply) -> Option<u64> {
    whole.checked_add_signed(reply.int()?.checked_neg()?)
}

impl Kind {
    /// Whether a request may ask for more than one unit.
    pub(crate) fn takes_units(&self) -> bool {
        match self.command {
            ChargeCommand::Other { charge, .. } => charge.contains(&"N"),
            ChargeCommand::Check { .. } | ChargeCommand::Both { .. } => true,
        }
    }

    /// Whether it is read without a charge.
    pub(crate) fn is_read_plainly(&self) -> bool {
        match self.command {
            ChargeCommand::Other { method, .. } => matches!(method, ReadMethod::Command(..)),
            ChargeCommand::Check { .. } | ChargeCommand::Both { .. } => true,
        }
    }

    /// A request for so many units.
    pub(crate) fn charge(&self, key: &str, units: u64) -> Vec<String> {
        let units = units.to_string();
        match self.command {
            ChargeCommand::Check { policy, .. } => {
                let mode = match self.capacity.overflow {
                    OverflowRule::Whole => "binary",
                    OverflowRule::Part => "nary",
                    OverflowRule::Anyway => "uniform",
                };
                words(&["TG.CHECK", key, policy, "COST", &units, "MODE", mode, "REST"])
            }
            ChargeCommand::Both { policies: [one, other], .. } => {
                let [first, second] = both(key);
                words(&["TG.CHECKALL", &first, one, "COST", &units, "AND", &second, other, "COST", &units])
            }
            ChargeCommand::Other { charge, .. } => filled(charge, key, &units),
        }
    }

    /// What the key stands at after a request, if its reply tells it; and the moment of the charge. Wrong if it
    /// is no reply of the kind.
    pub(crate) fn told(&self, reply: &Reply) -> Result<(Option<u64>, Option<i64>), String> {
        if let Reply::Error(error) = reply {
            return Err(error.clone());
        }
        let wrong = || format!("expected a reply of {}, found {reply:?}", self.name);
        match self.command {
            ChargeCommand::Check { holds, .. } => {
                let least = holds.iter().min().copied().unwrap_or(0);
                let used = left(least, reply.at(2)).ok_or_else(wrong)?;
                Ok((Some(used), Some(reply.at(8).int().ok_or_else(wrong)?)))
            }
            ChargeCommand::Both { .. } => reply.at(0).int().map(|_| (None, None)).ok_or_else(wrong),
            ChargeCommand::Other { used, .. } => Ok((used(reply), None)),
        }
    }

    /// Forgets what the key used.
    pub(crate) fn reset(&self, key: &str) -> Vec<String> {
        match self.command {
            ChargeCommand::Check { policy, .. } => words(&["TG.RESET", key, policy]),
            ChargeCommand::Both { .. } | ChargeCommand::Other { .. } => words(&["DEL", key]),
        }
    }

    /// Gives units back that were charged at a moment.
    pub(crate) fn refund(&self, key: &str, units: u64, at: i64) -> Vec<String> {
        match self.command {
            ChargeCommand::Check { policy, .. } => {
                words(&["TG.REFUND", key, policy, &units.to_string(), &at.to_string()])
            }
            ChargeCommand::Both { .. } | ChargeCommand::Other { .. } => Vec::new(),
        }
    }
}

/// The two keys of one that stands for both.
pub(super) fn both(key: &str) -> [String; 2] {
    [format!("{key}:a"), format!("{key}:b")]
}

/// Words with the key and a number in their places.
pub(super) fn filled(words: &[&str], key: &str, number: &str) -> Vec<String> {
    let fill = |word: &&str| match *word {
        "N" => number.to_owned(),
        word => word.replace("KEY", key),
    };
    words.iter().map(fill).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
