//! A raw connection to a server, and its replies as values.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_daemon::{Server, ServerSettings};

/// A server on a free port.
pub(crate) fn start() -> Server {
    let settings =
        ServerSettings { resp: Some(([127, 0, 0, 1], 0).into()), http: None, threads: 1, ..ServerSettings::default() };
    Server::start(settings).expect("a free port")
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `+`.
    Simple(String),
    /// `-`.
    Error(String),
    /// `:`.
    Int(i64),
    /// `$`.
    Bulk(String),
    /// `=`.
    Verbatim(String),
    /// `*`, `~` and `%`, by its sign.
    Many(u8, Vec<Self>),
    /// Nothing, by its sign.
    Nil(u8),
}

/// Reads the first reply and what is behind it; nothing if it is not whole.
pub(crate) fn reply(bytes: &[u8]) -> Option<(Reply, &[u8])> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (head, rest) = (std::str::from_utf8(&bytes[1..line]).expect("a line of text"), &bytes[line + 2..]);
    let number = || head.parse::<i64>().unwrap_or_else(|_| panic!("no number: {}", bytes.escape_ascii()));
    Some(match bytes[0] {
        b'+' => (Reply::Simple(head.to_owned()), rest),
        b'-' => (Reply::Error(head.to_owned()), rest),
        b':' => (Reply::Int(number()), rest),
        b'_' => (Reply::Nil(b'_'), rest),
        sign @ (b'$' | b'*') if number() < 0 => (Reply::Nil(sign), rest),
        sign @ (b'$' | b'=') => {
            let len = number() as usize;
            let text = String::from_utf8_lossy(rest.get(..len)?).into_owned();
            let rest = rest.get(len + 2..)?;
            (if sign == b'$' { Reply::Bulk(text) } else { Reply::Verbatim(text) }, rest)
        }
        sign @ (b'*' | b'~' | b'%') => {
            let (mut inner, mut rest) = (Vec::new(), rest);
            for _ in 0..number() * if sign == b'%' { 2 } else { 1 } {
                let (one, behind) = reply(rest)?;
                inner.push(one);
                rest = behind;
            }
            (Reply::Many(sign, inner), rest)
        }
        _ => panic!("no reply: {}", bytes.escape_ascii()),
    })
}

/// All replies of a stream.
pub(crate) fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (one, rest) = reply(bytes).unwrap_or_else(|| panic!("half a reply: {}", bytes.escape_ascii()));
        all.push(one);
        bytes = rest;
    }
    all
}

/// A command as it is sent.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionEnd {
    /// What was answered.
    pub(crate) replies: Vec<Reply>,
    /// Whether the server hung up.
    pub(crate) closed: bool,
}

const LAST: &str = "the last word";

/// Sends pieces one by one, then a word to see whether the server still listens.
pub(crate) fn ask(addr: SocketAddr, pieces: &[&[u8]]) -> ConnectionEnd {
    let last = command(&["ECHO", LAST]);
    let (mut stream, mut bytes) = (connect(addr), Vec::new());
    // What was closed before all was sent was closed.
    let sent = pieces.iter().chain([&last.as_slice()]).try_for_each(|piece| stream.write_all(piece));
    let mut closed = false;
    let end = format!("${}\r\n{LAST}\r\n", LAST.len());
    while !closed && !bytes.ends_with(end.as_bytes()) {
        closed = !more(&mut stream, &mut bytes);
    }
    assert!(closed || sent.is_ok());
    if !closed {
        bytes.truncate(bytes.len() - end.len());
    }
    ConnectionEnd { replies: replies(&bytes), closed }
}

/// Sends bytes that may be a part of a command, says that there is no more, and reads to the end.
pub(crate) fn tell(addr: SocketAddr, bytes: &[u8]) -> Vec<Reply> {
    let (mut stream, mut said) = (connect(addr), Vec::new());
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    while more(&mut stream, &mut said) {}
    replies(&said)
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("a server listens");
    stream.set_nodelay(true).expect("an option of sockets");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option of sockets");
    stream
}

/// Reads more; `false` at the end.
fn more(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    let mut part = [0; 64 << 10];
    match stream.read(&mut part) {
        Ok(0) => false,
        Ok(len) => {
            into.extend_from_slice(&part[..len]);
            true
        }
        // It hung up while bytes of ours were on their way.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
        Err(error) => panic!("expected a reply or an end, found {error} after {}", into.escape_ascii()),
    }
}
