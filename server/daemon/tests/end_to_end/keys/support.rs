//! A server with a clock of its own, and a client that shows replies as they came.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_daemon::{Scopes, Server, ServerSettings};
use tollgate_kernel::Timestamp;
use tollgate_memory::ManualClock;

/// Second 0 of minute 14.
pub(crate) const T: u64 = 1_700_000_040_000_000;

/// A server, its clock, and a connection to it.
pub(crate) struct KeysTestServer {
    pub(crate) server: Server,
    pub(crate) clock: ManualClock,
    pub(crate) client: Client,
}

impl KeysTestServer {
    pub(crate) fn new() -> Self {
        Self::with(ServerSettings::default())
    }

    /// A server on which resets need a token.
    pub(crate) fn without_reset() -> Self {
        Self::with(ServerSettings { free: Scopes::FREE_OVER_HTTP, ..ServerSettings::default() })
    }

    pub(crate) fn with(settings: ServerSettings) -> Self {
        Self::at(settings, T)
    }

    pub(crate) fn at(settings: ServerSettings, t: u64) -> Self {
        let clock = ManualClock::at(Timestamp::saturating(t));
        let resp = Some(([127, 0, 0, 1], 0).into());
        let server =
            Server::start_with_clock(ServerSettings { resp, http: None, threads: 2, ..settings }, &clock).unwrap();
        let client = Client::open(server.resp_addr().unwrap());
        Self { server, clock, client }
    }

    /// The reply to a command whose arguments have no spaces; a space is written `~`, an empty one `''`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let args: Vec<String> = command.split(' ').map(|arg| arg.replace('~', " ").replace("''", "")).collect();
        self.client.ask(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Asks and compares, row by row.
    pub(crate) fn expect(&mut self, rows: &[(&str, &str)]) {
        for (command, reply) in rows {
            assert_eq!(self.ask(command), *reply, "{command}");
        }
    }

    /// Sets the clock to so many microseconds after the start.
    pub(crate) fn set(&self, us: u64) {
        self.clock.set(Timestamp::saturating(T + us));
    }

    /// Shows the server's token, which is allowed everything.
    pub(crate) fn login(&mut self) {
        let token = self.server.token().unwrap().text().to_owned();
        assert_eq!(self.client.ask(&["AUTH", &token]), "+OK");
    }

    pub(crate) fn another(&self) -> Client {
        Client::open(self.server.resp_addr().unwrap())
    }

    pub(crate) fn redis(&self) -> redis::Connection {
        let url = format!("redis://{}/", self.server.resp_addr().unwrap());
        redis::Client::open(url).unwrap().get_connection().unwrap()
    }
}

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// The reply, its lines joined by spaces: `*2 :1 $2 ab`.
    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        String::from_utf8_lossy(&self.reply(args)).trim_end().replace("\r\n", " ")
    }

    /// The reply's bytes.
    pub(crate) fn reply<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.as_ref().len()).bytes());
            bytes.extend(arg.as_ref());
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes).unwrap();
        let mut reply = Vec::new();
        self.read(&mut reply);
        reply
    }

    fn read(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        self.stream.read_until(b'\n', reply).unwrap();
        let line = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
        let number = || line[1..].parse::<i64>().unwrap();
        match line.as_bytes().first() {
            Some(b'$') if number() >= 0 => {
                let mut text = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut text).unwrap();
                reply.extend(text);
            }
            Some(b'*') => (0..number()).for_each(|_| self.read(reply)),
            Some(b'$' | b'+' | b'-' | b':') => {}
            _ => panic!("no reply: {line:?}"),
        }
    }
}
