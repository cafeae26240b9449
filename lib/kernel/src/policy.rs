//! A policy: 1 to 32 limits that are decided together, and a mode. All limits are charged or none is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limit::{Limit, is_word};
use crate::request::Mode;
use crate::text::{TextError, parse};

/// The most limits that a policy may have.
pub const MAX_LIMITS: usize = 32;

/// A set of limits that are decided together.
///
/// ```
/// use tollgate_kernel::Policy;
/// let policy: Policy = "1/5s, 5/h".parse().unwrap();
/// assert_eq!(policy.limits().len(), 2);
/// assert_eq!(policy.to_string(), "1/5s, 5/h");
/// assert_eq!(
///     "5/parsec".parse::<Policy>().unwrap_err().to_string(),
///     r#"column 3: expected a unit (us, ms, s, min, h, d, w), found "parsec"; for example "100/min""#,
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    name: Option<Box<str>>,
    limits: Box<[Arc<Limit>]>,
    mode: Mode,
    on_error: OnError,
}

/// What decides while the home does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// This process, using its share of the limits.
    #[default]
    Local,
    /// Every request passes.
    Allow,
    /// No request passes.
    Deny,
}

impl OnError {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// Returns the name, which is the same in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Returns the variant of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|on_error| on_error.name() == name)
    }
}

/// The reason why limits do not form a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// There are no limits, or more than 32. Holds their number.
    Limits(usize),
    /// Two limits would share one state. Holds the positions of both.
    SameId(usize, usize),
    /// Limits of one policy have different grains. Holds the position of the second.
    Grains(usize),
    /// The name is not a WORD.
    Name,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(_) => write!(f, "expected 1 to {MAX_LIMITS} limits"),
            Self::SameId(first, second) => write!(
                f,
                "expected limits that differ in name, algorithm or period; limits {} and {} would share one state",
                first + 1,
                second + 1
            ),
            Self::Grains(_) => write!(f, "expected one grain for all limits of a policy"),
            Self::Name => write!(f, "expected a policy name of 1 to 64 letters, digits, - and _"),
        }
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// Returns the same policy without its name.
    #[must_use]
    pub fn without_name(&self) -> Self {
        Self { name: None, ..self.clone() }
    }

    /// Returns the same policy with only one limit.
    #[must_use]
    pub fn only(&self, limit: &Arc<Limit>) -> Self {
        Self { limits: Box::new([Arc::clone(limit)]), ..self.clone() }
    }

    /// Creates a policy of these limits in binary mode: all or nothing.
    pub fn new(limits: Vec<Limit>) -> Result<Self, PolicyError> {
        if limits.is_empty() || limits.len() > MAX_LIMITS {
            return Err(PolicyError::Limits(limits.len()));
        }
        let mut grain = None;
        for (index, limit) in limits.iter().enumerate() {
            if let Some(same) = limits[..index].iter().position(|other| other.id() == limit.id()) {
                return Err(PolicyError::SameId(same, index));
            }
            if limit.rule().takes().grain {
                let own = limit.rule().numbers().2.grain;
                if grain.is_some_and(|grain| grain != own) {
                    return Err(PolicyError::Grains(index));
                }
                grain = Some(own);
            }
        }
        Ok(Self {
            name: None,
            limits: limits.into_iter().map(Arc::new).collect(),
            mode: Mode::Binary,
            on_error: OnError::default(),
        })
    }

    /// Returns the same policy under another mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the same policy with another fallback for a home that does not answer. Homes in this process always
    /// answer.
    #[must_use]
    pub fn with_on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Returns the same policy under a name. Named policies do not share counters.
    pub fn with_name(self, name: &str) -> Result<Self, PolicyError> {
        if !is_word(name) {
            return Err(PolicyError::Name);
        }
        Ok(Self { name: Some(name.into()), ..self })
    }

    /// Returns the name; empty for a policy from bare text.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the limits in policy order.
    pub fn limits(&self) -> &[Arc<Limit>] {
        &self.limits
    }

    /// Returns what decides while the home does not answer.
    pub fn on_error(&self) -> OnError {
        self.on_error
    }

    /// Returns the mode of requests that do not set their own.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

impl FromStr for Policy {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        parse::policy(text)
    }
}

/// Writes the canonical text, which the parser turns into the same limits.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, limit) in self.limits.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            limit.fmt(f)?;
        }
        Ok(())
    }
}
