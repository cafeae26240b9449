//! The laws, listed once. Each takes a case and says what is broken, if anything.

mod agreement;
mod asking;
mod bound;
mod clock;
mod extremes;
mod forgetting;
mod identity;
mod long;
mod monotone;
mod oracle;
mod promise;
mod quiet;
mod refund;
mod size;
mod stored;
mod together;

use crate::case::{Case, Wants};
use crate::walk::Verdict;

pub(crate) struct Law {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) wants: Wants,
    pub(crate) check: fn(&Case) -> Verdict,
}

const PLAIN: Wants = Wants { back: false, refunds: false, changes: false, tiny: false };

pub(crate) const LAWS: &[Law] = &[
    Law {
        name: "bound",
        says: "no interval admits more than its limits promise, refunds and clocks set back included",
        wants: Wants { back: true, refunds: true, ..PLAIN },
        check: bound::check,
    },
    Law {
        name: "promise",
        says: "a wait is exact: refused until then, allowed then",
        wants: Wants { back: true, refunds: true, changes: true, ..PLAIN },
        check: promise::check,
    },
    Law {
        name: "quiet denial",
        says: "a refusal outside uniform mode, and a peek, change nothing but a clock",
        wants: Wants { back: true, refunds: true, changes: true, ..PLAIN },
        check: quiet::check,
    },
    Law {
        name: "forgetting",
        says: "at its expiry a state and no state decide alike",
        wants: Wants { back: true, refunds: true, ..PLAIN },
        check: forgetting::check,
    },
    Law {
        name: "monotone",
        says: "waiting never lowers what remains",
        wants: Wants { back: true, refunds: true, changes: true, ..PLAIN },
        check: monotone::check,
    },
    Law {
        name: "clock",
        says: "a clock set back admits nothing sooner, and adds at most one window or refill to a wait",
        wants: Wants { back: true, ..PLAIN },
        check: clock::check,
    },
    Law {
        name: "all or none",
        says: "every limit of a policy is charged as if it were alone, or none is",
        wants: Wants { refunds: true, ..PLAIN },
        check: together::check,
    },
    Law {
        name: "identity",
        says: "a changed count keeps what was consumed, an added limit leaves the others alone",
        wants: Wants { changes: true, ..PLAIN },
        check: identity::check,
    },
    Law {
        name: "asking",
        says: "what charges nothing, or another limit, changes no decision",
        wants: Wants { refunds: true, changes: true, ..PLAIN },
        check: asking::check,
    },
    Law {
        name: "agreement",
        says: "the kernel decides as a list of events and plain arithmetic do",
        wants: Wants { changes: true, tiny: true, ..PLAIN },
        check: agreement::check,
    },
    Law {
        name: "refund",
        says: "a refund gives back what is still held of its charge, no more and no less",
        wants: Wants { refunds: true, ..PLAIN },
        check: refund::check,
    },
    Law {
        name: "long logs",
        says: "a log of thousands of events counts as a plain queue does",
        wants: PLAIN,
        check: long::check,
    },
    Law {
        name: "extremes",
        says: "at the ends of every range nothing panics, wraps or goes negative",
        wants: PLAIN,
        check: extremes::check,
    },
    Law {
        name: "size",
        says: "no mode and no input grows a state beyond its bound",
        wants: Wants { refunds: true, back: true, ..PLAIN },
        check: size::check,
    },
    Law {
        name: "stored",
        says: "a state that was packed, written or thinned decides as it did, or admits less",
        wants: Wants { refunds: true, back: true, changes: true, ..PLAIN },
        check: stored::check,
    },
];
