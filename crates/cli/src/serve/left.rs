//! The token made at the start, left where the commands of this user find it, and taken away at the end.

use std::path::PathBuf;

use tollgate_server::Server;

/// A token that was made, if one was, and where it is.
pub(crate) struct Left {
    port: u16,
    token: Option<String>,
    place: Result<PathBuf, String>,
}

impl Left {
    /// Leaves the server's token under the port of the Redis protocol, or of HTTP if that is all it speaks.
    pub(crate) fn new(server: &Server) -> Self {
        let port = server.resp_addr().or(server.http_addr()).map_or(0, |addr| addr.port());
        let token = server.token().map(|token| token.text().to_owned());
        let place = token
            .as_deref()
            .map_or(Err(String::new()), |token| tollgate_token::write(port, token).map_err(|error| error.to_string()));
        Self { port, token, place }
    }

    /// The token, and its file or why there is none.
    pub(crate) fn token(&self) -> Option<(&str, Result<&PathBuf, &str>)> {
        Some((self.token.as_deref()?, self.place.as_ref().map_err(String::as_str)))
    }

    /// Takes it away, unless there is another by now.
    pub(crate) fn take_away(&self) {
        if self.place.is_ok() && tollgate_token::read(self.port).is_ok_and(|found| found == self.token) {
            let _ = tollgate_token::remove(self.port);
        }
    }
}
