//! The events of the audit log.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// The Redis protocol.
    Resp,
    /// HTTP.
    Http,
}

impl FrontEnd {
    /// All front-ends.
    pub const ALL: [Self; 2] = [Self::Resp, Self::Http];

    /// Returns its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Http => "http",
        }
    }
}

/// An action, done or attempted.
#[derive(Clone, Copy, Debug)]
pub struct AuditEvent<'a> {
    /// The kind of action.
    pub action: AuditAction,
    /// The originator of the action.
    pub actor: &'a AuditActor,
    /// The policy's name, or its text if it has no name; empty if the event is not about a policy.
    pub policy: &'a str,
    /// The key that the event is about.
    pub key: Option<&'a [u8]>,
    /// Whether the action was done.
    pub outcome: AuditOutcome<'a>,
    /// More details, in words; may be empty.
    pub detail: &'a str,
}

impl<'a> AuditEvent<'a> {
    /// Returns an event caused by the server itself.
    pub fn of_server(action: AuditAction, outcome: AuditOutcome<'a>) -> Self {
        Self { action, actor: &AuditActor::SERVER, policy: "", key: None, outcome, detail: "" }
    }
}

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// The state of a key was reset under a policy, or the state of a limiter of another convention was removed.
    Reset,
    /// All keys of one database, or of all databases, were removed.
    Flush,
    /// A key was banned.
    BanBegan,
    /// A ban was lifted before its end.
    BanLifted,
    /// The policy file was reloaded.
    Policies,
    /// The tokens file was reloaded.
    Tokens,
    /// The certificate and its key were reloaded.
    Certificate,
    /// Damaged files of the data directory were repaired.
    Repair,
    /// The server started.
    Start,
    /// The server stopped.
    Stop,
    /// Refused attempts were not written one by one.
    LeftOut,
    /// Lines were lost.
    Lost,
}

impl AuditAction {
    /// Returns its name in the audit log.
    pub const fn name(self) -> &'static str {
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

    /// Returns the event name of its line in the log.
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

    /// Returns whether the code that does it writes a line to the log anyway.
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

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome<'a> {
    /// It was done.
    Done,
    /// The caller lacks permission, or the request is invalid: the reason.
    Refused(&'a str),
    /// It failed, and the previous state stays: the reason.
    Failed(&'a str),
}

/// The originator of an action: who, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditActor {
    /// The caller.
    pub identity: CallerIdentity,
    /// Where the request came from; `None` for actions of the server itself.
    pub origin: Option<RequestOrigin>,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The protocol.
    pub front: FrontEnd,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The client behind the peer, if the peer is a trusted proxy.
    pub client: Option<IpAddr>,
}

impl AuditActor {
    /// The server itself.
    pub const SERVER: Self = Self { identity: CallerIdentity::Server, origin: None };

    /// Returns the caller of a connection.
    pub fn new(identity: CallerIdentity, front: FrontEnd, peer: SocketAddr, client: Option<IpAddr>) -> Self {
        Self { identity, origin: Some(RequestOrigin { front, peer, client }) }
    }
}

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerIdentity {
    /// The caller showed the token of that name.
    Token(Arc<str>),
    /// The caller showed an unknown token.
    UnknownToken,
    /// The caller showed no token, on the same machine, where some actions need none.
    Loopback,
    /// The caller showed no token, on a server without authentication.
    AuthDisabled,
    /// The caller showed no token, where one is needed.
    NoToken,
    /// The server itself.
    Server,
}

impl CallerIdentity {
    /// Returns the caller in words, and the name of a token apart from them, so that no token name can pass for another
    /// caller.
    pub(super) fn name(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Token(name) => ("token", Some(name)),
            Self::UnknownToken => ("a token that is not known", None),
            Self::Loopback => ("loopback without a token", None),
            Self::AuthDisabled => ("everybody: --insecure-no-auth", None),
            Self::NoToken => ("without a token", None),
            Self::Server => ("the server", None),
        }
    }
}
