//! Policies with rules, as the desk decides them.
//!
//! | file | what it is |
//! |---|---|
//! | `lists.rs` | allow, deny, overrides, shadow: what is decided, and in which order |
//! | `bans.rs` | bans against a model of them |
//! | `candidate.rs` | flips against two kernels |
//! | `together.rs` | several keys, all or none |
//! | `changes.rs` | from one generation to the next: what was consumed, and who sees what |

mod bans;
mod candidate;
mod changes;
mod lists;
mod together;

use std::sync::Arc;

use tollgate_config::{Config, Format};
use tollgate_core::{Cost, Mode, Request, Timestamp};
use tollgate_memory::{LEAST_CAP, Manual, Memory};

use crate::desk::{Answer, Ask, Desk, Home, Part, Question, Recovered, Tells, Verdict};
use crate::keys::Keys;
use crate::log::Log;

/// When clocks begin: 2026-09-21T14:13:20Z.
pub(super) const START: u64 = 1_790_000_000_000_000;

pub(super) fn config(yaml: &str) -> Config {
    tollgate_config::read(yaml, Format::Yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}")).config
}

/// A desk, and the clock it decides by.
pub(super) struct Tested {
    pub(super) desk: Arc<Desk>,
    pub(super) clock: Manual,
}

pub(super) fn tested(yaml: &str) -> Tested {
    tested_with(yaml, Recovered::default())
}

pub(super) fn tested_with(yaml: &str, recovered: Recovered) -> Tested {
    let clock = Manual::at(Timestamp::new(START).unwrap());
    let home = Home::embedded(Memory::with_clock(LEAST_CAP, Box::new(clock.clone())), Box::new(clock.clone()));
    let (by, log) = (Box::new(clock.clone()), Arc::new(Log::default()));
    let desk = Desk::new(home, Vec::new(), Arc::default(), by, log, Keys::new(1 << 20));
    desk.begin(config(yaml), recovered).unwrap();
    Tested { desk: Arc::new(desk), clock }
}

impl Tested {
    /// Asks for units of a policy, by name or text.
    pub(super) async fn ask(&self, policy: &str, key: &str, request: Request) -> Verdict {
        let known = self.desk.policy(policy.as_bytes(), None).unwrap();
        let part = Part { known, key: key.into(), cost: request.cost };
        let ask = Ask { part, mode: request.mode, peek: request.peek, tells: Tells::Full };
        match self.desk.answer(&Question::Check(ask)).await.unwrap() {
            Answer::Decided(verdict) => verdict,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn check(&self, policy: &str, key: &str) -> Verdict {
        self.ask(policy, key, Request::ONE).await
    }

    pub(super) async fn check_cost(&self, policy: &str, key: &str, cost: u64) -> Verdict {
        self.ask(policy, key, Request::cost(Cost::new(cost).unwrap())).await
    }

    pub(super) async fn peek(&self, policy: &str, key: &str) -> Verdict {
        self.ask(policy, key, Request::ONE.peek()).await
    }

    pub(super) async fn reset(&self, policy: &str, key: &str) {
        let known = self.desk.policy(policy.as_bytes(), None).unwrap();
        let part = Part { known, key: key.into(), cost: Cost::ONE };
        self.desk.answer(&Question::Reset(part)).await.unwrap();
    }

    /// A value of the metrics; zero if it is not told.
    pub(super) fn metric(&self, id: &str) -> f64 {
        let text = crate::metrics::plain(&crate::metrics::exposition(&self.desk).unwrap()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(id)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

/// A small generator of numbers, the same in every run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn mode(&mut self) -> Option<Mode> {
        [None, Some(Mode::Binary), Some(Mode::Nary), Some(Mode::Uniform)][self.below(4) as usize]
    }
}
