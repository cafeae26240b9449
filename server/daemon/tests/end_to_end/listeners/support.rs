//! Servers on free ports of loopback, and clients that come from addresses of their own.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tollgate_daemon::{ConnectionLimits, Server, ServerSettings};

/// After this, a test that waits has found a mistake.
const HANGS: Duration = Duration::from_secs(30);
/// How often something is tried that happens soon.
pub(crate) const TRIES: usize = 100_000;

/// Settings for a test: two threads, the Redis protocol on a free port.
pub(crate) fn settings() -> ServerSettings {
    ServerSettings { resp: Some((Ipv4Addr::LOCALHOST, 0).into()), http: None, threads: 2, ..ServerSettings::default() }
}

pub(crate) fn start(limits: ConnectionLimits) -> (Server, SocketAddr) {
    let server = Server::start(ServerSettings { limits, ..settings() }).unwrap();
    let addr = server.resp_addr().unwrap();
    (server, addr)
}

/// A connection from 127.0.0.`from`.
pub(crate) fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream.set_write_timeout(Some(HANGS)).unwrap();
    stream
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client<S: Read>(pub(crate) BufReader<S>);

impl Client<TcpStream> {
    pub(crate) fn connect(from: u8, to: SocketAddr) -> Self {
        Self(BufReader::new(connect(from, to)))
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, words: &[&str]) {
        self.0.get_mut().write_all(&command(words)).unwrap();
        self.0.get_mut().flush().unwrap();
    }

    /// The next line; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(_) => line.trim_end().to_owned(),
            // The end of a connection that had more to say.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => String::new(),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.send(words);
        self.line()
    }

    /// Whether it is served: PING is answered.
    pub(crate) fn is_served(&mut self) -> bool {
        let sent = self.0.get_mut().write_all(&command(&["PING"])).and_then(|()| self.0.get_mut().flush());
        let mut line = String::new();
        sent.is_ok() && self.0.read_line(&mut line).is_ok() && line == "+PONG\r\n"
    }
}

/// A command as clients send it.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// A folder of one test, gone with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("tollgate-listeners-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file at once, as those who exchange certificates should.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (draft, path) = (self.path("draft"), self.path(name));
        std::fs::write(&draft, text).unwrap();
        std::fs::set_permissions(&draft, Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
