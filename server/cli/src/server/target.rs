//! The addresses of the servers, parsed from a URL in the forms that the store accepts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use redis::{ConnectionAddr, IntoConnectionInfo};
use rustls::ClientConfig;

use super::{Authority, Trouble, tls};

const FORMS: &str = "tollgate://, redis://, rediss://, redis+cluster://, redis+sentinel:// or unix://";
const NO_CLUSTER: &str = "tollgate:// and one host: Tollgate servers make no cluster";
const SENTINEL_PORT: u16 = 26_379;
const TOLLGATE_PORT: u16 = 7379;

/// The addresses of the servers, and the login. It has no `Debug`, because it holds a password.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) form: Form,
    pub(crate) kind: Kind,
    pub(crate) hosts: Vec<Host>,
    pub(crate) login: Login,
    /// The certificates to trust, if the connection is encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Redis or Valkey.
    Redis,
    /// A Tollgate server.
    Tollgate,
}

/// What is behind the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One server.
    One,
    /// Some nodes of a cluster.
    Cluster,
    /// Sentinels that know the master of this name.
    Sentinel(String),
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The login.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
}

impl Target {
    /// Parses a URL.
    pub(crate) fn parse(url: &str, authority: &Authority) -> Result<Self, Trouble> {
        let (scheme, rest) = url.split_once("://").ok_or(Trouble::Url(FORMS))?;
        if scheme == "unix" {
            let (host, login) = read(url)?;
            return Ok(Self { form: Form::One, kind: Kind::Redis, hosts: vec![host], login, tls: None });
        }
        if let Some(form) = scheme.strip_prefix("tollgate") {
            return Self::tollgate(form, rest, authority);
        }
        let (form, encrypted) = match scheme.strip_prefix("rediss") {
            Some(form) => (form, true),
            None => (scheme.strip_prefix("redis").ok_or(Trouble::Url(FORMS))?, false),
        };
        let (authority_part, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (user, hosts) = authority_part.rsplit_once('@').unwrap_or(("", authority_part));
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let (form, path, port) = match form {
            "" => (Form::One, path.to_owned(), None),
            "+cluster" => (Form::Cluster, path.to_owned(), None),
            "+sentinel" => {
                let (master, db) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
                (Form::Sentinel(master.to_owned()), format!("/{db}"), Some(SENTINEL_PORT))
            }
            _ => return Err(Trouble::Url(FORMS)),
        };
        let mut found = Vec::new();
        let mut login = Login::default();
        for host in hosts.split(',') {
            let host = with_port(host, port);
            let (host, whose) = read(&format!("redis://{user}{host}{path}"))?;
            found.push(host);
            login = whose;
        }
        judge(&form, &found, &login)?;
        let tls = if encrypted { Some(tls::config(authority)?) } else { None };
        Ok(Self { form, kind: Kind::Redis, hosts: found, login, tls })
    }

    /// Parses a URL of a Redis or Valkey, for commands that need one.
    pub(crate) fn redis(url: &str, authority: &Authority) -> Result<Self, Trouble> {
        let target = Self::parse(url, authority)?;
        if target.is_tollgate() { Err(Trouble::NotRedis(target.to_string())) } else { Ok(target) }
    }

    fn tollgate(form: &str, rest: &str, authority: &Authority) -> Result<Self, Trouble> {
        let tls = match form {
            "" => None,
            "s" => Some(tls::config(authority)?),
            _ if form.contains('+') => return Err(Trouble::Url(NO_CLUSTER)),
            _ => return Err(Trouble::Url(FORMS)),
        };
        let (front, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, host) = front.rsplit_once('@').unwrap_or(("", front));
        if !path.is_empty() {
            return Err(Trouble::Url("nothing behind the host of a Tollgate server"));
        }
        if host.contains(',') {
            return Err(Trouble::Url(NO_CLUSTER));
        }
        let at = if who.is_empty() { "" } else { "@" };
        let (host, mut login) = read(&format!("redis://{who}{at}{}", with_port(host, Some(TOLLGATE_PORT))))?;
        if login.password.is_none() {
            if who.contains(':') && login.user.is_some() {
                return Err(Trouble::Url("TOKEN@ or NAME:TOKEN@ before the host"));
            }
            // Without a colon, the text is the token.
            login.password = login.user.take();
        }
        Ok(Self { form: Form::One, kind: Kind::Tollgate, hosts: vec![host], login, tls })
    }
}

impl Target {
    /// Returns whether the URL names a Tollgate server.
    pub(crate) fn is_tollgate(&self) -> bool {
        self.kind == Kind::Tollgate
    }

    /// Returns the port, if the server is at 127.0.0.1, where servers leave their tokens. At another address of this
    /// machine a program of another user may listen.
    pub(crate) fn loopback_port(&self) -> Option<u16> {
        match self.hosts.first() {
            Some(Host::Tcp(name, port)) if name == "127.0.0.1" => Some(*port),
            _ => None,
        }
    }

    /// Returns the same target with another token.
    pub(crate) fn with_token(&self, token: String) -> Self {
        let login = Login { password: Some(token), ..self.login.clone() };
        Self { login, ..self.clone() }
    }

    /// Returns whether the URL names a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.form == Form::Cluster
    }

    /// Returns the URL of the same hosts as nodes of a cluster, without the login.
    pub(crate) fn as_cluster(&self) -> String {
        Self { form: Form::Cluster, ..self.clone() }.to_string()
    }
}

/// Writes the URL without the login, so that it may be printed.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let hosts = hosts.join(",");
        if matches!(self.hosts.first(), Some(Host::Unix(_))) {
            return write!(f, "unix://{hosts}");
        }
        let scheme = match (self.kind, self.tls.is_some()) {
            (Kind::Redis, false) => "redis",
            (Kind::Redis, true) => "rediss",
            (Kind::Tollgate, false) => "tollgate",
            (Kind::Tollgate, true) => "tollgates",
        };
        let login = if self.login.user.is_some() || self.login.password.is_some() { "…@" } else { "" };
        match &self.form {
            Form::One if self.login.db != 0 => write!(f, "{scheme}://{login}{hosts}/{}", self.login.db),
            Form::One => write!(f, "{scheme}://{login}{hosts}"),
            Form::Cluster => write!(f, "{scheme}+cluster://{login}{hosts}"),
            Form::Sentinel(master) => write!(f, "{scheme}+sentinel://{login}{hosts}/{master}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

fn judge(form: &Form, hosts: &[Host], login: &Login) -> Result<(), Trouble> {
    match form {
        Form::One if hosts.len() > 1 => Err(Trouble::Url("one host, or redis+cluster:// before several")),
        Form::Cluster if login.db != 0 => Err(Trouble::Url("no database behind a cluster, which has only database 0")),
        Form::Sentinel(master) if master.is_empty() => {
            Err(Trouble::Url("the name of the master behind the sentinels, as in …:26379/mymaster"))
        }
        _ => Ok(()),
    }
}

fn with_port(host: &str, port: Option<u16>) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.contains(']'));
    match port {
        Some(port) if !has_port => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

/// Parses one address and login, as the client library does.
fn read(url: &str) -> Result<(Host, Login), Trouble> {
    let expected = Trouble::Url("[user:password@]host[:port][/db] behind the scheme");
    let info = url.into_connection_info().map_err(|_| expected.clone())?;
    let host = match info.addr() {
        ConnectionAddr::Tcp(host, port) if !host.is_empty() => {
            Host::Tcp(host.trim_matches(['[', ']']).to_owned(), *port)
        }
        ConnectionAddr::Unix(path) => Host::Unix(path.clone()),
        _ => return Err(expected),
    };
    let settings = info.redis_settings();
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let login = Login { user: given(settings.username()), password: given(settings.password()), db: settings.db() };
    Ok((host, login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> Result<String, String> {
        let target = Target::parse(url, &Authority::default());
        target.map(|target| target.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn urls_are_read_and_shown_without_their_login() {
        for (url, expected) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://ann:s%3Acret@[::1]:7000/3", "redis://…@[::1]:7000/3"),
            ("rediss://:secret@example.com", "rediss://…@example.com:6379"),
            ("redis+cluster://u:secret@a:1,b:2,c", "redis+cluster://…@a:1,b:2,c:6379"),
            ("redis+sentinel://a,b:5/mymaster/2", "redis+sentinel://a:26379,b:5/mymaster"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("tollgate://localhost", "tollgate://localhost:7379"),
            ("tollgate://secret@[::1]/", "tollgate://…@[::1]:7379"),
            ("tollgates://ann:secret@h:1", "tollgates://…@h:1"),
        ] {
            assert_eq!(shown(url).as_deref(), Ok(expected), "{url}");
        }
        let target = Target::parse("redis://ann:s%3Acret@h/3", &Authority::default()).ok().unwrap();
        assert_eq!((target.login.user.as_deref(), target.login.password.as_deref()), (Some("ann"), Some("s:cret")));
    }

    #[test]
    fn what_stands_alone_before_the_host_of_a_tollgate_server_is_the_token() {
        for (url, user, token) in [
            ("tollgate://h", None, None),
            ("tollgate://s%3Acret@h", None, Some("s:cret")),
            ("tollgate://:secret@h", None, Some("secret")),
            ("tollgate://ann:secret@h", Some("ann"), Some("secret")),
        ] {
            let login = Target::parse(url, &Authority::default()).ok().unwrap().login;
            assert_eq!((login.user.as_deref(), login.password.as_deref()), (user, token), "{url}");
        }
    }

    #[test]
    fn where_a_token_is_left_is_told_from_elsewhere_and_a_redis_from_a_tollgate_server() {
        let target = |url: &str| Target::parse(url, &Authority::default()).ok().unwrap();
        for (url, port) in [
            ("tollgate://127.0.0.1", Some(7379)),
            ("tollgate://127.9.9.9:5", None),
            ("tollgate://[::1]:5", None),
            ("tollgate://localhost:5", None),
            ("tollgate://10.0.0.1", None),
            ("tollgate://localhost.example.com", None),
        ] {
            assert_eq!(target(url).loopback_port(), port, "{url}");
        }
        assert!(Target::redis("redis://h", &Authority::default()).is_ok());
        let error = Target::redis("tollgate://secret@h", &Authority::default()).err().unwrap().to_string();
        assert!(error.contains("a Tollgate server") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn wrong_urls_say_what_was_expected_and_not_what_was_given() {
        for url in [
            "localhost",
            "tollgate://secret@a,b",
            "tollgate://secret@a/1",
            "tollgate://secret:@a",
            "tollgate://secret@",
            "tollgate+cluster://secret@a",
            "tollgated://secret@a",
            "redis://a:secret@",
            "redis://secret:x:y",
            "redis://a,secret:5",
            "redis+cluster://a/secret",
            "redis+cluster://a/3",
            "redis+sentinel://secret",
        ] {
            let error = shown(url).unwrap_err();
            assert!(error.contains("expected") && !error.contains("secret"), "{url}: {error}");
        }
    }
}
