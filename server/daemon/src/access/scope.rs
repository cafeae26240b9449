//! Scopes: what a token allows.

use std::fmt;
use std::str::FromStr;

use tollgate_telemetry::audit::CallerIdentity;

/// One permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scope {
    /// To decide and charge, to peek, and to use the other conventions and their keys.
    Check = 1,
    /// To read what the server knows: explanations, policies, metrics.
    Read = 2,
    /// To give back units that were charged.
    Refund = 16,
    /// To reset keys.
    Reset = 4,
    /// To administer the server.
    Admin = 8,
    /// To pass scripts and functions on to the store, which runs them with the rights of the store's user.
    Script = 32,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 6] = [Self::Check, Self::Read, Self::Refund, Self::Reset, Self::Admin, Self::Script];

    /// Returns the name of the scope.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Read => "read",
            Self::Refund => "refund",
            Self::Reset => "reset",
            Self::Admin => "admin",
            Self::Script => "script",
        }
    }

    /// Returns the scope of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// No scope.
    pub const NONE: Self = Self(0);
    /// All scopes.
    pub const ALL: Self = Self(63);
    /// All scopes but `script`: what the token made at the start allows, and what is free where no token is needed. A
    /// script reaches every key that the store's user does, also those of applications, so that scope is always named.
    pub const WITHOUT_SCRIPT: Self = Self(31);
    /// The scopes that need no token on loopback over the Redis protocol, unless a server is started with others.
    pub const FREE: Self = Self(Scope::Check as u8 | Scope::Read as u8 | Scope::Reset as u8);
    /// The most scopes that need no token on loopback over HTTP: a page of another site can make a browser send a
    /// request, so nothing that only changes is free there.
    pub const FREE_OVER_HTTP: Self = Self(Scope::Check as u8 | Scope::Read as u8);

    /// Returns whether `scope` is in the set.
    #[inline]
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope as u8 != 0
    }

    /// Returns the set with `scope` added.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope as u8)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the scopes that both sets have.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns how the audit log names a caller without a token where these scopes are free.
    pub(crate) fn who(self) -> CallerIdentity {
        match self {
            Self::WITHOUT_SCRIPT => CallerIdentity::AuthDisabled,
            Self::NONE => CallerIdentity::NoToken,
            _ => CallerIdentity::Loopback,
        }
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Parses `check,read`.
impl FromStr for Scopes {
    type Err = ScopesError;

    fn from_str(text: &str) -> Result<Self, ScopesError> {
        let scope = |name| Scope::from_name(name).ok_or(ScopesError);
        text.split(',').try_fold(Self::NONE, |scopes, name| Ok(scopes.with(scope(name)?)))
    }
}

/// The error of a text that is not a list of scopes. It does not repeat the text: out of place, it may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopesError;

impl fmt::Display for ScopesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected scopes such as check,read out of check, read, refund, reset, admin and script")
    }
}

impl std::error::Error for ScopesError {}

/// Writes `check,read`.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Scope::ALL.into_iter().filter(|scope| self.has(*scope)).map(Scope::name).collect();
        f.write_str(&names.join(","))
    }
}
