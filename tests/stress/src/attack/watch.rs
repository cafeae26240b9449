//! Health and gate, asked all the time: both must answer within a second whatever else happens.

use std::time::Duration;

use super::stage::Tokens;
use crate::timing::is_judged;

/// How long an answer may take. Where times are not judged, since others use the machine, it is what nobody could
/// call an answer.
pub(super) fn longest() -> Duration {
    Duration::from_secs(if is_judged() { 1 } else { 5 })
}

/// What is asked, and with which token. The server has a policy `gate` that refuses nobody.
pub(super) fn paths(tokens: &Tokens) -> [(&'static str, &str); 2] {
    [("GET /healthz", &tokens.honest), ("GET /v1/gate?policy=gate", &tokens.honest)]
}
