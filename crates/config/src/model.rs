//! What a policy file says, read and valid.

use std::sync::Arc;

use tollgate_core::{Limit, Micros, Options, Policy, Timestamp};

use crate::pattern::Pattern;

/// Everything that a policy file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The policies, in the order of the file. Each name is there once.
    pub policies: Vec<Arc<Entry>>,
    /// Where near-limit alerts go beside log and metrics.
    pub webhook: Option<Webhook>,
}

/// A named policy with everything that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name, limits, mode and `on_error`.
    pub policy: Policy,
    /// What its keys are made of; the caller's key as it is if empty.
    pub key: Vec<KeyPart>,
    /// Keys that are always allowed, and not charged; those of the whole file among them.
    pub allow: Vec<Pattern>,
    /// Keys that are always refused, unless they are in `allow`; those of the whole file among them.
    pub deny: Vec<Pattern>,
    /// Other limits for some keys; the first that matches and has not ended counts.
    pub overrides: Vec<Override>,
    /// Decide, charge and report, but refuse nobody.
    pub shadow: bool,
    /// Limits that are tried beside the live ones, with state of their own.
    pub candidate: Option<Policy>,
    /// What happens to keys that are refused again and again.
    pub ban: Option<Ban>,
    /// Whether it is kept who used how much, and when last.
    pub usage: bool,
    /// Percentages of a limit at which an alert is raised, rising; none if empty.
    pub alerts: Vec<u8>,
    /// What people should know about it.
    pub note: Option<String>,
}

impl Entry {
    /// A policy with nothing beside it. It must have a name.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            key: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            overrides: Vec::new(),
            shadow: false,
            candidate: None,
            ban: None,
            usage: false,
            alerts: Vec::new(),
            note: None,
        }
    }
}

/// Other limits for some keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Whose.
    pub key: Pattern,
    /// The limits, under the name of the policy: what was consumed counts on.
    pub policy: Policy,
    /// When it ends, if it does: the first microsecond in which it no longer counts.
    pub until: Option<Timestamp>,
    /// Why it is there.
    pub note: Option<String>,
}

impl Override {
    /// Whether it has ended by `now`.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// `10min after 20/min refusals, up to 1d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// How long the first ban lasts; each one that follows lasts twice as long as the one before.
    pub first: Micros,
    /// The longest ban. Whoever keeps quiet for as long begins anew.
    pub most: Micros,
    /// So many refusals
    pub refusals: u64,
    /// within this time bring a ban.
    pub within: Micros,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// `address`: the client's address, IPv6 by its network of 64 bits.
    Address,
    /// `method` of an HTTP request.
    Method,
    /// `path` of an HTTP request, without its query.
    Path,
    /// `host` of an HTTP request.
    Host,
    /// `header:NAME` of an HTTP request, in small letters.
    Header(Box<str>),
    /// Any other word: a field that the caller names.
    Field(Box<str>),
}

/// Where near-limit alerts are posted.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// `http://` or `https://`.
    pub url: String,
}

/// Without the URL, which may hold a secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

/// As the file writes it.
impl std::fmt::Display for KeyPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Method => f.write_str("method"),
            Self::Path => f.write_str("path"),
            Self::Host => f.write_str("host"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Field(name) => f.write_str(name),
        }
    }
}

/// As the file writes it.
impl std::fmt::Display for Ban {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, most) = (period(1, self.first), period(1, self.most));
        write!(f, "{} after {} refusals, up to {}", first.1, period(self.refusals, self.within).0, most.1)
    }
}

/// `20/min` and `1min` in the words of policy text, which can be read again.
fn period(count: u64, period: Micros) -> (String, String) {
    let Ok(limit) = Limit::build("sliding", count, period, &Options::default()) else {
        return (format!("{count}/{period}"), period.to_string());
    };
    let text = limit.to_string();
    let unit = text.split_once('/').map_or("", |(_, unit)| unit);
    let number = if unit.starts_with(|char: char| char.is_ascii_digit()) { "" } else { "1" };
    (text.clone(), format!("{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_written_as_it_is_read() {
        let ban = Ban {
            first: Micros::from_secs(5_400),
            most: Micros::from_secs(86_400),
            refusals: 20,
            within: Micros::from_secs(60),
        };
        assert_eq!(ban.to_string(), "90min after 20/min refusals, up to 1d");
    }
}
