//! The address of the server, parsed from a URL:
//!
//! ```text
//! redis://[user:password@]host[:port][/db]            rediss://… the same with TLS
//! redis+cluster://[…@]host[:port],host[:port]         rediss+cluster://…
//! redis+sentinel://[…@]host[:port],…/MASTER[/db]      rediss+sentinel://…
//! unix://[user:password@]/path/to/socket[?db=N]
//! tollgate://[[name:]token@]host[:port]               tollgates://… the same with TLS
//! ```
//!
//! User, password, name and token are percent-decoded. The law: no error and no `Debug` output shows a password.

use std::fmt;
use std::path::PathBuf;

use crate::error::OpenError;

const PORT: u16 = 6379;
const TOLLGATE_PORT: u16 = 7379;
const SENTINEL_PORT: u16 = 26379;

const SCHEMES: &str = "tollgate://, redis://, rediss://, redis+cluster://, redis+sentinel:// or unix://";
const NO_CLUSTER: &str = "tollgate:// and one host: Tollgate servers make no cluster; one with --store redis+cluster:// \
                          decides in a cluster of Redis";

/// The address of the server, and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) form: Form,
    /// Whether it is a Tollgate server, which has our commands.
    pub(crate) tollgate: bool,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) db: i64,
}

/// The kind of servers at the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One server.
    One,
    /// Some nodes of a cluster.
    Cluster,
    /// Sentinels, which know the address of the master with this name.
    Sentinel(String),
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Place {
    /// Parses a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let expected = || OpenError::Url(SCHEMES.into());
        let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
        if let Some(form) = scheme.strip_prefix("tollgate") {
            return Self::tollgate(form, rest);
        }
        let (plain, tls) = match scheme.strip_prefix("rediss") {
            Some(form) => (form, true),
            None => (scheme.strip_prefix("redis").unwrap_or(scheme), false),
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (user, password, hosts) = split_login(authority)?;
        let mut place = Self { form: Form::One, tollgate: false, nodes: Vec::new(), tls, user, password, db: 0 };
        match plain {
            "" => place.one(hosts, path)?,
            "+cluster" => place.cluster(hosts, path)?,
            "+sentinel" => place.sentinel(hosts, path)?,
            "unix" if !tls => place.unix(hosts, path)?,
            _ => return Err(expected()),
        }
        Ok(place)
    }

    fn tollgate(form: &str, rest: &str) -> Result<Self, OpenError> {
        let tls = match form {
            "" => false,
            "s" => true,
            _ if form.contains('+') => return Err(OpenError::Url(NO_CLUSTER.into())),
            _ => return Err(OpenError::Url(SCHEMES.into())),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() {
            return Err(OpenError::Url("nothing behind the host of a Tollgate server".into()));
        }
        let (user, password, hosts) = split_login(authority)?;
        // Without a colon, the text before the host is the token.
        let (user, password) = match (user, password) {
            (Some(_), None) if authority.contains(":@") => {
                return Err(OpenError::Url("TOKEN@ or NAME:TOKEN@ before the host".into()));
            }
            (Some(token), None) => (None, Some(Secret(token))),
            login => login,
        };
        let nodes = nodes(hosts, TOLLGATE_PORT)?;
        if nodes.len() > 1 {
            return Err(OpenError::Url(NO_CLUSTER.into()));
        }
        Ok(Self { form: Form::One, tollgate: true, nodes, tls, user, password, db: 0 })
    }

    fn one(&mut self, hosts: &str, path: &str) -> Result<(), OpenError> {
        self.nodes = nodes(hosts, PORT)?;
        if self.nodes.len() > 1 {
            return Err(OpenError::Url("one host, or redis+cluster:// before several".into()));
        }
        self.db = db(path.trim_start_matches('/'))?;
        Ok(())
    }

    fn cluster(&mut self, hosts: &str, path: &str) -> Result<(), OpenError> {
        self.form = Form::Cluster;
        self.nodes = nodes(hosts, PORT)?;
        match path.trim_start_matches('/') {
            "" | "0" => Ok(()),
            _ => Err(OpenError::Url("no database behind the nodes of a cluster, which has only database 0".into())),
        }
    }

    fn sentinel(&mut self, hosts: &str, path: &str) -> Result<(), OpenError> {
        self.nodes = nodes(hosts, SENTINEL_PORT)?;
        let path = path.trim_start_matches('/');
        let (master, index) = path.split_once('/').unwrap_or((path, ""));
        if master.is_empty() {
            return Err(OpenError::Url("the name of the master behind the sentinels, as in …:26379/mymaster".into()));
        }
        self.form = Form::Sentinel(decoded(master)?);
        self.db = db(index)?;
        Ok(())
    }

    fn unix(&mut self, hosts: &str, path: &str) -> Result<(), OpenError> {
        let (path, index) = path.split_once("?db=").unwrap_or((path, ""));
        if !hosts.is_empty() || path.len() < 2 {
            return Err(OpenError::Url("the path of a socket, as in unix:///run/redis.sock".into()));
        }
        self.nodes = vec![Node::Unix(PathBuf::from(decoded(path)?))];
        self.db = db(index)?;
        Ok(())
    }
}

type Login<'a> = (Option<String>, Option<Secret>, &'a str);

fn split_login(authority: &str) -> Result<Login<'_>, OpenError> {
    let Some((login, hosts)) = authority.rsplit_once('@') else { return Ok((None, None, authority)) };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let given = |text: &str| -> Result<Option<String>, OpenError> {
        if text.is_empty() { Ok(None) } else { decoded(text).map(Some) }
    };
    Ok((given(user)?, given(password)?.map(Secret), hosts))
}

fn nodes(hosts: &str, port: u16) -> Result<Vec<Node>, OpenError> {
    hosts.split(',').map(|host| node(host, port)).collect()
}

/// Parses an address from a URL or from a server; `port` is the default port.
pub(crate) fn node(text: &str, port: u16) -> Result<Node, OpenError> {
    let expected = || OpenError::Url("host, host:port or [ipv6]:port".into());
    let (host, given) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or_else(expected)?;
            (host, behind.strip_prefix(':').or(behind.is_empty().then_some("")).ok_or_else(expected)?)
        }
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() || (host.contains(':') && !text.starts_with('[')) {
        return Err(expected());
    }
    let port = if given.is_empty() { port } else { given.parse().map_err(|_| expected())? };
    Ok(Node::Tcp(host.to_string(), port))
}

fn db(text: &str) -> Result<i64, OpenError> {
    let text = text.trim_end_matches('/');
    if text.is_empty() {
        return Ok(0);
    }
    let number: Option<u32> = text.parse().ok();
    number.map(i64::from).ok_or_else(|| OpenError::Url("the number of a database behind the host".into()))
}

fn decoded(text: &str) -> Result<String, OpenError> {
    let expected = || OpenError::Url("%-escapes of two hex digits that make UTF-8".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(expected);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| expected())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Node {
        Node::Tcp(host.into(), port)
    }

    #[test]
    fn urls_are_read_as_the_table_says() {
        type Row = (&'static str, Form, Vec<Node>, bool, Option<&'static str>, Option<&'static str>, i64);
        let one = || Form::One;
        let rows: Vec<Row> = vec![
            ("redis://localhost", one(), vec![tcp("localhost", 6379)], false, None, None, 0),
            ("redis://h:1/3", one(), vec![tcp("h", 1)], false, None, None, 3),
            ("redis://h/", one(), vec![tcp("h", 6379)], false, None, None, 0),
            ("rediss://u:p%40%2Fs@h:1", one(), vec![tcp("h", 1)], true, Some("u"), Some("p@/s"), 0),
            ("redis://:pw@h", one(), vec![tcp("h", 6379)], false, None, Some("pw"), 0),
            ("redis://[::1]:7/2", one(), vec![tcp("::1", 7)], false, None, None, 2),
            ("redis+cluster://a:1,b:2", Form::Cluster, vec![tcp("a", 1), tcp("b", 2)], false, None, None, 0),
            ("rediss+cluster://u:p@a", Form::Cluster, vec![tcp("a", 6379)], true, Some("u"), Some("p"), 0),
            (
                "redis+sentinel://a,b:2/mymaster/4",
                Form::Sentinel("mymaster".into()),
                vec![tcp("a", 26379), tcp("b", 2)],
                false,
                None,
                None,
                4,
            ),
            ("unix:///run/r.sock?db=5", one(), vec![Node::Unix("/run/r.sock".into())], false, None, None, 5),
            ("unix://u:p@/r.sock", one(), vec![Node::Unix("/r.sock".into())], false, Some("u"), Some("p"), 0),
        ];
        for (url, form, nodes, tls, user, password, db) in rows {
            let password = password.map(|text| Secret(text.into()));
            let expected = Place { form, tollgate: false, nodes, tls, user: user.map(Into::into), password, db };
            assert_eq!(Place::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_tollgate_server_has_a_token_before_its_host() {
        type Row = (&'static str, Node, bool, Option<&'static str>, Option<&'static str>);
        let rows: [Row; 8] = [
            ("tollgate://localhost", tcp("localhost", 7379), false, None, None),
            ("tollgate://h:1/", tcp("h", 1), false, None, None),
            ("tollgate://sesame@h", tcp("h", 7379), false, None, Some("sesame")),
            ("tollgate://:sesame@h", tcp("h", 7379), false, None, Some("sesame")),
            ("tollgate://ann:sesame@h:1", tcp("h", 1), false, Some("ann"), Some("sesame")),
            ("tollgates://s%40%3Ae@[::1]", tcp("::1", 7379), true, None, Some("s@:e")),
            ("tollgates://h", tcp("h", 7379), true, None, None),
            ("tollgate://@h", tcp("h", 7379), false, None, None),
        ];
        for (url, node, tls, user, token) in rows {
            let (user, password) = (user.map(Into::into), token.map(|token| Secret(token.into())));
            let expected = Place { form: Form::One, tollgate: true, nodes: vec![node], tls, user, password, db: 0 };
            assert_eq!(Place::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn wrong_urls_say_what_was_expected_and_show_no_password() {
        let rows = [
            ("localhost:6379", "tollgate://, redis://"),
            ("http://sesame@h", "tollgate://, redis://"),
            ("redis://u:sesame@a,b", "redis+cluster://"),
            ("redis://u:sesame@h/x", "number of a database"),
            ("redis+cluster://u:sesame@a/3", "database 0"),
            ("redis+sentinel://u:sesame@a", "name of the master"),
            ("redis://u:sesame%zz@a", "two hex digits"),
            ("redis://u:sesame@a:99999", "host:port"),
            ("redis://::1:6379", "[ipv6]:port"),
            ("unix://u:sesame@h/x", "path of a socket"),
            ("tollgate://sesame@a,b", "make no cluster"),
            ("tollgate+cluster://sesame@a", "make no cluster"),
            ("tollgate+sentinel://sesame@a/m", "make no cluster"),
            ("tollgate://sesame@h/3", "nothing behind the host"),
            ("tollgate://sesame:@h", "NAME:TOKEN@"),
            ("tollgated://sesame@h", "tollgate://, redis://"),
            ("tollgate://sesame@", "host:port"),
        ];
        for (url, part) in rows {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("sesame"), "{url}: {error}");
        }
        let place = Place::parse("redis://u:sesame@h").unwrap();
        assert!(!format!("{place:?}").contains("sesame"));
    }
}
