//! Tests of policies with rules, as the engine decides them.
//!
//! | file | what it is |
//! |---|---|
//! | `lists.rs` | allow, deny, overrides, shadow: what is decided, and in which order |
//! | `bans.rs` | bans against a model of them |
//! | `candidate.rs` | flips against two kernels |
//! | `together.rs` | several keys, all or none |
//! | `changes.rs` | from one generation to the next: consumption, counters and visibility |

mod bans;
mod candidate;
mod changes;
mod lists;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_config::{Config, Format};
use tollgate_kernel::{Cost, Mode, Request, Timestamp};
use tollgate_memory::{MIN_CAP, Manual, Memory};

use crate::counts::{FLIPS, RULES};
use crate::{Answer, Ask, Engine, Home, Part, Question, Recovered, Tells, Verdict};
use tollgate_keyspace::Keys;
use tollgate_telemetry::log::Log;

/// The time at which clocks begin: 2026-09-21T14:13:20Z.
pub(super) const START: u64 = 1_790_000_000_000_000;

pub(super) fn config(yaml: &str) -> Config {
    tollgate_config::read(yaml, Format::Yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}")).config
}

/// An engine, and the clock it decides by.
pub(super) struct Tested {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: Manual,
}

pub(super) fn tested(yaml: &str) -> Tested {
    tested_with(yaml, Recovered::default())
}

pub(super) fn tested_with(yaml: &str, recovered: Recovered) -> Tested {
    let clock = Manual::at(Timestamp::new(START).unwrap());
    let home = Home::embedded(Memory::with_clock(MIN_CAP, Box::new(clock.clone())), Box::new(clock.clone()));
    let (by, log) = (Box::new(clock.clone()), Arc::new(Log::default()));
    let engine = Engine::new(home, Vec::new(), by, log, Keys::new(1 << 20));
    engine.begin(config(yaml), recovered).unwrap();
    Tested { engine: Arc::new(engine), clock }
}

impl Tested {
    /// Requests units of a policy, by name or text.
    pub(super) async fn ask(&self, policy: &str, key: &str, request: Request) -> Verdict {
        let known = self.engine.policy(policy.as_bytes(), None).unwrap();
        let part = Part { known, key: key.into(), cost: request.cost };
        let ask = Ask { part, mode: request.mode, peek: request.peek, tells: Tells::Full };
        match self.engine.answer(&Question::Check(ask)).await.unwrap() {
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
        let known = self.engine.policy(policy.as_bytes(), None).unwrap();
        let part = Part { known, key: key.into(), cost: Cost::ONE };
        self.engine.answer(&Question::Reset(part)).await.unwrap();
    }

    /// Returns the value of the metric with this name; zero if there is none.
    pub(super) fn metric(&self, id: &str) -> f64 {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let mut found = vec![("tollgate_banned_keys".to_owned(), self.engine.banned() as f64)];
        self.engine.counts.each(|tally, limits| {
            let mut put = |name: &str, label: &str, value: &str, count: f64| {
                let more = if label.is_empty() { String::new() } else { format!(",{label}=\"{value}\"") };
                found.push((format!("tollgate_{name}_total{{policy=\"{}\"{more}}}", tally.label), count));
            };
            put("decisions", "decision", "allowed", read(&tally.allowed));
            put("decisions", "decision", "denied", read(&tally.denied));
            put("bans", "", "", read(&tally.bans));
            limits.iter().for_each(|limit| put("denied", "limit", &limit.name, read(&limit.count)));
            let rules = RULES.iter().zip(&tally.rules);
            rules.for_each(|(rule, count)| put("rule_decisions", "rule", rule.name(), read(count)));
            let flips = FLIPS.iter().zip(&tally.flips);
            flips.for_each(|(flip, count)| put("candidate_flips", "flip", flip, read(count)));
        });
        found.into_iter().find(|(name, _)| name == id).map_or(0.0, |(_, count)| count)
    }
}

/// A small deterministic generator of numbers.
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
