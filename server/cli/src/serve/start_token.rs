//! The token made at the start: left where the commands of this user find it, and removed at the end.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use tollgate_daemon::Server;

/// The token that was made, if one was, and its file.
pub(crate) struct StartToken {
    port: u16,
    token: Option<String>,
    place: Result<PathBuf, String>,
}

impl StartToken {
    /// Leaves the server's token under the port of the Redis protocol, or of HTTP if that is the only one, at
    /// 127.0.0.1: commands look for tokens of that address alone.
    pub(crate) fn new(server: &Server) -> Self {
        let addrs = server.resp_addrs().iter().chain(server.http_addrs());
        let port = addrs.copied().find(|addr| addr.ip() == Ipv4Addr::LOCALHOST).map(|addr| addr.port());
        let token = server.token().map(|token| token.text().to_owned());
        let nowhere = "a server on 127.0.0.1 alone leaves it in a file; set TOLLGATE_TOKEN for commands".to_owned();
        let place = match (port, token.as_deref()) {
            (Some(port), Some(token)) => crate::token_file::write(port, token)
                .map_err(|error| format!("{error}; set TOLLGATE_TOKEN for commands")),
            _ => Err(nowhere),
        };
        Self { port: port.unwrap_or_default(), token, place }
    }

    /// Returns the token, and its file or why there is none.
    pub(crate) fn token(&self) -> Option<(&str, Result<&PathBuf, &str>)> {
        Some((self.token.as_deref()?, self.place.as_ref().map_err(String::as_str)))
    }

    /// Removes the file, unless it holds another token by now.
    pub(crate) fn remove(&self) {
        if self.place.is_ok() && crate::token_file::read(self.port).is_ok_and(|stored| stored == self.token) {
            let _ = crate::token_file::remove(self.port);
        }
    }
}
