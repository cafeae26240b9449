//! The meaning of the server's errors. The law of the store: **one request, at most one charge**. A call is sent
//! again only if the server proved that it did not run it; a call with an unknown outcome is never sent again.
//!
//! | the server says | it ran? | what we do |
//! |---|---|---|
//! | `NOSCRIPT` | no | send again with the script's text (batch.rs) |
//! | `ERR Function not found` | no | load the library, send again (batch.rs) |
//! | `ERR unknown command`, `NOPERM` at FCALL or FUNCTION under `Packaging::Auto` | no | use scripts from then on (batch.rs) |
//! | `MOVED`, `ASK` | no | follow the redirection |
//! | `TRYAGAIN`, `LOADING`, `BUSY`, `CLUSTERDOWN`, `MASTERDOWN`, `READONLY` | no | wait briefly and send again, a few times; then on_error |
//! | `OOM`, `NOPERM`, `ERR ACL failure`, `NOAUTH`, `WRONGPASS`, `MISCONF`, `NOREPLICAS` | no | on_error: the home cannot decide |
//! | no connection | no | on_error |
//! | `ERR …`, `WRONGTYPE …`, any other | no | [`StoreError::Refused`](tollgate_kernel::StoreError::Refused): the request is wrong, and repeating it would not help |
//! | the connection is lost, no answer in time | unknown | on_error, never sent again |
//!
//! For a Tollgate server, which has its own commands and whose operators issued us a token, these errors differ:
//!
//! | the server says | it ran? | what we do |
//! |---|---|---|
//! | `NOAUTH`, `NOPERM`, `WRONGPASS`, also while connecting | no | `StoreError::Refused`: the token is wrong; this is not an outage |
//! | `UNAVAILABLE`: the store behind it did not answer | unknown | on_error, never sent again |
//!
//! Decisions use the policy's "on_error"; reset, refund, custom scripts and commands on plain keys return
//! [`StoreError::Away`](tollgate_kernel::StoreError::Away) instead. For a command of a caller that is passed on as it is,
//! every error of the server but `MOVED` and `ASK` is the caller's reply, and nothing is sent again.

use redis::ServerError;

use crate::url::{RedisNode, node};

/// The reason why a call or a batch has no answer.
#[derive(Clone, Debug)]
pub(crate) enum CallFailure {
    /// The server answered with an error.
    Server(ServerError),
    /// The server answered with an error; holds an extended message.
    Wrong(String),
    /// The call was not sent.
    Unsent(String),
    /// The call was sent, and may have run.
    Unknown(String),
}

/// What to do about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorVerdict {
    /// The script or function is missing.
    Missing,
    /// Send the call to this address, always from now on (`Moved`) or only this time (`Ask`). Without a host, the
    /// address has the host of the node that answered.
    Moved(RedirectAddress),
    Ask(RedirectAddress),
    /// The condition is temporary.
    Wait,
    /// The condition is temporary, but needs another connection or another node.
    Elsewhere,
    /// The home cannot decide.
    Unable,
    /// The home forwarded the call to another store, which did not answer: it may have run.
    Unsure,
    /// The request is wrong.
    Wrong,
}

/// The address in a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedirectAddress {
    pub(crate) slot: u16,
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
}

pub(crate) fn verdict(error: &ServerError) -> ErrorVerdict {
    let details = error.details().unwrap_or_default();
    match error.code() {
        "NOSCRIPT" => ErrorVerdict::Missing,
        "ERR" if is_missing_function(details) => ErrorVerdict::Missing,
        // The user may call our functions and scripts, but not the commands that they use.
        "ERR" if details.starts_with("ACL failure") => ErrorVerdict::Unable,
        "MOVED" => redirection(details).map_or(ErrorVerdict::Wrong, ErrorVerdict::Moved),
        "ASK" => redirection(details).map_or(ErrorVerdict::Wrong, ErrorVerdict::Ask),
        "TRYAGAIN" | "LOADING" | "BUSY" => ErrorVerdict::Wait,
        "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" => ErrorVerdict::Elsewhere,
        "OOM" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "MISCONF" | "NOREPLICAS" => ErrorVerdict::Unable,
        _ => ErrorVerdict::Wrong,
    }
}

/// Like [`verdict`], for the Tollgate server's own commands.
pub(crate) fn command_verdict(error: &ServerError) -> ErrorVerdict {
    match error.code() {
        "ERR" | "NOSCRIPT" | "NOAUTH" | "NOPERM" | "WRONGPASS" => ErrorVerdict::Wrong,
        "UNAVAILABLE" => ErrorVerdict::Unsure,
        _ => verdict(error),
    }
}

fn is_missing_function(details: &str) -> bool {
    details.starts_with("Function not found")
}

/// Returns whether the server does not support functions, or does not let us use them.
pub(crate) fn lacks_functions(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    match error.code() {
        // The permission denied is for the command, not for a key.
        "NOPERM" => details.contains("'fcall") || details.contains("'function"),
        _ => is_unknown_command(error),
    }
}

pub(crate) fn is_unknown_command(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "ERR" && (details.starts_with("unknown command") || details.starts_with("Unknown command"))
}

/// Returns the server's error message.
pub(crate) fn words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_string(),
    }
}

/// Parses `3999 127.0.0.1:6381`. The host is empty if the node does not know its own.
fn redirection(details: &str) -> Option<RedirectAddress> {
    let (slot, address) = details.split_once(' ')?;
    let slot = slot.parse().ok()?;
    let (host, port) = address.trim().rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match node(&format!("[{host}]:{port}"), port) {
        Ok(RedisNode::Tcp(host, _)) if host != "?" => Some(host),
        _ => None,
    };
    Some(RedirectAddress { slot, host, port })
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
    fn errors_are_classified_as_the_table_says() {
        let there = |host: Option<&str>| RedirectAddress { slot: 3999, host: host.map(Into::into), port: 6381 };
        let rows = [
            ("NOSCRIPT No matching script. Please use EVAL.", ErrorVerdict::Missing),
            ("NOSCRIPT No matching script.", ErrorVerdict::Missing),
            ("ERR Function not found", ErrorVerdict::Missing),
            ("MOVED 3999 127.0.0.1:6381", ErrorVerdict::Moved(there(Some("127.0.0.1")))),
            ("MOVED 3999 :6381", ErrorVerdict::Moved(there(None))),
            ("MOVED 3999 ?:6381", ErrorVerdict::Moved(there(None))),
            ("ASK 3999 2001:db8::1:6381", ErrorVerdict::Ask(there(Some("2001:db8::1")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorVerdict::Wait),
            ("LOADING Redis is loading the dataset in memory", ErrorVerdict::Wait),
            ("BUSY Redis is busy running a script.", ErrorVerdict::Wait),
            ("CLUSTERDOWN The cluster is down", ErrorVerdict::Elsewhere),
            ("READONLY You can't write against a read only replica.", ErrorVerdict::Elsewhere),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorVerdict::Unable),
            ("NOPERM this user has no permissions", ErrorVerdict::Unable),
            ("MISCONF Redis is configured to save RDB snapshots", ErrorVerdict::Unable),
            ("NOREPLICAS Not enough good replicas to write.", ErrorVerdict::Unable),
            ("WRONGTYPE Operation against a key", ErrorVerdict::Wrong),
            ("ERR argument: expected a cost", ErrorVerdict::Wrong),
            ("CROSSSLOT Keys in request don't hash to the same slot", ErrorVerdict::Wrong),
        ];
        for (line, expected) in rows {
            assert_eq!(verdict(&error(line)), expected, "{line}");
        }
        let commands = [
            ("NOAUTH expected a token with scope reset", ErrorVerdict::Wrong),
            ("NOPERM expected a token with scope reset", ErrorVerdict::Wrong),
            ("WRONGPASS expected another token", ErrorVerdict::Wrong),
            ("ERR policy: column 3: expected a unit", ErrorVerdict::Wrong),
            ("ERR Function not found", ErrorVerdict::Wrong),
            ("NOSCRIPT no such script", ErrorVerdict::Wrong),
            ("WRONGTYPE expected a key of ours", ErrorVerdict::Wrong),
            ("UNAVAILABLE the store did not answer", ErrorVerdict::Unsure),
            ("OOM the store is full", ErrorVerdict::Unable),
            ("LOADING the data is read", ErrorVerdict::Wait),
        ];
        for (line, expected) in commands {
            assert_eq!(command_verdict(&error(line)), expected, "{line}");
        }
        assert!(lacks_functions(&error("ERR unknown command 'FCALL', with args beginning with: ")));
        assert_eq!(words(&error("ERR argument: x")), "ERR argument: x");
    }
}
