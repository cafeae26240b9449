//! Tests of policies with rules, as the engine decides them.
//!
//! | file | what it is |
//! |---|---|
//! | `lists.rs` | allow, deny, overrides, shadow: what is decided, and in which order |
//! | `bans.rs` | bans against a model of them |
//! | `candidate.rs` | flips against two kernels |
//! | `together.rs` | several keys, all or none |
//! | `keys.rs` | the keys of the other conventions: every change is in the journal |
//! | `stand_in.rs` | calls of dialects while the store does not answer |
//! | `changes.rs` | from one generation to the next: consumption, counters and visibility |

mod bans;
mod candidate;
mod changes;
mod keys;
mod lists;
mod stand_in;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_config::{Config, ConfigFormat};
use tollgate_kernel::{Cost, Mode, Request, Timestamp};
use tollgate_memory::{MIN_CAP, ManualClock, Memory};
use tollgate_random::Rng;

use crate::counts::{FLIPS, RULES};
use crate::{
    DetailLevel, Engine, EngineAnswer, EngineCheck, EngineQuestion, EngineVerdict, Home, QuestionPart, RecoveredState,
};
use tollgate_keyspace::Keyspace;
use tollgate_telemetry::log::ServerLog;

/// The time at which clocks begin: 2026-09-21T14:13:20Z.
pub(super) const START: u64 = 1_790_000_000_000_000;

pub(super) fn config(yaml: &str) -> Config {
    tollgate_config::read(yaml, ConfigFormat::Yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}")).config
}

/// An engine, and the clock it decides by.
pub(super) struct EngineFixture {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: ManualClock,
}

pub(super) fn tested(yaml: &str) -> EngineFixture {
    tested_with(yaml, RecoveredState::default())
}

pub(super) fn tested_with(yaml: &str, recovered: RecoveredState) -> EngineFixture {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let home = Home::embedded(Memory::with_clock(MIN_CAP, Box::new(clock.clone())), Box::new(clock.clone()));
    let (by, log) = (Box::new(clock.clone()), Arc::new(ServerLog::default()));
    let engine = Engine::new(home, Vec::new(), by, log, Keyspace::new(1 << 20));
    engine.begin(config(yaml), recovered).unwrap();
    EngineFixture { engine: Arc::new(engine), clock }
}

impl EngineFixture {
    /// Requests units of a policy, by name or text.
    pub(super) async fn ask(&self, policy: &str, key: &str, request: Request) -> EngineVerdict {
        let known = self.engine.policy(policy.as_bytes(), None).unwrap();
        let part = QuestionPart { known, key: key.into(), cost: request.cost };
        let ask = EngineCheck { part, mode: request.mode, peek: request.peek, detail: DetailLevel::Full };
        match self.engine.answer(&EngineQuestion::Check(ask)).await.unwrap() {
            EngineAnswer::Decided(verdict) => verdict,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn check(&self, policy: &str, key: &str) -> EngineVerdict {
        self.ask(policy, key, Request::ONE).await
    }

    pub(super) async fn check_cost(&self, policy: &str, key: &str, cost: u64) -> EngineVerdict {
        self.ask(policy, key, Request::cost(Cost::new(cost).unwrap())).await
    }

    pub(super) async fn peek(&self, policy: &str, key: &str) -> EngineVerdict {
        self.ask(policy, key, Request::ONE.peek()).await
    }

    pub(super) async fn reset(&self, policy: &str, key: &str) {
        let known = self.engine.policy(policy.as_bytes(), None).unwrap();
        let part = QuestionPart { known, key: key.into(), cost: Cost::ONE };
        self.engine.answer(&EngineQuestion::Reset(part)).await.unwrap();
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

/// Draws the mode of a request.
pub(super) fn mode(rng: &mut Rng) -> Option<Mode> {
    rng.pick(&[None, Some(Mode::Binary), Some(Mode::Nary), Some(Mode::Uniform)])
}
