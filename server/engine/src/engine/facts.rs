//! The explanation of a decision.

use tollgate_config::Override;
use tollgate_kernel::{Micros, Timestamp};

use super::Engine;
use crate::policies::{BanRecord, EnginePolicy, Flips};
use crate::question::EngineVerdict;
use crate::rule::DecidingRule;

/// The explanation of a decision.
#[derive(Debug)]
pub struct DecisionFacts {
    /// The rule that made the decision.
    pub rule: DecidingRule,
    /// The generation of the policy.
    pub generation: u64,
    /// The override that applies to the key.
    pub overriding: Option<Override>,
    /// The key's last ban, if it had one.
    pub ban: Option<BanRecord>,
    /// How much longer the ban lasts; zero if it has ended.
    pub banned_for: Micros,
    /// Whether the policy is in shadow mode, and only reports what it would refuse.
    pub shadow: bool,
    /// The candidate limits, and the decisions that they would have flipped so far, over all keys.
    pub candidate: Option<(String, Flips)>,
}

impl DecisionFacts {
    /// Returns the explanation of a decision.
    pub fn of(engine: &Engine, known: &EnginePolicy, key: &[u8], verdict: &EngineVerdict) -> Self {
        let rules = known.rules.as_deref();
        let ban = rules.and_then(|rules| rules.ban.as_ref()).and_then(|_| engine.bans.get(known.policy.name(), key));
        Self {
            rule: verdict.rule,
            generation: known.generation,
            overriding: rules.and_then(|rules| engine.override_for(rules, key)).map(|found| found.definition.clone()),
            banned_for: ban.map_or(Micros::ZERO, |ban| ban.until.since(engine.clock.now())),
            ban,
            shadow: rules.is_some_and(|rules| rules.shadow),
            candidate: rules
                .and_then(|rules| rules.candidate())
                .map(|candidate| (candidate.known.policy.to_string(), candidate.flips())),
        }
    }

    /// Returns one line for each fact.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("rule: {}; generation {}", self.rule.name(), self.generation)];
        if let Some(definition) = &self.overriding {
            let until = definition.until.map_or(String::new(), |until| format!(", until {}", moment(until)));
            let note = definition.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
            lines.push(format!("override for {}: {}{until}{note}", definition.key, definition.policy));
        }
        match self.ban {
            Some(ban) if self.banned_for > Micros::ZERO => {
                lines.push(format!("banned for another {}, number {} in a row", self.banned_for, ban.level));
            }
            Some(ban) => lines.push(format!("was banned until {}, number {} in a row", moment(ban.until), ban.level)),
            None => {}
        }
        if self.shadow {
            lines.push("shadow: nobody is refused".to_owned());
        }
        if let Some((policy, flips)) = &self.candidate {
            let Flips { decided, would_refuse, would_allow } = flips;
            lines.push(format!(
                "candidate {policy}: of {decided} decisions it would refuse {would_refuse} that were allowed, and allow \
                 {would_allow} that were refused"
            ));
        }
        lines
    }
}

/// Formats a time in RFC 3339, in UTC.
pub fn moment(at: Timestamp) -> String {
    tollgate_telemetry::log::moment(std::time::UNIX_EPOCH + std::time::Duration::from_micros(at.get()))
}
