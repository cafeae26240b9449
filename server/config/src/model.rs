//! The contents of a policy file, read and valid.

use std::sync::Arc;

use tollgate_kernel::{Limit, Micros, Options, Policy, Timestamp};

use crate::pattern::Pattern;

/// The contents of a policy file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The policies, in the order of the file. Names are unique.
    pub policies: Vec<Arc<PolicyEntry>>,
    /// The webhook that receives near-limit alerts, in addition to log and metrics.
    pub webhook: Option<Webhook>,
}

/// A named policy with everything that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyEntry {
    /// Name, limits, mode and `on_error`.
    pub policy: Policy,
    /// The parts that its keys are made of; if empty, the caller's key as it is.
    pub key: Vec<KeyPart>,
    /// Keys that are always allowed and never charged, including those of the whole file.
    pub allow: Vec<Pattern>,
    /// Keys that are always refused, unless they are in `allow`; including those of the whole file.
    pub deny: Vec<Pattern>,
    /// Other limits for some keys; the first that matches and has not ended applies.
    pub overrides: Vec<Override>,
    /// Whether the policy decides, charges and reports, but never refuses.
    pub shadow: bool,
    /// Limits that are evaluated beside the live ones, with their own state.
    pub candidate: Option<Policy>,
    /// The ban for keys that are refused repeatedly.
    pub ban: Option<Ban>,
    /// Whether the usage of keys and their last use are recorded.
    pub usage: bool,
    /// The percentages of a limit at which an alert is raised, in rising order; empty for no alerts.
    pub alerts: Vec<u8>,
    /// A note for people.
    pub note: Option<String>,
}

impl PolicyEntry {
    /// Returns a policy without rules and extras. The policy must have a name.
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
    /// The keys it applies to.
    pub key: Pattern,
    /// The limits, under the name of the policy, so that past consumption still counts.
    pub policy: Policy,
    /// The first microsecond in which it no longer applies; `None` if it does not end.
    pub until: Option<Timestamp>,
    /// The reason for it.
    pub note: Option<String>,
}

impl Override {
    /// Returns whether it has ended by `now`.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// A ban rule, such as `10min after 20/min refusals, up to 1d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The duration of the first ban; each following ban lasts twice as long as the one before.
    pub first: Micros,
    /// The longest ban. A key that is not banned again for this long after a ban ends starts with `first` again.
    pub most: Micros,
    /// The number of refusals within [`within`](Self::within) that leads to a ban.
    pub refusals: u64,
    /// The period in which the refusals are counted.
    pub within: Micros,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// `address`: the client's address, an IPv6 address by its 64-bit network.
    Address,
    /// `method`: the method of an HTTP request.
    Method,
    /// `path`: the path of an HTTP request, without its query.
    Path,
    /// `host`: the host of an HTTP request.
    Host,
    /// `header:NAME`: a header of an HTTP request, its name in lower case.
    Header(Box<str>),
    /// Any other word: a field that the caller provides.
    Field(Box<str>),
}

/// The receiver of near-limit alerts.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// A URL that begins with `http://` or `https://`.
    pub url: String,
}

/// Omits the URL, which may contain a secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

/// Formats the part as the file writes it.
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

/// Formats the ban as the file writes it.
impl std::fmt::Display for Ban {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, most) = (period(1, self.first), period(1, self.most));
        write!(f, "{} after {} refusals, up to {}", first.1, period(self.refusals, self.within).0, most.1)
    }
}

/// Returns `20/min` and `1min` in the notation of policy text, so that they can be parsed again.
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
