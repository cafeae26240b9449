//! The token of a Tollgate server whose URL names none: `$TOLLGATE_TOKEN`, else the one that a server of this user on
//! this machine left.

use super::{Fleet, Target, Trouble};

/// The variable that holds a token.
const TOKEN: &str = "TOLLGATE_TOKEN";

/// Makes a test login; returns the target with the token that was accepted, if one was needed.
pub(crate) fn enter(target: Target) -> Result<Target, Trouble> {
    if !target.is_tollgate() || target.login.password.is_some() {
        Fleet::knock(&target)?;
        return Ok(target);
    }
    if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
        let target = target.with_token(token);
        Fleet::knock(&target)?;
        return Ok(target);
    }
    if let Some(token) = left(&target)? {
        let known = target.with_token(token);
        match Fleet::knock(&known) {
            // The token was left by a server that has ended. Most questions need none.
            Err(Trouble::Refused { .. }) => {}
            knocked => return knocked.map(|()| known),
        }
    }
    Fleet::knock(&target)?;
    Ok(target)
}

/// Returns the token that a server on this machine left for its user.
fn left(target: &Target) -> Result<Option<String>, Trouble> {
    let Some(port) = target.loopback_port() else { return Ok(None) };
    crate::token_file::read(port).map_err(|error| Trouble::Token(error.to_string()))
}
