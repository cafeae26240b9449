//! An event as a line: JSON for the file, fields for the log. It is a single line, whatever its values contain.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{AuditEvent, AuditOutcome};
use crate::log::{ServerLog, json as quoted, micros};

/// Returns the line for the file, with its line end.
pub(super) fn json(event: &AuditEvent<'_>, hash: Option<&str>, keys: bool, now: SystemTime) -> String {
    let at_us = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let mut line = format!("{{\"at\":{},\"at_us\":{at_us}", quoted(&micros(now)));
    let mut put = |name: &str, value: &str| {
        let _ = write!(line, ",{}:{}", quoted(name), quoted(value));
    };
    put("what", event.action.name());
    let (who, token) = event.actor.identity.name();
    put("who", who);
    if let Some(token) = token {
        put("token", token);
    }
    if let Some(origin) = &event.actor.origin {
        put("front", origin.front.name());
        put("peer", &origin.peer.to_string());
        if let Some(client) = origin.client {
            put("client", &client.to_string());
        }
    }
    if !event.policy.is_empty() {
        put("policy", event.policy);
    }
    match event.key {
        Some(key) if keys => match std::str::from_utf8(key) {
            Ok(key) => put("key", key),
            Err(_) => put("key_base64", &STANDARD.encode(key)),
        },
        _ => {}
    }
    if let Some(hash) = hash {
        put("key_hash", hash);
    }
    let (outcome, because) = outcome(event.outcome);
    put("outcome", outcome);
    for (name, value) in [("because", because), ("detail", event.detail)] {
        if !value.is_empty() {
            put(name, value);
        }
    }
    line.push_str("}\n");
    line
}

fn outcome<'a>(outcome: AuditOutcome<'a>) -> (&'static str, &'a str) {
    match outcome {
        AuditOutcome::Done => ("done", ""),
        AuditOutcome::Refused(because) => ("refused", because),
        AuditOutcome::Failed(because) => ("failed", because),
    }
}

/// Writes the line for the log, in which keys are always hashed, even if the file contains them.
pub(super) fn log(log: &ServerLog, event: &AuditEvent<'_>, hash: Option<&str>) {
    let (who, token) = event.actor.identity.name();
    let who = token.map_or_else(|| who.to_owned(), |token| format!("{who} {token}"));
    let origin = event.actor.origin;
    let from = match origin.map(|origin| (origin.peer, origin.client)) {
        None => String::new(),
        Some((peer, None)) => peer.to_string(),
        Some((peer, Some(client))) => format!("{client} through {peer}"),
    };
    let front = origin.map_or("", |origin| origin.front.name());
    let (outcome, because) = outcome(event.outcome);
    log.info(
        event.action.event(),
        &[
            ("what", &event.action.name()),
            ("who", &who),
            ("from", &from),
            ("front", &front),
            ("policy", &event.policy),
            ("key_hash", &hash.unwrap_or_default()),
            ("outcome", &outcome),
            ("because", &because),
            ("detail", &event.detail),
        ],
    );
}
