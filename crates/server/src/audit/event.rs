//! What the audit log tells.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::access::Scopes;
use crate::metrics::FrontEnd;

/// Something that was done, or tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) what: What,
    pub(crate) by: &'a By,
    /// The policy's name, else its text; empty if it is about none.
    pub(crate) policy: &'a str,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) outcome: Outcome<'a>,
    /// What else there is to know, in words; may be empty.
    pub(crate) detail: &'a str,
}

impl<'a> Event<'a> {
    /// Something that the server did by itself.
    pub(crate) fn of_server(what: What, outcome: Outcome<'a>) -> Self {
        Self { what, by: &By::SERVER, policy: "", key: None, outcome, detail: "" }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A key was forgotten under a policy, or what a limiter of another convention counted at it.
    Reset,
    /// All keys of a database, or of all, were forgotten.
    Flush,
    /// A key was banned.
    BanBegan,
    /// A ban was lifted before its end.
    BanLifted,
    /// The policy file was read again.
    Policies,
    /// The tokens file was read again.
    Tokens,
    /// Certificate and key were read again.
    Certificate,
    /// Damaged files of the data directory were repaired.
    Repair,
    Start,
    Stop,
    /// Attempts that were refused and are not written one by one.
    LeftOut,
    /// Lines that were lost.
    Lost,
}

impl What {
    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Flush => "flush",
            Self::BanBegan => "ban",
            Self::BanLifted => "ban_lifted",
            Self::Policies => "policies_read",
            Self::Tokens => "tokens_read",
            Self::Certificate => "certificate_read",
            Self::Repair => "repair",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::LeftOut => "left_out",
            Self::Lost => "lost",
        }
    }

    /// The event of its line in the log.
    pub(super) const fn event(self) -> &'static str {
        match self {
            Self::Reset => "audit_reset",
            Self::Flush => "audit_flush",
            Self::BanBegan => "audit_ban",
            Self::BanLifted => "audit_ban_lifted",
            Self::Repair => "audit_repair",
            _ => "audit",
        }
    }

    /// Whether whoever does it writes a line of the log anyway.
    pub(super) const fn is_logged(self) -> bool {
        matches!(
            self,
            Self::BanBegan
                | Self::BanLifted
                | Self::Policies
                | Self::Tokens
                | Self::Certificate
                | Self::Start
                | Self::Stop
        )
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<'a> {
    /// It is done.
    Done,
    /// Whoever tried may not, or not so: why.
    Refused(&'a str),
    /// It could not be done, and what was before stays: why.
    Failed(&'a str),
}

/// Who did it, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct By {
    pub(crate) who: Who,
    /// Where from; nothing for what the server does by itself.
    pub(crate) place: Option<Place>,
}

/// Where somebody asked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) front: FrontEnd,
    pub(crate) peer: SocketAddr,
    /// The client behind the peer, if the peer is a trusted proxy.
    pub(crate) client: Option<IpAddr>,
}

impl By {
    /// The server itself.
    pub(crate) const SERVER: Self = Self { who: Who::Server, place: None };

    pub(crate) fn new(who: Who, front: FrontEnd, peer: SocketAddr, client: Option<IpAddr>) -> Self {
        Self { who, place: Some(Place { front, peer, client }) }
    }
}

/// Who did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The token of that name was shown.
    Token(Arc<str>),
    /// A token was shown that is none.
    WrongToken,
    /// No token was shown, on this machine, where some things are free.
    Loopback,
    /// No token was shown, where everybody may do everything.
    Everybody,
    /// No token was shown, where one is needed.
    Nobody,
    Server,
}

impl Who {
    /// Who shows no token, and has these scopes all the same.
    pub(crate) fn without_token(free: Scopes) -> Self {
        match free {
            Scopes::ALL => Self::Everybody,
            Scopes::NONE => Self::Nobody,
            _ => Self::Loopback,
        }
    }

    /// In words. Names of tokens are in quotes of their own kind, so that none can pass for another.
    pub(super) fn name(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Token(name) => ("token", Some(name)),
            Self::WrongToken => ("a token that is not known", None),
            Self::Loopback => ("loopback without a token", None),
            Self::Everybody => ("everybody: --insecure-no-auth", None),
            Self::Nobody => ("without a token", None),
            Self::Server => ("the server", None),
        }
    }
}
