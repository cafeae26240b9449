//! A connection that speaks the Redis protocol: commands go out together, replies are read one by one, so that
//! a caller knows which ones came before the server was gone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// After this, nobody answers.
const HANGS: Duration = Duration::from_secs(60);
/// The deepest reply.
const DEPTH: usize = 8;

pub(crate) struct Resp(BufReader<TcpStream>);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Int(i64),
    /// A simple or a bulk string.
    Text(Vec<u8>),
    Error(String),
    Array(Vec<Reply>),
    Nil,
}

impl Resp {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, HANGS)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HANGS))?;
        stream.set_write_timeout(Some(HANGS))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends commands; their replies are to be read in order.
    pub(crate) fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(commands)
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        self.read(DEPTH)
    }

    /// One command and its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut command = Vec::new();
        push(&mut command, words);
        self.send(&command)?;
        self.reply()
    }

    fn read(&mut self, depth: usize) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        let length = || rest.parse::<i64>().map_err(|_| wrong(&line));
        match kind {
            ":" => Ok(Reply::Int(length()?)),
            "+" => Ok(Reply::Text(rest.as_bytes().to_vec())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            "$" | "*" if length()? < 0 => Ok(Reply::Nil),
            "$" => {
                let mut bytes = vec![0; usize::try_from(length()?).map_err(|_| wrong(&line))? + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Text(bytes))
            }
            "*" if depth > 0 => {
                (0..length()?).map(|_| self.read(depth - 1)).collect::<io::Result<_>>().map(Reply::Array)
            }
            _ => Err(wrong(&line)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }
}

impl Reply {
    /// A number, also one that was sent as text.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The part of an array at a place.
    pub(crate) fn at(&self, place: usize) -> &Reply {
        match self {
            Self::Array(parts) => parts.get(place).unwrap_or(&Self::Nil),
            _ => &Self::Nil,
        }
    }

    /// A text, with what is no text marked.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// Adds a command as clients send it.
pub(crate) fn push(to: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        to.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

fn wrong(line: &str) -> io::Error {
    io::Error::other(format!("expected a reply of the Redis protocol, found {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn replies_are_read_one_by_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut resp = Resp::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b":7\r\n+OK\r\n-ERR no\r\n$3\r\na\r\n\r\n*2\r\n:-1\r\n$-1\r\n*1\r\n").unwrap();
        drop(peer);
        let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
        let array = Reply::Array(vec![Reply::Int(-1), Reply::Nil]);
        for expected in [Reply::Int(7), text("OK"), Reply::Error("ERR no".to_owned()), text("a\r\n"), array] {
            assert_eq!(resp.reply().unwrap(), expected);
        }
        assert_eq!(resp.reply().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut bytes = Vec::new();
        push(&mut bytes, &["GET", "k"]);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
