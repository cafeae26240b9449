//! What an error of the server means. The law of the store: **one request, at most one charge**. So a call
//! is sent again only if the server proved that it did not run it, and an unknown outcome never is.
//!
//! | the server says | it ran? | what we do |
//! |---|---|---|
//! | `NOSCRIPT` | no | again with the text (batch.rs) |
//! | `ERR Function not found` | no | load the library, again (batch.rs) |
//! | `ERR unknown command`, `NOPERM` at FCALL or FUNCTION under `Packaging::Auto` | no | scripts from then on (batch.rs) |
//! | `MOVED`, `ASK` | no | follow |
//! | `TRYAGAIN`, `LOADING`, `BUSY`, `CLUSTERDOWN`, `MASTERDOWN`, `READONLY` | no | wait a little, again, a few times; then on_error |
//! | `OOM`, `NOPERM`, `ERR ACL failure`, `NOAUTH`, `WRONGPASS`, `MISCONF`, `NOREPLICAS` | no | on_error: the home cannot decide |
//! | no connection | no | on_error |
//! | `ERR …`, `WRONGTYPE …`, any other | no | [`StoreError::Refused`](tollgate_core::StoreError::Refused): the question is wrong, and would be tomorrow |
//! | the connection is lost, no answer in time | unknown | on_error, never again |
//!
//! A server that has commands of ours, and people who gave us a token for it, is judged differently in this:
//!
//! | it says | it ran? | what we do |
//! |---|---|---|
//! | `NOAUTH`, `NOPERM`, `WRONGPASS`, also as it lets nobody in | no | `StoreError::Refused`: the token is wrong, and no outage |
//! | `UNAVAILABLE`: the store behind it did not answer | unknown | on_error, never again |
//!
//! "on_error" is the policy's for decisions; reset, refund and custom scripts answer
//! [`StoreError::Away`](tollgate_core::StoreError::Away).

use redis::ServerError;

use crate::url::{Node, node};

/// Why there is no answer. What a call or a batch ends with.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server answered with an error.
    Server(ServerError),
    /// The server answered with an error that needs more words than its own.
    Wrong(String),
    /// It was not sent.
    Unsent(String),
    /// It was sent, and may have run.
    Unknown(String),
}

/// What to do about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The script or function is missing.
    Missing,
    /// Ask there, from now on or only now. Without a host it is the one that answered.
    Moved(Place),
    Asked(Place),
    /// It will pass.
    Wait,
    /// It will pass, but not on this connection, or not on this node.
    Elsewhere,
    /// The home cannot decide.
    Unable,
    /// The home asked another, who did not answer: it may have run.
    Unsure,
    /// The question is wrong.
    Wrong,
}

/// The address in a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u16,
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
}

pub(crate) fn verdict(error: &ServerError) -> Verdict {
    let details = error.details().unwrap_or_default();
    match error.code() {
        "NOSCRIPT" => Verdict::Missing,
        "ERR" if is_missing_function(details) => Verdict::Missing,
        // Our calls are allowed, but not what they do.
        "ERR" if details.starts_with("ACL failure") => Verdict::Unable,
        "MOVED" => redirection(details).map_or(Verdict::Wrong, Verdict::Moved),
        "ASK" => redirection(details).map_or(Verdict::Wrong, Verdict::Asked),
        "TRYAGAIN" | "LOADING" | "BUSY" => Verdict::Wait,
        "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" => Verdict::Elsewhere,
        "OOM" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "MISCONF" | "NOREPLICAS" => Verdict::Unable,
        _ => Verdict::Wrong,
    }
}

/// The same for commands that the server has by itself.
pub(crate) fn command_verdict(error: &ServerError) -> Verdict {
    match error.code() {
        "ERR" | "NOSCRIPT" | "NOAUTH" | "NOPERM" | "WRONGPASS" => Verdict::Wrong,
        "UNAVAILABLE" => Verdict::Unsure,
        _ => verdict(error),
    }
}

fn is_missing_function(details: &str) -> bool {
    details.starts_with("Function not found")
}

/// Whether the server does not know functions, or does not let us use them.
pub(crate) fn lacks_functions(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    match error.code() {
        // Of the command, not of a key.
        "NOPERM" => details.contains("'fcall") || details.contains("'function"),
        _ => is_unknown_command(error),
    }
}

pub(crate) fn is_unknown_command(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "ERR" && (details.starts_with("unknown command") || details.starts_with("Unknown command"))
}

/// The words of the server.
pub(crate) fn words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_string(),
    }
}

/// `3999 127.0.0.1:6381`; the host is empty where the node does not know its own.
fn redirection(details: &str) -> Option<Place> {
    let (slot, address) = details.split_once(' ')?;
    let slot = slot.parse().ok()?;
    let (host, port) = address.trim().rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match node(&format!("[{host}]:{port}"), port) {
        Ok(Node::Tcp(host, _)) if host != "?" => Some(host),
        _ => None,
    };
    Some(Place { slot, host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(redis::Value::ServerError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_are_judged_as_the_table_says() {
        let there = |host: Option<&str>| Place { slot: 3999, host: host.map(Into::into), port: 6381 };
        let rows = [
            ("NOSCRIPT No matching script. Please use EVAL.", Verdict::Missing),
            ("NOSCRIPT No matching script.", Verdict::Missing),
            ("ERR Function not found", Verdict::Missing),
            ("MOVED 3999 127.0.0.1:6381", Verdict::Moved(there(Some("127.0.0.1")))),
            ("MOVED 3999 :6381", Verdict::Moved(there(None))),
            ("MOVED 3999 ?:6381", Verdict::Moved(there(None))),
            ("ASK 3999 2001:db8::1:6381", Verdict::Asked(there(Some("2001:db8::1")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Verdict::Wait),
            ("LOADING Redis is loading the dataset in memory", Verdict::Wait),
            ("BUSY Redis is busy running a script.", Verdict::Wait),
            ("CLUSTERDOWN The cluster is down", Verdict::Elsewhere),
            ("READONLY You can't write against a read only replica.", Verdict::Elsewhere),
            ("OOM command not allowed when used memory > 'maxmemory'.", Verdict::Unable),
            ("NOPERM this user has no permissions", Verdict::Unable),
            ("MISCONF Redis is configured to save RDB snapshots", Verdict::Unable),
            ("NOREPLICAS Not enough good replicas to write.", Verdict::Unable),
            ("WRONGTYPE Operation against a key", Verdict::Wrong),
            ("ERR argument: expected a cost", Verdict::Wrong),
            ("CROSSSLOT Keys in request don't hash to the same slot", Verdict::Wrong),
        ];
        for (line, expected) in rows {
            assert_eq!(verdict(&error(line)), expected, "{line}");
        }
        let commands = [
            ("NOAUTH expected a token with scope reset", Verdict::Wrong),
            ("NOPERM expected a token with scope reset", Verdict::Wrong),
            ("WRONGPASS expected another token", Verdict::Wrong),
            ("ERR policy: column 3: expected a unit", Verdict::Wrong),
            ("ERR Function not found", Verdict::Wrong),
            ("NOSCRIPT no such script", Verdict::Wrong),
            ("WRONGTYPE expected a key of ours", Verdict::Wrong),
            ("UNAVAILABLE the store did not answer", Verdict::Unsure),
            ("OOM the store is full", Verdict::Unable),
            ("LOADING the data is read", Verdict::Wait),
        ];
        for (line, expected) in commands {
            assert_eq!(command_verdict(&error(line)), expected, "{line}");
        }
        assert!(lacks_functions(&error("ERR unknown command 'FCALL', with args beginning with: ")));
        assert_eq!(words(&error("ERR argument: x")), "ERR argument: x");
    }
}
