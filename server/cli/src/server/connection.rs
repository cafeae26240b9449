//! One connection to one server: a command, its reply. Everything has a time limit.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use redis::{Parser, Value};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tollgate_redis::{RedisNode, StoreUrl};

use super::{ServerError, ServerTarget};

const CONNECT: Duration = Duration::from_secs(3);
const REPLY: Duration = Duration::from_secs(10);
/// Commands whose second word is a subcommand.
const GROUPS: [&str; 8] = ["ACL", "CLIENT", "CLUSTER", "CONFIG", "FUNCTION", "MEMORY", "SCRIPT", "SENTINEL"];

/// A TCP, TLS or Unix stream.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// An open connection.
pub(crate) struct ServerConnection {
    stream: Box<dyn Stream>,
    parser: Parser,
    place: String,
}

impl ServerConnection {
    /// Connects and logs in.
    pub(crate) fn open(target: &ServerTarget, host: &RedisNode) -> Result<Self, ServerError> {
        let mut connection = Self::connect(target, host)?;
        connection.log_in(&target.url)?;
        Ok(connection)
    }

    /// Connects without logging in.
    pub(super) fn connect(target: &ServerTarget, host: &RedisNode) -> Result<Self, ServerError> {
        let stream = connect_stream(target.tls.as_ref(), host)
            .map_err(|error| ServerError::Away { place: host.to_string(), why: plain(&error) })?;
        Ok(Self { stream, parser: Parser::new(), place: host.to_string() })
    }

    /// Returns the address of the server.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Sends a command and returns its reply; an error reply becomes an error.
    pub(crate) fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Value, ServerError> {
        let mut bytes = Vec::new();
        write_command(&mut bytes, words);
        self.send(&bytes)?;
        let reply = self.receive()?;
        self.check_reply(reply, || name(words))
    }

    /// Does as [`ServerConnection::ask`], and converts the reply to `T`.
    pub(crate) fn query<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> Result<T, ServerError> {
        let unexpected = ServerError::UnexpectedReply { place: self.place.clone(), doing: name(words) };
        redis::from_redis_value(self.ask(words)?).map_err(|_| unexpected)
    }

    /// Sends commands that are already encoded.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), ServerError> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| ServerError::Away { place: self.place.clone(), why: plain(&error) })
    }

    /// Returns the next reply, which may be an error reply.
    pub(crate) fn receive(&mut self) -> Result<Value, ServerError> {
        let reply = self.parser.parse_value(&mut self.stream);
        reply.map_err(|error| {
            let why = if error.is_timeout() { format!("no reply within {REPLY:?}") } else { error.to_string() };
            ServerError::Away { place: self.place.clone(), why }
        })
    }

    /// Returns the reply, or an error if it is an error reply.
    pub(crate) fn check_reply(&self, reply: Value, doing: impl Fn() -> String) -> Result<Value, ServerError> {
        match reply {
            Value::ServerError(error) => Err(ServerError::Refused {
                place: self.place.clone(),
                doing: doing(),
                code: error.code().to_owned(),
                why: error.details().unwrap_or_default().to_owned(),
            }),
            reply => Ok(reply),
        }
    }

    fn log_in(&mut self, url: &StoreUrl) -> Result<(), ServerError> {
        let answer = match (&url.user, &url.password) {
            (Some(user), password) => self.ask(&["AUTH", user, password.as_ref().map_or("", |text| &text.0)]),
            (None, Some(password)) => self.ask(&["AUTH", &password.0]),
            (None, None) => Ok(Value::Okay),
        };
        match answer {
            // The server's words in such an error repeat the password.
            Err(error) if error.is_unknown_command() => {
                let (place, doing, code) = (self.place.clone(), "AUTH".to_owned(), "ERR".to_owned());
                return Err(ServerError::Refused { place, doing, code, why: "unknown command".to_owned() });
            }
            answer => answer?,
        };
        if url.db != 0 {
            self.ask(&["SELECT", &url.db.to_string()])?;
        }
        // Fails before anything else is tried, if a password is needed and none was given.
        match self.ask(&["PING"]) {
            Err(error) if !error.is_forbidden() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Encodes a command.
pub(crate) fn write_command<T: AsRef<[u8]>>(bytes: &mut Vec<u8>, words: &[T]) {
    // Writing to memory does not fail.
    let _ = write!(bytes, "*{}\r\n", words.len());
    for word in words {
        let word = word.as_ref();
        let _ = write!(bytes, "${}\r\n", word.len());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Returns the name of a command for messages, without its arguments: one of them may be a password.
fn name<T: AsRef<[u8]>>(words: &[T]) -> String {
    let word = |place: usize| words.get(place).map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
    let first = word(0).unwrap_or_default();
    match word(1) {
        Some(second) if GROUPS.contains(&first.as_str()) => format!("{first} {second}"),
        _ => first,
    }
}

fn connect_stream(tls: Option<&Arc<ClientConfig>>, host: &RedisNode) -> std::io::Result<Box<dyn Stream>> {
    match host {
        RedisNode::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(REPLY))?;
            stream.set_write_timeout(Some(REPLY))?;
            Ok(Box::new(stream))
        }
        RedisNode::Tcp(name, port) => {
            let stream = dial(name, *port)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(REPLY))?;
            stream.set_write_timeout(Some(REPLY))?;
            let Some(config) = tls else { return Ok(Box::new(stream)) };
            let name = ServerName::try_from(name.clone()).map_err(std::io::Error::other)?;
            let session = ClientConnection::new(config.clone(), name).map_err(std::io::Error::other)?;
            Ok(Box::new(StreamOwned::new(session, stream)))
        }
    }
}

/// Connects to the first address of the name that answers.
fn dial(name: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("the name has no address");
    for address in (name, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns `Connection refused` without the system's number for it.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_without_what_may_be_secret() {
        assert_eq!(name(&["AUTH", "ann", "secret"]), "AUTH");
        assert_eq!(name(&["FUNCTION", "LOAD", "REPLACE"]), "FUNCTION LOAD");
        let mut bytes = Vec::new();
        write_command(&mut bytes, &["GET", "a"]);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    }
}
