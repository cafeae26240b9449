//! Settings, one method each, until a store is opened with them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::OpenError;
use crate::settings::{Mapping, Packaging, Settings};
use crate::store::Redis;
use crate::tls::Certificates;
use crate::url::{Form, Place, Secret};

/// Settings of a store.
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
/// use tollgate_core::{Request, Source, Store};
/// use tollgate_redis::Redis;
///
/// // Nobody listens there: the policy says who decides then.
/// let store = Redis::builder("redis://127.0.0.1:1").deadline(Duration::from_millis(50)).share(0.5).lazy().unwrap();
/// let policy = "10/min".parse().unwrap();
/// let decision = store.check(&policy, b"user:42", Request::ONE).await.unwrap();
/// assert_eq!((decision.source, decision.remaining), (Source::Local, 4));
/// # });
/// ```
#[derive(Clone)]
#[must_use = "settings open nothing by themselves"]
pub struct Builder {
    url: String,
    certificates: Certificates,
    mapping: Option<Mapping>,
    sentinel_password: Option<Secret>,
    token: Option<Secret>,
    deadline: Duration,
    connect: Duration,
    response: Duration,
    packaging: Packaging,
    share: f64,
    cap: usize,
    charge_then_refund: bool,
    refunds: bool,
}

impl Builder {
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

    /// The longest time of a decision, after which the policy's `on_error` makes it; 20 ms unless given.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The longest time to open a connection; 500 ms unless given.
    pub fn connect_timeout(self, connect: Duration) -> Self {
        Self { connect, ..self }
    }

    /// The time after which a silent connection is given up; 500 ms unless given.
    pub fn response_timeout(self, response: Duration) -> Self {
        Self { response, ..self }
    }

    /// How the server is asked.
    pub fn packaging(self, packaging: Packaging) -> Self {
        Self { packaging, ..self }
    }

    /// The part of each limit that this process grants by itself while the server does not answer, for
    /// policies with `on_error` local: one over the number of processes. 1 unless given, so that each of
    /// several processes grants all of it.
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// The most bytes of the embedded store that does so; 64 MiB unless given.
    pub fn local_memory(self, cap: usize) -> Self {
        Self { cap, ..self }
    }

    /// Certificates in PEM of the authority that signed the server's, instead of the public ones.
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.authority = Some(pem.into());
        self
    }

    /// Our certificate chain and its key in PEM, for servers that ask for one.
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.own = Some((chain.into(), key.into()));
        self
    }

    /// The password of the sentinels, if they have one; that of the URL is for the servers they watch.
    pub fn sentinel_password(self, password: &str) -> Self {
        Self { sentinel_password: Some(Secret(password.into())), ..self }
    }

    /// The token of a Tollgate server, or the password of another, if the URL names none.
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(Secret(token.into())), ..self }
    }

    /// How a host and port that a cluster or a sentinel announces are reached from here, for clusters
    /// behind address translation. The hosts of the URL are not mapped.
    pub fn map_addresses(self, mapping: impl Fn(&str, u16) -> (String, u16) + Send + Sync + 'static) -> Self {
        Self { mapping: Some(Arc::new(mapping)), ..self }
    }

    /// The same by a table; what is not in it is reached as announced.
    pub fn address_table(self, table: HashMap<(String, u16), (String, u16)>) -> Self {
        self.map_addresses(move |host, port| {
            let announced = (host.to_string(), port);
            table.get(&announced).cloned().unwrap_or(announced)
        })
    }

    /// On a cluster, lets `check_all` take keys of different slots: they are charged one after the other,
    /// and get it back if one refuses. Each has the deadline to itself, so all together may take that many; a
    /// caller that stops waiting in between leaves what was charged so far. As [`Builder::refunds`], it lets
    /// [`Builder::connect`] check the right to give back.
    pub fn charge_then_refund(self) -> Self {
        Self { charge_then_refund: true, ..self }.refunds()
    }

    /// Says that the store is used to give back, as by `Settle::Refund` of a layer. [`Builder::connect`] then
    /// asks the server to give back nothing, which changes nothing, and is an error if the server does not let
    /// us: a Tollgate server wants a token with the scope `refund`.
    pub fn refunds(self) -> Self {
        Self { refunds: true, ..self }
    }

    /// Opens the store and waits until the server answers.
    pub async fn connect(self) -> Result<Redis, OpenError> {
        let refunds = self.refunds;
        let store = self.lazy()?;
        store.reach().await?;
        if refunds {
            store.check_refunds().await?;
        }
        Ok(store)
    }

    /// Opens the store whether the server is up or not. Connections are opened when they are needed. There
    /// must be a tokio runtime, in which they live; calls may come from anywhere.
    pub fn lazy(self) -> Result<Redis, OpenError> {
        Redis::open(self.settings()?)
    }

    fn settings(self) -> Result<Settings, OpenError> {
        let mut place = Place::parse(&self.url)?;
        let packaging = self.settled(&place)?;
        place.password = place.password.or(self.token);
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(OpenError::Setting("a share above 0 and up to 1".into()));
        }
        if [self.deadline, self.connect, self.response].contains(&Duration::ZERO) {
            return Err(OpenError::Setting("a deadline and timeouts above zero".into()));
        }
        let tls = if place.tls { Some(self.certificates.config()?) } else { None };
        Ok(Settings {
            place,
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

    fn settled(&self, place: &Place) -> Result<Packaging, OpenError> {
        match (place.tollgate, self.packaging) {
            (true, Packaging::Auto | Packaging::Commands) => Ok(Packaging::Commands),
            (true, Packaging::Function | Packaging::Script) => {
                Err(OpenError::Setting("Packaging::Commands for tollgate://, or redis:// before the host".into()))
            }
            (false, Packaging::Commands) if place.form == Form::Cluster => {
                Err(OpenError::Setting("one server for Packaging::Commands, not a cluster".into()))
            }
            (false, packaging) => Ok(packaging),
        }
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("deadline", &self.deadline).field("share", &self.share).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_settles_how_the_server_is_asked() {
        use Packaging::{Auto, Commands, Function, Script};
        let settled = |url: &str, packaging: Packaging| Builder::new(url).packaging(packaging).settings();
        for (url, packaging, expected) in [
            ("tollgate://h", Auto, Commands),
            ("tollgate://h", Commands, Commands),
            ("redis://h", Auto, Auto),
            ("redis://h", Commands, Commands),
            ("redis+sentinel://h/m", Commands, Commands),
            ("redis+cluster://h", Script, Script),
        ] {
            assert_eq!(settled(url, packaging).unwrap().packaging, expected, "{url} {packaging:?}");
        }
        for (url, packaging, part) in [
            ("tollgate://h", Function, "redis:// before the host"),
            ("tollgate://h", Script, "redis:// before the host"),
            ("redis+cluster://h", Commands, "not a cluster"),
        ] {
            let error = settled(url, packaging).unwrap_err().to_string();
            assert!(error.contains(part), "{url} {packaging:?}: {error}");
        }
    }

    #[test]
    fn a_token_is_for_urls_without_one() {
        let password = |url: &str| Builder::new(url).token("other").settings().unwrap().place.password;
        assert_eq!(password("tollgate://h"), Some(Secret("other".into())));
        assert_eq!(password("tollgate://sesame@h"), Some(Secret("sesame".into())));
    }
}
