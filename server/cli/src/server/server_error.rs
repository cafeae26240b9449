//! Errors between this command and a server. Their texts hold no password, since no URL is quoted.

use std::fmt;

/// Why a server did not do what was requested.
#[derive(Clone, Debug)]
pub(crate) enum ServerError {
    /// The URL is not valid; what was expected.
    Url(&'static str),
    /// The server at this address is not a Redis, and the command needs one.
    NotRedis(String),
    /// The file with the token of a server is not valid; why.
    Token(String),
    /// The certificates of `--ca` are not valid: the file, and why.
    Authority(String, String),
    /// The server cannot be reached, or stopped answering.
    Away { place: String, why: String },
    /// No sentinel knows a master of this name.
    Unknown(String),
    /// The server replied with an error.
    Refused { place: String, doing: String, code: String, why: String },
    /// The server's reply is not of the expected kind.
    UnexpectedReply { place: String, doing: String },
}

impl ServerError {
    /// Returns whether the server does not know the command.
    pub(crate) fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused { code, why, .. } if code == "ERR" && why.starts_with("unknown command"))
    }

    /// Returns whether the user lacks the permission.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "NOPERM")
    }

    /// Returns the server's own words, if it had any.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Refused { code, why, .. } => format!("{code} {why}").trim_end().to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Url(_) => "for example tollgate://127.0.0.1:7379, redis://127.0.0.1:6379 or \
                             redis+cluster://10.0.0.1:6379,10.0.0.2:6379"
                .to_owned(),
            Self::NotRedis(_) => {
                "name the Redis or Valkey itself, such as redis://127.0.0.1:6379; a Tollgate server needs \
                                  nothing installed, and tells how it is at http://HOST:7380/readyz and /metrics"
                    .to_owned()
            }
            Self::Token(_) => "or name the token: TOLLGATE_TOKEN, or tollgate://TOKEN@HOST".to_owned(),
            Self::Away { why, .. } if why.contains("certificate") => {
                "name the certificates of the authority that signed the server's: --ca FILE".to_owned()
            }
            Self::Away { place, .. } => format!("is a Redis or Valkey server running at {place}?"),
            Self::Unknown(_) => "ask the sentinels: redis-cli -p 26379 SENTINEL masters".to_owned(),
            Self::Refused { code, .. } if code == "NOPERM" => {
                "give the user the right with ACL SETUSER, or name another user: redis://USER:PASSWORD@HOST".to_owned()
            }
            Self::Refused { code, .. } if code == "NOAUTH" || code == "WRONGPASS" => {
                "name user and password: redis://USER:PASSWORD@HOST, redis://:PASSWORD@HOST without a user".to_owned()
            }
            Self::Refused { why, .. } if why.contains("cluster support disabled") => {
                "this is one server, not a cluster: name it redis://HOST:PORT".to_owned()
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(expected) => write!(f, "store URL: expected {expected}"),
            Self::NotRedis(place) => write!(f, "expected a Redis or Valkey, found {place}, a Tollgate server"),
            Self::Token(why) => write!(f, "the token of the server: {why}"),
            Self::Authority(path, why) => write!(f, "certificates {path}: {why}"),
            Self::Away { place, why } => write!(f, "{place} cannot be reached: {why}"),
            Self::Unknown(master) => write!(f, "no sentinel knows a master called {master}"),
            Self::Refused { place, doing, .. } => write!(f, "{place} refused {doing}: {}", self.words()),
            Self::UnexpectedReply { place, doing } => write!(f, "{place} answered {doing} with something unexpected"),
        }
    }
}

impl std::error::Error for ServerError {}
