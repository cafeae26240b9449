//! Before anything is timed: a server answers at all, and what it answers is right.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Failure;
use crate::driver::ExpectedReplies;
use crate::replies;
use crate::request::Batch;
use crate::subjects::{COUNT, KEYS, Subject};

const BOUND: Duration = Duration::from_secs(5);
/// More than a limit lets through at once.
const ASKED: usize = COUNT + 50;

/// Whether the other side answers PING.
pub(crate) fn pings(mut stream: TcpStream) -> bool {
    let mut answer = [0; 7];
    let asked = stream.set_read_timeout(Some(BOUND)).and_then(|()| stream.write_all(b"*1\r\n$4\r\nPING\r\n"));
    asked.and_then(|()| stream.read_exact(&mut answer)).is_ok_and(|()| &answer == b"+PONG\r\n")
}

/// Asks for one key that no load asks for: the first reply is exact, and a limit lets through what it
/// says, and what comes back to it meanwhile, but not everything.
pub(crate) fn verify(addr: SocketAddr, subject: &Subject) -> Result<(), Failure> {
    let wrong = |what: &str, found: String| -> Failure { format!("expected {what}, found {found}").into() };
    let expected = ExpectedReplies { form: subject.form, replies: ASKED };
    let received = ask(addr, subject.words, expected)?;
    let first: Vec<i64> = received.lines().take(subject.form.lines()).filter_map(integer).collect();
    if !first.starts_with(subject.first) {
        return Err(wrong(&format!("a first reply that begins with {:?}", subject.first), format!("{first:?}")));
    }
    let allowed = replies::read(received.as_bytes(), subject.form, ASKED);
    let allowed = allowed.ok_or_else(|| wrong(&format!("{expected:?}"), received.clone()))?;
    let last = received.lines().next_back().and_then(integer);
    match subject.form {
        replies::Form::Integer if last != Some(ASKED as i64) => {
            Err(wrong(&format!("a count of {ASKED} in the end"), format!("{last:?}")))
        }
        replies::Form::Array(_) if !(COUNT..ASKED).contains(&allowed) => {
            Err(wrong(&format!("{COUNT} of {ASKED} requests allowed"), allowed.to_string()))
        }
        _ => Ok(()),
    }
}

/// Sends a batch on one key and reads all replies.
fn ask(addr: SocketAddr, words: &[&str], expected: ExpectedReplies) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(BOUND))?;
    let mut batch = Batch::new(words, expected.replies);
    batch.renumber(|| KEYS);
    stream.write_all(batch.bytes())?;
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    while replies::lines(&received) < expected.replies * expected.form.lines() {
        let read = stream.read(&mut buffer)?;
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if read == 0 || !replies::is_sound(&received, expected.form) {
            let received = String::from_utf8_lossy(&received);
            let shown: Vec<&str> = received.lines().take(2).collect();
            return Err(format!("expected replies of the form {:?}, found {shown:?}", expected.form).into());
        }
    }
    Ok(String::from_utf8(received)?)
}

/// The integer on a line.
fn integer(line: &str) -> Option<i64> {
    line.strip_prefix(':')?.parse().ok()
}
