//! The builder of a store: one method for each setting.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::RedisOpenError;
use crate::settings::{AddressMapping, Packaging, RedisSettings};
use crate::store::Redis;
use crate::tls::Certificates;
use crate::url::{RedisDeployment, RedisSecret, StoreUrl};

/// The settings of a store to be opened.
///
/// | URL | |
/// |---|---|
/// | `redis://[user:password@]host[:port][/db]` | one server; `rediss://` with TLS |
/// | `redis+cluster://host:port,host:port` | some nodes of a cluster; `rediss+cluster://` with TLS |
/// | `redis+sentinel://host:port,host:port/MASTER[/db]` | sentinels; `rediss+sentinel://` with TLS |
/// | `unix:///path/to/socket` | one server on this machine |
/// | `tollgate://[[name:]token@]host[:port]` | a Tollgate server; `tollgates://` with TLS |
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use tollgate_kernel::{Request, Source, Store};
/// use tollgate_redis::Redis;
///
/// // No server listens on this port, so the policy's `on_error` decides.
/// let store = Redis::builder("redis://127.0.0.1:1").deadline(Duration::from_millis(50)).share(0.5).lazy().unwrap();
/// let policy = "10/min".parse().unwrap();
/// let decision = store.check(&policy, b"user:42", Request::ONE).await.unwrap();
/// assert_eq!((decision.source, decision.remaining), (Source::Local, 4));
/// # });
/// ```
#[derive(Clone)]
#[must_use = "settings open nothing by themselves"]
pub struct RedisBuilder {
    url: String,
    certificates: Certificates,
    mapping: Option<AddressMapping>,
    sentinel_password: Option<RedisSecret>,
    token: Option<RedisSecret>,
    deadline: Duration,
    connect: Duration,
    response: Duration,
    packaging: Packaging,
    share: f64,
    cap: usize,
    charge_then_refund: bool,
    refunds: bool,
}

impl RedisBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            certificates: Certificates::default(),
            mapping: None,
            sentinel_password: None,
            token: None,
            deadline: Duration::from_millis(20),
            connect: Duration::from_millis(500),
            response: Duration::from_millis(500),
            packaging: Packaging::Auto,
            share: 1.0,
            cap: tollgate_memory::DEFAULT_CAP,
            charge_then_refund: false,
            refunds: false,
        }
    }

    /// Sets the time limit of a decision, after which the policy's `on_error` decides. The default is 20 ms.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets the time limit for opening a connection. The default is 500 ms.
    pub fn connect_timeout(self, connect: Duration) -> Self {
        Self { connect, ..self }
    }

    /// Sets how long a connection may leave calls unanswered before it is closed. The default is 500 ms.
    pub fn response_timeout(self, response: Duration) -> Self {
        Self { response, ..self }
    }

    /// Sets how the store calls the server; see [`Packaging`].
    pub fn packaging(self, packaging: Packaging) -> Self {
        Self { packaging, ..self }
    }

    /// Sets the fraction of each limit that this process grants by itself while the server does not answer, for
    /// policies with `on_error` local. Use one divided by the number of processes. The default is 1, with which
    /// each process grants the whole limit.
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// Sets the memory limit, in bytes, of the embedded store that makes these local decisions. The default is 64
    /// MiB.
    pub fn local_memory(self, cap: usize) -> Self {
        Self { cap, ..self }
    }

    /// Sets the PEM certificates of the authority that signed the server's certificate; they replace the public
    /// roots.
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.authority = Some(pem.into());
        self
    }

    /// Sets the client certificate chain and its private key in PEM, for servers that require them.
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.client = Some((chain.into(), key.into()));
        self
    }

    /// Sets the password of the sentinels. The password in the URL is for the servers that they watch.
    pub fn sentinel_password(self, password: &str) -> Self {
        Self { sentinel_password: Some(RedisSecret(password.into())), ..self }
    }

    /// Sets the token of a Tollgate server, or the password of another server, if the URL contains none.
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(RedisSecret(token.into())), ..self }
    }

    /// Sets a function that translates the host and port announced by a cluster or a sentinel into an address that
    /// can be reached from here, for clusters behind address translation. The hosts in the URL are not translated.
    pub fn map_addresses(self, mapping: impl Fn(&str, u16) -> (String, u16) + Send + Sync + 'static) -> Self {
        Self { mapping: Some(Arc::new(mapping)), ..self }
    }

    /// Like [`RedisBuilder::map_addresses`], with a table. Addresses that are not in the table are used as announced.
    pub fn address_table(self, table: HashMap<(String, u16), (String, u16)>) -> Self {
        self.map_addresses(move |host, port| {
            let announced = (host.to_string(), port);
            table.get(&announced).cloned().unwrap_or(announced)
        })
    }

    /// On a cluster, permits `check_all` with keys in different slots. The keys are charged one after the other,
    /// and the charges are refunded if one key refuses. Each key has the whole deadline to itself, so the call may
    /// take as many deadlines as there are keys. If the caller drops the call before it completes, earlier charges
    /// remain. Like [`RedisBuilder::refunds`], this makes [`RedisBuilder::connect`] check the permission to refund.
    pub fn charge_then_refund(self) -> Self {
        Self { charge_then_refund: true, ..self }.refunds()
    }

    /// Declares that the store is used for refunds, for example by `Settlement::Refund` of a layer.
    /// [`RedisBuilder::connect`] then sends a refund of zero units, which changes nothing, and fails if the server does
    /// not permit it: a Tollgate server requires a token with the scope `refund`.
    pub fn refunds(self) -> Self {
        Self { refunds: true, ..self }
    }

    /// Opens the store and waits until the server answers.
    pub async fn connect(self) -> Result<Redis, RedisOpenError> {
        let refunds = self.refunds;
        let store = self.lazy()?;
        store.reach().await?;
        if refunds {
            store.check_refunds().await?;
        }
        Ok(store)
    }

    /// Opens the store without waiting for the server. Connections are opened when they are needed. This must be
    /// called inside a tokio runtime, in which the connections run; calls of the store may come from any executor.
    pub fn lazy(self) -> Result<Redis, RedisOpenError> {
        Redis::open(self.settings()?)
    }

    fn settings(self) -> Result<RedisSettings, RedisOpenError> {
        let mut url: StoreUrl = self.url.parse()?;
        let packaging = self.resolve_packaging(&url)?;
        url.password = url.password.or(self.token);
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(RedisOpenError::Setting("a share above 0 and up to 1".into()));
        }
        if [self.deadline, self.connect, self.response].contains(&Duration::ZERO) {
            return Err(RedisOpenError::Setting("a deadline and timeouts above zero".into()));
        }
        let tls = if url.tls { Some(self.certificates.config()?) } else { None };
        Ok(RedisSettings {
            url,
            tls,
            mapping: self.mapping,
            sentinel_password: self.sentinel_password,
            deadline: self.deadline,
            connect: self.connect,
            response: self.response,
            packaging,
            share: self.share,
            cap: self.cap,
            charge_then_refund: self.charge_then_refund,
        })
    }

    fn resolve_packaging(&self, url: &StoreUrl) -> Result<Packaging, RedisOpenError> {
        match (url.tollgate, self.packaging) {
            (true, Packaging::Auto | Packaging::Commands) => Ok(Packaging::Commands),
            (true, Packaging::Function | Packaging::Script) => {
                Err(RedisOpenError::Setting("Packaging::Commands for tollgate://, or redis:// before the host".into()))
            }
            (false, Packaging::Commands) if url.deployment == RedisDeployment::Cluster => {
                Err(RedisOpenError::Setting("one server for Packaging::Commands, not a cluster".into()))
            }
            (false, packaging) => Ok(packaging),
        }
    }
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder")
            .field("deadline", &self.deadline)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_determines_the_packaging() {
        use Packaging::{Auto, Commands, Function, Script};
        let settings = |url: &str, packaging: Packaging| RedisBuilder::new(url).packaging(packaging).settings();
        for (url, packaging, expected) in [
            ("tollgate://h", Auto, Commands),
            ("tollgate://h", Commands, Commands),
            ("redis://h", Auto, Auto),
            ("redis://h", Commands, Commands),
            ("redis+sentinel://h/m", Commands, Commands),
            ("redis+cluster://h", Script, Script),
        ] {
            assert_eq!(settings(url, packaging).unwrap().packaging, expected, "{url} {packaging:?}");
        }
        for (url, packaging, part) in [
            ("tollgate://h", Function, "redis:// before the host"),
            ("tollgate://h", Script, "redis:// before the host"),
            ("redis+cluster://h", Commands, "not a cluster"),
        ] {
            let error = settings(url, packaging).unwrap_err().to_string();
            assert!(error.contains(part), "{url} {packaging:?}: {error}");
        }
    }

    #[test]
    fn a_token_is_for_urls_without_one() {
        let password = |url: &str| RedisBuilder::new(url).token("other").settings().unwrap().url.password;
        assert_eq!(password("tollgate://h"), Some(RedisSecret("other".into())));
        assert_eq!(password("tollgate://sesame@h"), Some(RedisSecret("sesame".into())));
    }
}
