//! The laws, listed once, each in the file of its name. Each takes a case and says what is broken, if anything.
//! `oracle.rs` is what the law `agreement` compares the kernel with.

mod agreement;
mod all_or_none;
mod asking;
mod bound;
mod clock;
mod extremes;
mod forgetting;
mod identity;
mod long_logs;
mod monotone;
mod oracle;
mod promise;
mod quiet_denial;
mod refund;
mod size;
mod stored;
mod windows;

use crate::case::{Case, CaseNeeds};
use crate::walk::Verdict;

pub(crate) struct Law {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) needs: CaseNeeds,
    pub(crate) check: fn(&Case) -> Verdict,
}

const PLAIN: CaseNeeds = CaseNeeds { back: false, refunds: false, changes: false, tiny: false };

pub(crate) const LAWS: &[Law] = &[
    Law {
        name: "bound",
        says: "no interval admits more than its limits promise, refunds and clocks set back included",
        needs: CaseNeeds { back: true, refunds: true, ..PLAIN },
        check: bound::check,
    },
    Law {
        name: "promise",
        says: "a wait is exact: refused until then, allowed then",
        needs: CaseNeeds { back: true, refunds: true, changes: true, ..PLAIN },
        check: promise::check,
    },
    Law {
        name: "quiet denial",
        says: "a refusal outside uniform mode, and a peek, change nothing but a clock",
        needs: CaseNeeds { back: true, refunds: true, changes: true, ..PLAIN },
        check: quiet_denial::check,
    },
    Law {
        name: "forgetting",
        says: "at its expiry a state and no state decide alike",
        needs: CaseNeeds { back: true, refunds: true, ..PLAIN },
        check: forgetting::check,
    },
    Law {
        name: "monotone",
        says: "waiting never lowers what remains",
        needs: CaseNeeds { back: true, refunds: true, changes: true, ..PLAIN },
        check: monotone::check,
    },
    Law {
        name: "clock",
        says: "a clock set back admits nothing sooner, and adds at most one window or refill to a wait",
        needs: CaseNeeds { back: true, changes: true, ..PLAIN },
        check: clock::check,
    },
    Law {
        name: "all or none",
        says: "every limit of a policy is charged as if it were alone, or none is",
        needs: CaseNeeds { refunds: true, ..PLAIN },
        check: all_or_none::check,
    },
    Law {
        name: "identity",
        says: "a changed count keeps what was consumed, an added limit leaves the others alone",
        needs: CaseNeeds { changes: true, ..PLAIN },
        check: identity::check,
    },
    Law {
        name: "asking",
        says: "what charges nothing, or another limit, changes no decision",
        needs: CaseNeeds { refunds: true, changes: true, ..PLAIN },
        check: asking::check,
    },
    Law {
        name: "agreement",
        says: "the kernel decides as a list of events and plain arithmetic do",
        needs: CaseNeeds { changes: true, tiny: true, ..PLAIN },
        check: agreement::check,
    },
    Law {
        name: "refund",
        says: "a refund gives back what is still held of its charge, no more and no less",
        needs: CaseNeeds { refunds: true, ..PLAIN },
        check: refund::check,
    },
    Law {
        name: "long logs",
        says: "a log of thousands of events counts as a plain queue does",
        needs: PLAIN,
        check: long_logs::check,
    },
    Law {
        name: "extremes",
        says: "at the ends of every range nothing panics, wraps or goes negative",
        needs: PLAIN,
        check: extremes::check,
    },
    Law {
        name: "size",
        says: "no mode and no input grows a state beyond its bound",
        needs: CaseNeeds { refunds: true, back: true, ..PLAIN },
        check: size::check,
    },
    Law {
        name: "stored",
        says: "a state that was packed, written or thinned decides as it did, or admits less",
        needs: CaseNeeds { refunds: true, back: true, changes: true, ..PLAIN },
        check: stored::check,
    },
    Law {
        name: "windows",
        says: "windows on one log count the events that are held, and keep to their own limits",
        needs: PLAIN,
        check: windows::check,
    },
];
