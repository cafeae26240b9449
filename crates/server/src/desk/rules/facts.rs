//! Why a key is decided as it is: what is told when somebody asks for an explanation.

use tollgate_config::Override;
use tollgate_core::{Micros, Timestamp};

use super::{Banned, Flips, Rule, Verdict};
use crate::desk::{Desk, Known};

/// Why a key is decided as it is.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) rule: Rule,
    pub(crate) generation: u64,
    /// The limits that the key has instead of the policy's.
    pub(crate) overriding: Option<Override>,
    /// The key's last ban, if it had one.
    pub(crate) ban: Option<Banned>,
    /// How much longer it lasts; zero if it has ended.
    pub(crate) banned_for: Micros,
    pub(crate) shadow: bool,
    /// Limits that are tried, and what they would have decided so far, over all keys.
    pub(crate) candidate: Option<(String, Flips)>,
}

impl Facts {
    pub(crate) fn of(desk: &Desk, known: &Known, key: &[u8], verdict: &Verdict) -> Self {
        let rules = known.rules.as_deref();
        let ban = rules.and_then(|rules| rules.ban.as_ref()).and_then(|_| desk.bans.get(known.policy.name(), key));
        Self {
            rule: verdict.rule,
            generation: known.generation,
            overriding: rules.and_then(|rules| desk.overriding(rules, key)).map(|found| found.said.clone()),
            banned_for: ban.map_or(Micros::ZERO, |ban| ban.until.since(desk.clock.now())),
            ban,
            shadow: rules.is_some_and(|rules| rules.shadow),
            candidate: rules
                .and_then(|rules| rules.candidate())
                .map(|candidate| (candidate.known.policy.to_string(), candidate.flips())),
        }
    }

    /// A line a fact.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("rule: {}; generation {}", self.rule.name(), self.generation)];
        if let Some(said) = &self.overriding {
            let until = said.until.map_or(String::new(), |until| format!(", until {}", moment(until)));
            let note = said.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
            lines.push(format!("override for {}: {}{until}{note}", said.key, said.policy));
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

/// RFC 3339, in UTC.
pub(crate) fn moment(at: Timestamp) -> String {
    crate::log::moment(std::time::UNIX_EPOCH + std::time::Duration::from_micros(at.get()))
}
