//! One connection to one server, and how it is opened.
//!
//! Laws: every operation has a time limit; TCP_NODELAY is on; a connection is never revived. The redis crate's
//! `MultiplexedConnection` neither reconnects nor sends again: its driver ends at the first I/O error
//! (aio/multiplexed_connection.rs, `poll_read` returns `Err(())`, which ends `forward`), and all waiting calls get
//! an error. We run the driver ourselves to see when it has ended: then a new connection is opened before anything
//! is sent. Otherwise a call sent on the dead connection would be lost with an unknown outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, Value};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::settings::RedisSettings;
use crate::url::{RedisDeployment, RedisNode};
use crate::verdict::{ErrorVerdict, command_verdict, is_unknown_command, words};

/// How long a connection may be idle before the first keepalive probe.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A connection whose driver is running.
pub(crate) struct RedisConnection {
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
}

impl RedisConnection {
    /// Returns whether the connection is open, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    /// Sends `pipeline` and waits for all its answers, which may include errors of the server.
    pub(crate) async fn send(&self, pipeline: &Pipeline, within: Duration) -> Result<Vec<Value>, String> {
        let mut connection = self.connection.clone();
        match timeout(within, connection.send_packed_commands(pipeline, 0, pipeline.len())).await {
            Ok(Ok(values)) if values.len() == pipeline.len() => Ok(values),
            Ok(Ok(values)) => Err(format!("expected {} answers, found {}", pipeline.len(), values.len())),
            Ok(Err(error)) => Err(format!("the connection was lost: {error}")),
            Err(_) => Err(format!("no answer within {within:?}")),
        }
    }
}

impl Drop for RedisConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The reason why there is no connection.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionFailure {
    /// The server cannot be reached, or the handshake failed.
    Away(String),
    /// The server rejects the credentials; holds its error message.
    Refused(String),
}

impl From<String> for ConnectionFailure {
    fn from(why: String) -> Self {
        Self::Away(why)
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

/// Opens a connection to a database of `node`; behind sentinels, to the master that they name.
pub(crate) async fn open(
    settings: &RedisSettings,
    node: &RedisNode,
    db: u8,
) -> Result<Arc<RedisConnection>, ConnectionFailure> {
    let within = settings.connect;
    let opening = async {
        match &settings.url.deployment {
            RedisDeployment::Sentinel(master) => {
                let node = master_of(settings, master).await?;
                selected(settings, reach(settings, &node, login(settings)).await?, db).await
            }
            RedisDeployment::One if settings.url.tollgate => {
                let connection = reach(settings, node, anonymous()).await?;
                show_token(settings, &connection).await?;
                Ok(connection)
            }
            RedisDeployment::One | RedisDeployment::Cluster => {
                selected(settings, reach(settings, node, login(settings)).await?, db).await
            }
        }
    };
    match timeout(within, opening).await {
        Ok(opened) => opened.map(Arc::new),
        Err(_) => Err(ConnectionFailure::Away(format!("no connection to {node} within {within:?}"))),
    }
}

/// Authenticates with an explicit AUTH, because the handshake of the redis crate hides the server's error message.
async fn show_token(settings: &RedisSettings, connection: &RedisConnection) -> Result<(), ConnectionFailure> {
    let url = &settings.url;
    let Some(token) = &url.password else { return Ok(()) };
    let mut question = Pipeline::with_capacity(1);
    question.cmd("AUTH");
    for word in url.user.iter().chain([&token.0]) {
        question.arg(word);
    }
    match connection.send(&question, settings.connect).await?.first() {
        // The server's message would repeat the token.
        Some(Value::ServerError(error)) if is_unknown_command(error) => {
            Err(ConnectionFailure::Refused("expected a Tollgate server, found one that knows no AUTH".into()))
        }
        Some(Value::ServerError(error)) if command_verdict(error) == ErrorVerdict::Wrong => {
            Err(ConnectionFailure::Refused(words(error)))
        }
        Some(Value::ServerError(error)) => Err(ConnectionFailure::Away(words(error))),
        _ => Ok(()),
    }
}

/// Selects a database beside that of the URL. A server that has fewer answers with an error, and is not away for it.
async fn selected(
    settings: &RedisSettings,
    connection: RedisConnection,
    db: u8,
) -> Result<RedisConnection, ConnectionFailure> {
    if db == 0 {
        return Ok(connection);
    }
    let mut question = Pipeline::with_capacity(1);
    question.cmd("SELECT").arg(db);
    match connection.send(&question, settings.connect).await?.first() {
        Some(Value::ServerError(error)) => Err(ConnectionFailure::Refused(words(error))),
        _ => Ok(connection),
    }
}

fn login(settings: &RedisSettings) -> RedisConnectionInfo {
    let url = &settings.url;
    let mut info = anonymous().set_db(url.db);
    if let Some(user) = &url.user {
        info = info.set_username(user);
    }
    if let Some(password) = &url.password {
        info = info.set_password(&password.0);
    }
    info
}

fn anonymous() -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_lib_name("tollgate", env!("CARGO_PKG_VERSION"))
}

/// Queries the sentinels in order and takes the first answer. Whether the named server is a master is found out
/// when it is used.
async fn master_of(settings: &RedisSettings, master: &str) -> Result<RedisNode, String> {
    let mut why = format!("no sentinel knows a master called {master}");
    let mut question = Pipeline::with_capacity(1);
    question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(master);
    let login = match &settings.sentinel_password {
        Some(password) => anonymous().set_password(&password.0),
        None => anonymous(),
    };
    let share = settings.connect / (settings.url.nodes.len() as u32 + 1);
    for sentinel in &settings.url.nodes {
        let query = async { reach(settings, sentinel, login.clone()).await?.send(&question, share).await };
        let answer = match timeout(share, query).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                why = error;
                continue;
            }
            Err(_) => continue,
        };
        if let Some(node) = answer.first().and_then(address) {
            return Ok(settings.mapped(node));
        }
    }
    Err(why)
}

fn address(answer: &Value) -> Option<RedisNode> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return None };
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some(RedisNode::Tcp(String::from_utf8(host.clone()).ok()?, port))
}

async fn reach(
    settings: &RedisSettings,
    node: &RedisNode,
    info: RedisConnectionInfo,
) -> Result<RedisConnection, String> {
    let failed = |error: std::io::Error| format!("{node}: {error}");
    match node {
        RedisNode::Unix(path) => shake(UnixStream::connect(path).await.map_err(failed)?, &info, node).await,
        RedisNode::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            // A batch is one small write. Nagle's algorithm would delay the next one until it is acknowledged.
            stream.set_nodelay(true).map_err(failed)?;
            // Routers and firewalls on the path may drop idle connections silently.
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive).map_err(failed)?;
            match &settings.tls {
                None => shake(stream, &info, node).await,
                Some(config) => shake(encrypted(config, host, stream).await?, &info, node).await,
            }
        }
    }
}

async fn encrypted(
    config: &Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_string()).map_err(|_| format!("expected a name for TLS, found {host}"))?;
    TlsConnector::from(config.clone()).connect(name, stream).await.map_err(|error| format!("{host}: TLS: {error}"))
}

async fn shake<C>(stream: C, info: &RedisConnectionInfo, node: &RedisNode) -> Result<RedisConnection, String>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // The store has its own time limits, for the whole call and for a batch.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config)
        .await
        .map_err(|error| format!("{node}: {error}"))?;
    Ok(RedisConnection { connection, driver: tokio::spawn(driver) })
}
