//! The token of a Tollgate server whose URL names none: `$TOLLGATE_TOKEN`, else the one that a server of this user on
//! this machine left.

use super::{Fleet, ServerError, ServerTarget};

/// The variable that holds a token.
const TOKEN: &str = "TOLLGATE_TOKEN";

/// Makes a test login; returns the target with the token that was accepted, if one was needed.
pub(crate) fn authenticate(target: ServerTarget) -> Result<ServerTarget, ServerError> {
    if !target.url.tollgate || target.url.password.is_some() {
        Fleet::test_login(&target)?;
        return Ok(target);
    }
    if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
        let target = target.with_token(token);
        Fleet::test_login(&target)?;
        return Ok(target);
    }
    if let Some(token) = stored_token(&target)? {
        let with_token = target.with_token(token);
        match Fleet::test_login(&with_token) {
            // The token was left by a server that has ended. Most questions need none.
            Err(ServerError::Refused { .. }) => {}
            tested => return tested.map(|()| with_token),
        }
    }
    Fleet::test_login(&target)?;
    Ok(target)
}

/// Returns the token that a server on this machine left for its user.
fn stored_token(target: &ServerTarget) -> Result<Option<String>, ServerError> {
    let Some(port) = target.loopback_port() else { return Ok(None) };
    crate::token_file::read(port).map_err(|error| ServerError::Token(error.to_string()))
}
