//! Servers on a directory and by a clock of the test, and a client that shows replies as they came.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_daemon::{PersistSettings, Server, ServerSettings, StartError};
use tollgate_journal::disk::Disk;
use tollgate_kernel::{Micros, Timestamp};
use tollgate_memory::ManualClock;

/// Second 0 of minute 14.
pub(crate) const T: u64 = 1_700_000_040_000_000;

/// A clock at the beginning of all tests.
pub(crate) fn clock() -> ManualClock {
    ManualClock::at(Timestamp::saturating(T))
}

pub(crate) fn seconds(clock: &ManualClock, seconds: u64) {
    clock.advance(Micros::from_secs(seconds));
}

/// Waits for what other threads bring about; one that takes a minute has found a mistake.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came about");
        std::thread::yield_now();
    }
}

/// An empty place for a directory.
pub(crate) fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{name}"));
    let _ = fs::remove_dir_all(&place);
    place
}

/// A directory as a kill would leave it: its files as they are now.
pub(crate) fn copied(from: &Path, name: &str) -> PathBuf {
    let to = place(name);
    fs::create_dir(&to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o700)).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

pub(crate) fn settings(data: Option<PersistSettings>) -> ServerSettings {
    let resp = Some(([127, 0, 0, 1], 0).into());
    ServerSettings { resp, http: None, threads: 2, insecure_no_auth: true, data, ..ServerSettings::default() }
}

/// A server and a connection to it.
pub(crate) struct DataTestServer {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl DataTestServer {
    pub(crate) fn start(settings: ServerSettings, clock: &ManualClock) -> Self {
        Self::of(Server::start_with_clock(settings, clock)).unwrap()
    }

    /// On a directory, with the journal.
    pub(crate) fn on(dir: &Path, clock: &ManualClock) -> Self {
        Self::start(settings(Some(PersistSettings::new(dir))), clock)
    }

    /// On a disk in memory.
    pub(crate) fn on_disk(keeping: PersistSettings, clock: &ManualClock, disk: impl Disk) -> Result<Self, StartError> {
        Self::of(Server::start_with_disk(settings(Some(keeping)), clock, Arc::new(disk)))
    }

    fn of(server: Result<Server, StartError>) -> Result<Self, StartError> {
        let server = server?;
        let client = Client::open(server.resp_addr().unwrap());
        Ok(Self { server, client })
    }

    /// The reply to a command whose arguments have no spaces; a space is written `~`.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let args: Vec<String> = command.split(' ').map(|arg| arg.replace('~', " ")).collect();
        self.client.ask(&args)
    }

    /// The first integers of a decision: allowed, granted, remaining.
    pub(crate) fn remaining(&mut self, command: &str) -> i64 {
        let reply = self.ask(command);
        reply
            .split(' ')
            .nth(3)
            .and_then(|word| word.strip_prefix(':'))
            .unwrap_or_else(|| panic!("{reply}"))
            .parse()
            .unwrap()
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
        self.send(args);
        self.reply().unwrap()
    }

    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.as_ref().len()).bytes());
            bytes.extend(arg.as_ref());
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes).unwrap();
    }

    /// The next reply; nothing if the connection has ended.
    pub(crate) fn reply(&mut self) -> Option<String> {
        let mut reply = Vec::new();
        self.read(&mut reply)?;
        Some(String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " "))
    }

    fn read(&mut self, reply: &mut Vec<u8>) -> Option<()> {
        let start = reply.len();
        self.stream.read_until(b'\n', reply).ok().filter(|some| *some > 0)?;
        let line = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
        let number = || line[1..].parse::<i64>().unwrap();
        match line.as_bytes().first() {
            Some(b'$') if number() >= 0 => {
                let mut text = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut text).ok()?;
                reply.extend(text);
            }
            Some(b'*') => (0..number()).try_for_each(|_| self.read(reply))?,
            Some(b'$' | b'+' | b'-' | b':') => {}
            _ => panic!("no reply: {line:?}"),
        }
        Some(())
    }
}
