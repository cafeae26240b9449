//! One connection of the good client, plain or encrypted.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::identity::NAME;

/// After this, nobody answers.
const HANGS: Duration = Duration::from_secs(30);

/// A stream, plain or encrypted.
trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

pub(super) struct Client(BufReader<Box<dyn Stream>>);

impl Client {
    /// Connects from 127.0.0.1.
    pub(super) fn connect(to: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&to, HANGS)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HANGS))?;
        stream.set_write_timeout(Some(HANGS))?;
        let Some(config) = tls else { return Ok(Self(BufReader::new(Box::new(stream)))) };
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Self(BufReader::new(Box::new(StreamOwned::new(connection, stream)))))
    }

    /// Sends a command; answers the first line of the reply.
    pub(super) fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        self.0.get_mut().write_all(&command(words))?;
        self.0.get_mut().flush()?;
        self.line()
    }

    /// A check or peek: the numbers of its flat reply.
    pub(super) fn decide(&mut self, command: &str, key: &str, policy: &str) -> io::Result<[i64; 6]> {
        let first = self.ask(&[command, key, policy])?;
        if first != "*6" {
            return Err(io::Error::other(format!("expected *6, found {first:?}")));
        }
        let mut numbers = [0; 6];
        for number in &mut numbers {
            let line = self.line()?;
            let found = line.strip_prefix(':').and_then(|line| line.parse().ok());
            *number = found.ok_or_else(|| io::Error::other(format!("expected a number, found {line:?}")))?;
        }
        Ok(numbers)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// A command as clients send it.
pub(super) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}
