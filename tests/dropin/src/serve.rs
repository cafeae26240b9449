//! A process of `tollgate serve` on free ports of the loopback, with the rights that it has as installed.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::Failure;
use crate::program::Surroundings;

/// What begins the line of its greeting that says where it speaks the Redis protocol.
const LISTENS: &str = "Redis protocol ";
/// The line of its greeting after which it says no more of itself.
const LAST: &str = "Try:";

/// A server, ended when dropped.
pub(crate) struct TollgateProcess {
    pub(crate) addr: SocketAddr,
    child: Child,
    /// Kept open, since it may print more.
    _printed: BufReader<ChildStdout>,
}

impl TollgateProcess {
    /// Starts one with these words more, and waits until it has said where it listens.
    pub(crate) fn start(surroundings: &Surroundings, words: &[String]) -> Result<Self, Failure> {
        let mut child = Command::new(&surroundings.tollgate)
            .args(["serve", "--resp", "127.0.0.1:0", "--http", "off", "--log", "off"])
            .args(words)
            // Where it leaves its token.
            .env("XDG_RUNTIME_DIR", surroundings.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let mut printed = BufReader::new(stdout);
        match read_greeting(&mut printed)? {
            Some(addr) => Ok(Self { addr, child, _printed: printed }),
            None => Err(format!("tollgate serve {} did not start: {}", words.join(" "), child.wait()?).into()),
        }
    }
}

impl Drop for TollgateProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end of the greeting; nothing if the server ended before.
fn read_greeting(printed: &mut BufReader<ChildStdout>) -> Result<Option<SocketAddr>, Failure> {
    let (mut line, mut addr) = (String::new(), None);
    while printed.read_line(&mut line)? > 0 {
        if let Some(place) = line.trim().strip_prefix(LISTENS) {
            addr = Some(place.trim().parse()?);
        }
        if line.starts_with(LAST) {
            return Ok(addr);
        }
        line.clear();
    }
    Ok(None)
}
