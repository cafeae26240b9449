//! The servers behind the URL of a store, and the certificates to trust there.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use tollgate_redis::{RedisDeployment, RedisNode, RedisSecret, StoreUrl, StoreUrlError};

use super::{AuthorityArgs, ServerError, tls};

/// The addresses of the servers, the login, and the certificates.
#[derive(Clone)]
pub(crate) struct ServerTarget {
    pub(crate) url: StoreUrl,
    /// The certificates to trust, if the connection is encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl ServerTarget {
    /// Parses a URL.
    pub(crate) fn parse(url: &str, authority: &AuthorityArgs) -> Result<Self, ServerError> {
        let url: StoreUrl = url.parse().map_err(|error: StoreUrlError| ServerError::Url(error.expected()))?;
        let tls = if url.tls { Some(tls::config(authority)?) } else { None };
        Ok(Self { url, tls })
    }

    /// Parses a URL of a Redis or Valkey, for commands that need one.
    pub(crate) fn redis(url: &str, authority: &AuthorityArgs) -> Result<Self, ServerError> {
        let target = Self::parse(url, authority)?;
        if target.url.tollgate { Err(ServerError::NotRedis(target.to_string())) } else { Ok(target) }
    }

    /// Returns the port, if the server is at 127.0.0.1, where servers leave their tokens. At another address of this
    /// machine a program of another user may listen.
    pub(crate) fn loopback_port(&self) -> Option<u16> {
        match self.url.nodes.first() {
            Some(RedisNode::Tcp(name, port)) if name == "127.0.0.1" => Some(*port),
            _ => None,
        }
    }

    /// Returns the same target with another token.
    pub(crate) fn with_token(&self, token: String) -> Self {
        let mut target = self.clone();
        target.url.password = Some(RedisSecret(token));
        target
    }

    /// Returns whether the URL names a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.url.deployment == RedisDeployment::Cluster
    }

    /// Returns the URL of the same hosts as nodes of a cluster, without the login.
    pub(crate) fn as_cluster(&self) -> String {
        let mut url = self.url.clone();
        url.deployment = RedisDeployment::Cluster;
        url.to_string()
    }
}

/// Writes the URL without the login, so that it may be printed.
impl fmt::Display for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> ServerTarget {
        ServerTarget::parse(url, &AuthorityArgs::default()).ok().unwrap()
    }

    #[test]
    fn only_127_0_0_1_has_a_loopback_port_and_tollgate_servers_are_no_redis() {
        for (url, port) in [
            ("tollgate://127.0.0.1", Some(7379)),
            ("tollgate://127.9.9.9:5", None),
            ("tollgate://[::1]:5", None),
            ("tollgate://localhost:5", None),
            ("tollgate://0.0.0.0:5", None),
            ("tollgate://10.0.0.1", None),
            ("tollgate://localhost.example.com", None),
        ] {
            assert_eq!(target(url).loopback_port(), port, "{url}");
        }
        assert!(ServerTarget::redis("redis://h", &AuthorityArgs::default()).is_ok());
        let error = ServerTarget::redis("tollgate://secret@h", &AuthorityArgs::default()).err().unwrap().to_string();
        assert!(error.contains("a Tollgate server") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn tls_is_for_the_urls_that_want_it_and_the_url_of_a_cluster_shows_no_login() {
        assert!(target("rediss://h").tls.is_some() && target("redis://h").tls.is_none());
        assert_eq!(target("rediss://ann:secret@h/3").as_cluster(), "rediss+cluster://…@h:6379");
        assert_eq!(target("tollgate://ann@h").with_token("secret".to_owned()).to_string(), "tollgate://…@h:7379");
    }

    #[test]
    fn wrong_urls_say_what_was_expected_and_not_what_was_given() {
        for (url, expected) in [
            ("secret", "tollgate://, redis://, rediss://, redis+cluster://, redis+sentinel:// or unix://"),
            ("redis+sentinel://secret", "the name of the master behind the sentinels, as in …:26379/mymaster"),
        ] {
            let error = ServerTarget::parse(url, &AuthorityArgs::default()).err().unwrap().to_string();
            assert_eq!(error, format!("store URL: expected {expected}"));
        }
    }
}
