//! Scopes: what a token allows.

use std::fmt;
use std::str::FromStr;

/// One thing a token may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scope {
    /// To decide and charge, to look; the other conventions and their keys.
    Check = 1,
    /// To read what the server knows: explanations, policies, metrics.
    Read = 2,
    /// To give back units that were charged.
    Refund = 16,
    /// To forget.
    Reset = 4,
    /// To administrate the server.
    Admin = 8,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Check, Self::Read, Self::Refund, Self::Reset, Self::Admin];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Read => "read",
            Self::Refund => "refund",
            Self::Reset => "reset",
            Self::Admin => "admin",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// Several scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(31);
    /// Those that need no token on loopback.
    pub const FREE: Self = Self(Scope::Check as u8 | Scope::Read as u8);

    /// Whether `scope` is among them.
    #[inline]
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope as u8 != 0
    }

    /// These and `scope`.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope as u8)
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Whether there are none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// `check,read`.
impl FromStr for Scopes {
    type Err = ScopesError;

    fn from_str(text: &str) -> Result<Self, ScopesError> {
        let scope = |name| Scope::from_name(name).ok_or(ScopesError);
        text.split(',').try_fold(Self::NONE, |scopes, name| Ok(scopes.with(scope(name)?)))
    }
}

/// What are no scopes. It does not repeat them: out of place, they may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopesError;

impl fmt::Display for ScopesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected scopes such as check,read out of check, read, refund, reset and admin")
    }
}

impl std::error::Error for ScopesError {}

/// `check,read`.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Scope::ALL.into_iter().filter(|scope| self.has(*scope)).map(Scope::name).collect();
        f.write_str(&names.join(","))
    }
}
