//! The URL of a store: which servers there are, and the login for them.
//!
//! ```text
//! redis://[user:password@]host[:port][/db]            rediss://… the same with TLS
//! redis+cluster://[…@]host[:port],host[:port]         rediss+cluster://…
//! redis+sentinel://[…@]host[:port],…/MASTER[/db]      rediss+sentinel://…
//! unix://[user:password@]/path/to/socket[?db=N&user=…&pass=…]
//! tollgate://[[name:]token@]host[:port]               tollgates://… the same with TLS
//! ```
//!
//! User, password, name, token, master and path are percent-decoded. The law: no error, no `Debug` output and no
//! displayed URL shows a password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::StoreUrlError;

const PORT: u16 = 6379;
const TOLLGATE_PORT: u16 = 7379;
const SENTINEL_PORT: u16 = 26379;

const SCHEMES: &str = "tollgate://, redis://, rediss://, redis+cluster://, redis+sentinel:// or unix://";
const NO_CLUSTER: &str = "tollgate:// and one host: Tollgate servers make no cluster; one with --store redis+cluster:// \
                          decides in a cluster of Redis";

/// The addresses of the servers of a store, and the login for them.
///
/// ```
/// let url: tollgate_redis::StoreUrl = "rediss://ann:sesame@[::1]/3".parse().unwrap();
/// assert_eq!((url.user.as_deref(), url.tls, url.db), (Some("ann"), true, 3));
/// assert_eq!(url.to_string(), "rediss://…@[::1]:6379/3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreUrl {
    /// The kind of servers at the addresses.
    pub deployment: RedisDeployment,
    /// Whether it is a Tollgate server, which has our commands.
    pub tollgate: bool,
    /// The addresses; there is at least one.
    pub nodes: Vec<RedisNode>,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// The user, or the name of the token.
    pub user: Option<String>,
    /// The password, or the token.
    pub password: Option<RedisSecret>,
    /// The number of the database.
    pub db: i64,
}

/// The kind of servers at the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisDeployment {
    /// One server.
    One,
    /// Some nodes of a cluster.
    Cluster,
    /// Sentinels, which know the address of the master with this name.
    Sentinel(String),
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RedisNode {
    /// A host and its port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A password or a token, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSecret(pub String);

impl fmt::Debug for RedisSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Writes the URL without the login, so that it may be printed.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.nodes.iter().map(RedisNode::to_string).collect::<Vec<_>>().join(",");
        if matches!(self.nodes.first(), Some(RedisNode::Unix(_))) {
            return write!(f, "unix://{hosts}");
        }
        let scheme = if self.tollgate { "tollgate" } else { "redis" };
        let tls = if self.tls { "s" } else { "" };
        let login = if self.user.is_some() || self.password.is_some() { "…@" } else { "" };
        match &self.deployment {
            RedisDeployment::One if self.db != 0 => write!(f, "{scheme}{tls}://{login}{hosts}/{}", self.db),
            RedisDeployment::One => write!(f, "{scheme}{tls}://{login}{hosts}"),
            RedisDeployment::Cluster => write!(f, "{scheme}{tls}+cluster://{login}{hosts}"),
            RedisDeployment::Sentinel(master) => write!(f, "{scheme}{tls}+sentinel://{login}{hosts}/{master}"),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        let (scheme, rest) = url.trim_end().split_once("://").ok_or(StoreUrlError(SCHEMES))?;
        let (server, kind) = scheme.split_at(scheme.find('+').unwrap_or(scheme.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut parsed = Self {
            deployment: RedisDeployment::One,
            tollgate: server.starts_with("tollgate"),
            nodes: Vec::new(),
            tls: matches!(server, "rediss" | "tollgates"),
            user: None,
            password: None,
            db: 0,
        };
        match (server, kind) {
            ("redis" | "rediss", "") => parsed.one(hosts, path)?,
            ("redis" | "rediss", "+cluster") => parsed.cluster(hosts, path)?,
            ("redis" | "rediss", "+sentinel") => parsed.sentinel(hosts, path)?,
            ("unix", "") => parsed.unix(hosts, path)?,
            ("tollgate" | "tollgates", "") => parsed.tollgate(hosts, path)?,
            ("tollgate" | "tollgates", _) => return Err(StoreUrlError(NO_CLUSTER)),
            _ => return Err(StoreUrlError(SCHEMES)),
        }
        parsed.log_in(login)?;
        Ok(parsed)
    }
}

impl StoreUrl {
    fn one(&mut self, hosts: &str, path: &str) -> Result<(), StoreUrlError> {
        self.nodes = nodes(hosts, PORT)?;
        if self.nodes.len() > 1 {
            return Err(StoreUrlError("one host, or redis+cluster:// before several"));
        }
        self.db = db(path)?;
        Ok(())
    }

    fn cluster(&mut self, hosts: &str, path: &str) -> Result<(), StoreUrlError> {
        self.deployment = RedisDeployment::Cluster;
        self.nodes = nodes(hosts, PORT)?;
        if db(path) == Ok(0) {
            return Ok(());
        }
        Err(StoreUrlError("no database behind the nodes of a cluster, which has only database 0"))
    }

    fn sentinel(&mut self, hosts: &str, path: &str) -> Result<(), StoreUrlError> {
        self.nodes = nodes(hosts, SENTINEL_PORT)?;
        let path = path.trim_start_matches('/');
        let (master, index) = path.split_once('/').unwrap_or((path, ""));
        if master.is_empty() {
            return Err(StoreUrlError("the name of the master behind the sentinels, as in …:26379/mymaster"));
        }
        self.deployment = RedisDeployment::Sentinel(decoded(master)?);
        self.db = db(index)?;
        Ok(())
    }

    fn unix(&mut self, hosts: &str, path: &str) -> Result<(), StoreUrlError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if !matches!(hosts, "" | "localhost") || path.len() < 2 {
            return Err(StoreUrlError("the path of a socket, as in unix:///run/redis.sock"));
        }
        self.nodes = vec![RedisNode::Unix(PathBuf::from(decoded(path)?))];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("db", number)) => self.db = db(number)?,
                // In a query, a plus sign is a space.
                Some(("user", user)) => self.user = given(&user.replace('+', " "))?,
                Some(("pass", password)) => self.password = given(&password.replace('+', " "))?.map(RedisSecret),
                _ => return Err(StoreUrlError("db=, user= or pass= behind the path of a socket and ?")),
            }
        }
        Ok(())
    }

    fn tollgate(&mut self, hosts: &str, path: &str) -> Result<(), StoreUrlError> {
        if path.len() > 1 {
            return Err(StoreUrlError("nothing behind the host of a Tollgate server"));
        }
        self.nodes = nodes(hosts, TOLLGATE_PORT)?;
        if self.nodes.len() > 1 { Err(StoreUrlError(NO_CLUSTER)) } else { Ok(()) }
    }

    fn log_in(&mut self, login: &str) -> Result<(), StoreUrlError> {
        let (user, password) = match login.split_once(':') {
            Some((name, "")) if self.tollgate && !name.is_empty() => {
                return Err(StoreUrlError("TOKEN@ or NAME:TOKEN@ before the host"));
            }
            Some(login) => login,
            // Without a colon, the text before the host of a Tollgate server is the token.
            None if self.tollgate => ("", login),
            None => (login, ""),
        };
        self.user = given(user)?.or(self.user.take());
        self.password = given(password)?.map(RedisSecret).or(self.password.take());
        Ok(())
    }
}

fn nodes(hosts: &str, port: u16) -> Result<Vec<RedisNode>, StoreUrlError> {
    hosts.split(',').map(|host| node(host, port)).collect()
}

/// Parses an address from a URL or from a server; `port` is the default port.
pub(crate) fn node(text: &str, port: u16) -> Result<RedisNode, StoreUrlError> {
    let expected = StoreUrlError("host, host:port or [ipv6]:port");
    let (host, given) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or(expected)?;
            (host, behind.strip_prefix(':').or(behind.is_empty().then_some("")).ok_or(expected)?)
        }
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let no_host = |c: char| matches!(c, '?' | '#') || c.is_whitespace();
    if host.is_empty() || host.contains(no_host) || (host.contains(':') && !text.starts_with('[')) {
        return Err(expected);
    }
    let port = if given.is_empty() { port } else { given.parse().map_err(|_| expected)? };
    Ok(RedisNode::Tcp(host.to_string(), port))
}

fn db(text: &str) -> Result<i64, StoreUrlError> {
    let text = text.trim_matches('/');
    let number: Result<u32, _> = if text.is_empty() { Ok(0) } else { text.parse() };
    number.map(i64::from).map_err(|_| StoreUrlError("the number of a database behind the host"))
}

fn given(text: &str) -> Result<Option<String>, StoreUrlError> {
    if text.is_empty() { Ok(None) } else { decoded(text).map(Some) }
}

fn decoded(text: &str) -> Result<String, StoreUrlError> {
    let expected = StoreUrlError("%-escapes of two hex digits that make UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or(expected);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> RedisNode {
        RedisNode::Tcp(host.into(), port)
    }

    fn unix(path: &str) -> Vec<RedisNode> {
        vec![RedisNode::Unix(path.into())]
    }

    #[test]
    fn urls_are_parsed_as_the_table_says() {
        type Row =
            (&'static str, RedisDeployment, Vec<RedisNode>, bool, Option<&'static str>, Option<&'static str>, i64);
        let one = || RedisDeployment::One;
        let sentinel = |master: &str| RedisDeployment::Sentinel(master.into());
        let rows: Vec<Row> = vec![
            ("redis://localhost", one(), vec![tcp("localhost", 6379)], false, None, None, 0),
            ("redis://h:1/3", one(), vec![tcp("h", 1)], false, None, None, 3),
            ("redis://h:/", one(), vec![tcp("h", 6379)], false, None, None, 0),
            ("redis://h//3/ \n", one(), vec![tcp("h", 6379)], false, None, None, 3),
            ("redis://0.0.0.0", one(), vec![tcp("0.0.0.0", 6379)], false, None, None, 0),
            ("rediss://u:p%40%2Fs@h:1", one(), vec![tcp("h", 1)], true, Some("u"), Some("p@/s"), 0),
            ("redis://u:p:?#@s@h", one(), vec![tcp("h", 6379)], false, Some("u"), Some("p:?#@s"), 0),
            ("redis://:pw@h", one(), vec![tcp("h", 6379)], false, None, Some("pw"), 0),
            ("redis://u@h", one(), vec![tcp("h", 6379)], false, Some("u"), None, 0),
            ("redis://:@h", one(), vec![tcp("h", 6379)], false, None, None, 0),
            ("redis://[::1]:7/2", one(), vec![tcp("::1", 7)], false, None, None, 2),
            ("redis+cluster://a:1,b:2", RedisDeployment::Cluster, vec![tcp("a", 1), tcp("b", 2)], false, None, None, 0),
            ("redis+cluster://[::1]/0/", RedisDeployment::Cluster, vec![tcp("::1", 6379)], false, None, None, 0),
            ("rediss+cluster://u:p@a", RedisDeployment::Cluster, vec![tcp("a", 6379)], true, Some("u"), Some("p"), 0),
            (
                "redis+sentinel://a,b:2/mymaster/4",
                sentinel("mymaster"),
                vec![tcp("a", 26379), tcp("b", 2)],
                false,
                None,
                None,
                4,
            ),
            ("redis+sentinel://[::1]/my%20m//4/", sentinel("my m"), vec![tcp("::1", 26379)], false, None, None, 4),
            ("unix:///run/r.sock?db=5", one(), unix("/run/r.sock"), false, None, None, 5),
            ("unix://u:p@/r.sock", one(), unix("/r.sock"), false, Some("u"), Some("p"), 0),
            ("unix:///r.sock?user=u&pass=p%26+&db=5", one(), unix("/r.sock"), false, Some("u"), Some("p& "), 5),
            ("unix://localhost/r%3F%23?", one(), unix("/r?#"), false, None, None, 0),
        ];
        for (url, deployment, nodes, tls, user, password, db) in rows {
            let password = password.map(|text| RedisSecret(text.into()));
            let expected =
                StoreUrl { deployment, tollgate: false, nodes, tls, user: user.map(Into::into), password, db };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_tollgate_server_has_a_token_before_its_host() {
        type Row = (&'static str, RedisNode, bool, Option<&'static str>, Option<&'static str>);
        let rows: [Row; 9] = [
            ("tollgate://localhost", tcp("localhost", 7379), false, None, None),
            ("tollgate://h:1/", tcp("h", 1), false, None, None),
            ("tollgate://h:", tcp("h", 7379), false, None, None),
            ("tollgate://sesame@h", tcp("h", 7379), false, None, Some("sesame")),
            ("tollgate://:sesame@h", tcp("h", 7379), false, None, Some("sesame")),
            ("tollgate://ann:sesame@h:1", tcp("h", 1), false, Some("ann"), Some("sesame")),
            ("tollgates://s%40%3Ae@[::1]", tcp("::1", 7379), true, None, Some("s@:e")),
            ("tollgates://h", tcp("h", 7379), true, None, None),
            ("tollgate://@h", tcp("h", 7379), false, None, None),
        ];
        for (url, node, tls, user, token) in rows {
            let (user, password) = (user.map(Into::into), token.map(|token| RedisSecret(token.into())));
            let expected = StoreUrl {
                deployment: RedisDeployment::One,
                tollgate: true,
                nodes: vec![node],
                tls,
                user,
                password,
                db: 0,
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn wrong_urls_say_what_was_expected_and_show_no_password() {
        let rows = [
            ("localhost:6379", "tollgate://, redis://"),
            ("http://sesame@h", "tollgate://, redis://"),
            ("://sesame@h", "tollgate://, redis://"),
            ("+cluster://sesame@h", "tollgate://, redis://"),
            ("redisunix:///sesame", "tollgate://, redis://"),
            ("redis://u:sesame@a,b", "redis+cluster://"),
            ("redis://u:sesame@h/x", "number of a database"),
            ("redis://u:sesame@h/-1", "number of a database"),
            ("redis://u:sesame@h/3?protocol=resp3", "number of a database"),
            ("redis+cluster://u:sesame@a/3", "database 0"),
            ("redis+cluster://u:sesame@a/x", "database 0"),
            ("redis+sentinel://u:sesame@a", "name of the master"),
            ("redis://u:sesame%zz@a", "two hex digits"),
            ("redis://u:sesame@a:99999", "host:port"),
            ("redis://u:sesame@", "host:port"),
            ("redis://u:sesame@h?db=3", "host:port"),
            ("redis+cluster://u:sesame@a, b", "host:port"),
            ("redis://::1:6379", "[ipv6]:port"),
            ("unix://u:sesame@h/x", "path of a socket"),
            ("unix://", "path of a socket"),
            ("unix:///r.sock?pass=sesame&DB=3", "db=, user= or pass="),
            ("tollgate://sesame@a,b", "make no cluster"),
            ("tollgate+cluster://sesame@a", "make no cluster"),
            ("tollgate+sentinel://sesame@a/m", "make no cluster"),
            ("tollgate://sesame@h/3", "nothing behind the host"),
            ("tollgate://sesame:@h", "NAME:TOKEN@"),
            ("tollgated://sesame@h", "tollgate://, redis://"),
            ("tollgate://sesame@", "host:port"),
        ];
        for (url, part) in rows {
            let error = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.starts_with("expected ") && error.contains(part), "{url}: {error}");
            assert!(!error.contains("sesame"), "{url}: {error}");
        }
    }

    #[test]
    fn urls_are_shown_without_their_login() {
        for (url, expected) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://ann:s%3Aesame@[::1]:7000/3", "redis://…@[::1]:7000/3"),
            ("rediss://:sesame@example.com", "rediss://…@example.com:6379"),
            ("redis+cluster://u:sesame@a:1,b:2,c", "redis+cluster://…@a:1,b:2,c:6379"),
            ("redis+sentinel://a,b:5/mymaster/2", "redis+sentinel://a:26379,b:5/mymaster"),
            ("unix://u:sesame@/run/redis.sock", "unix:///run/redis.sock"),
            ("tollgate://localhost", "tollgate://localhost:7379"),
            ("tollgate://sesame@[::1]/", "tollgate://…@[::1]:7379"),
            ("tollgates://ann:sesame@h:1", "tollgates://…@h:1"),
        ] {
            let parsed: StoreUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), expected, "{url}");
            assert!(!format!("{parsed:?}").contains("sesame"), "{url}");
        }
    }
}
