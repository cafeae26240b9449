//! The load: one thread, so many connections, and on each a batch of requests that is followed by the next
//! as soon as all its replies are there.
//!
//! It has to be cheaper than what it drives: a batch takes one read, one write and one look at the clock,
//! besides its share of a poll.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::Failure;
use crate::histogram::DurationHistogram;
use crate::replies::{self, Form};
use crate::request::{Batch, Numbers};

/// Far more than the replies of a batch.
const BUFFER: usize = 16 * 1024;
/// Without a sign of life for so long, a server has stopped.
const SILENCE: Duration = Duration::from_secs(10);

/// Replies that came, and how long they took.
pub(crate) struct Tally {
    pub(crate) replies: u64,
    pub(crate) allowed: u64,
    pub(crate) histogram: DurationHistogram,
    pub(crate) elapsed: Duration,
}

impl Tally {
    fn new() -> Self {
        Self { replies: 0, allowed: 0, histogram: DurationHistogram::new(), elapsed: Duration::ZERO }
    }
}

/// Open connections, each with a batch on its way.
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    lines: Vec<BatchConnection>,
    numbers: Numbers,
    /// When to come to an end instead of sending more.
    ending: bool,
}

impl Driver {
    /// Connects, and sends the first batches.
    pub(crate) fn start(
        addr: SocketAddr,
        connections: usize,
        batch: &Batch,
        expected: ExpectedReplies,
        numbers: Numbers,
    ) -> Result<Self, Failure> {
        let poll = Poll::new()?;
        let mut lines = Vec::with_capacity(connections);
        for place in 0..connections {
            let mut line = BatchConnection::connect(addr, batch.clone(), expected)?;
            poll.registry().register(&mut line.stream, Token(place), Interest::READABLE | Interest::WRITABLE)?;
            lines.push(line);
        }
        let mut driver = Self { poll, events: Events::with_capacity(connections), lines, numbers, ending: false };
        let now = Instant::now();
        for line in &mut driver.lines {
            line.send(&mut driver.numbers, now)?;
        }
        Ok(driver)
    }

    /// Goes on until there were so many replies, or for so long.
    pub(crate) fn run(&mut self, replies: u64, bound: Duration) -> Result<Tally, Failure> {
        let mut tally = Tally::new();
        let began = Instant::now();
        while tally.replies < replies && tally.elapsed < bound {
            self.turn(&mut tally)?;
            tally.elapsed = began.elapsed();
        }
        Ok(tally)
    }

    /// Waits for the replies that are still to come, and closes the connections.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.ending = true;
        let mut tally = Tally::new();
        while self.lines.iter().any(|line| line.is_waiting) {
            self.turn(&mut tally)?;
        }
        Ok(())
    }

    fn turn(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        match self.poll.poll(&mut self.events, Some(SILENCE)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            done => done?,
        }
        if self.events.is_empty() {
            return Err(format!("no reply for {SILENCE:?}").into());
        }
        for event in &self.events {
            let Some(line) = self.lines.get_mut(event.token().0) else { continue };
            line.write()?;
            if let Some(now) = line.receive(tally, event.is_read_closed())? {
                if self.ending {
                    line.is_waiting = false;
                } else {
                    line.send(&mut self.numbers, now)?;
                }
            }
        }
        Ok(())
    }
}

/// What comes back for a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedReplies {
    pub(crate) form: Form,
    pub(crate) replies: usize,
}

/// One connection.
struct BatchConnection {
    stream: TcpStream,
    batch: Batch,
    /// Bytes of the batch that were sent.
    written: usize,
    sent: Instant,
    expected: ExpectedReplies,
    buffer: Vec<u8>,
    /// Bytes of replies to this batch, and lines in them.
    filled: usize,
    ended: usize,
    is_waiting: bool,
}

impl BatchConnection {
    fn connect(addr: SocketAddr, batch: Batch, expected: ExpectedReplies) -> Result<Self, Failure> {
        let stream = std::net::TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            batch,
            written: 0,
            sent: Instant::now(),
            expected,
            buffer: vec![0; BUFFER],
            filled: 0,
            ended: 0,
            is_waiting: false,
        })
    }

    fn send(&mut self, numbers: &mut Numbers, now: Instant) -> Result<(), Failure> {
        self.batch.renumber(|| numbers.next());
        (self.written, self.filled, self.ended) = (0, 0, 0);
        (self.sent, self.is_waiting) = (now, true);
        self.write()
    }

    /// Sends what is left of the batch, which is nothing unless the system took less than all of it.
    fn write(&mut self) -> Result<(), Failure> {
        while let Some(rest) = self.batch.bytes().get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what has come; the time, if it was the last of the batch. If the server is known to have left,
    /// no other event will tell so.
    fn receive(&mut self, tally: &mut Tally, has_left: bool) -> Result<Option<Instant>, Failure> {
        let whole = self.expected.replies * self.expected.form.lines();
        loop {
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            if room.is_empty() {
                return Err(self.unexpected("more than the replies"));
            }
            let read = match self.stream.read(room) {
                Ok(0) => return Err(self.unexpected("an end")),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            // If there was room for more there is no more: the next byte is another event.
            let is_all = read < room.len() && !has_left;
            self.ended += replies::lines(room.get(..read).unwrap_or_default());
            self.filled += read;
            if self.ended >= whole {
                return self.complete(tally).map(Some);
            }
            if self.received().ends_with(b"\n") && !replies::is_sound(self.received(), self.expected.form) {
                return Err(self.unexpected("an error"));
            }
            if is_all {
                return Ok(None);
            }
        }
    }

    fn complete(&mut self, tally: &mut Tally) -> Result<Instant, Failure> {
        let now = Instant::now();
        let ExpectedReplies { form, replies } = self.expected;
        let allowed = replies::read(self.received(), form, replies).ok_or_else(|| self.unexpected("other replies"))?;
        tally.replies += replies as u64;
        tally.allowed += allowed as u64;
        tally.histogram.add(now.duration_since(self.sent).as_nanos() as u64, replies as u64);
        Ok(now)
    }

    fn received(&self) -> &[u8] {
        self.buffer.get(..self.filled).unwrap_or_default()
    }

    fn unexpected(&self, found: &str) -> Failure {
        let ExpectedReplies { form, replies } = self.expected;
        let received = String::from_utf8_lossy(self.received());
        let shown: String = received.chars().take(200).collect();
        format!("expected {replies} replies of the form {form:?}, found {found}: {shown:?}").into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// Answers `requests` PINGs on one connection, in pieces of a few bytes, and ends.
    fn server(reply: &'static str, requests: usize) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut request = vec![0; Batch::new(&["PING"], 1).bytes().len()];
            for _ in 0..requests {
                stream.read_exact(&mut request).unwrap();
                reply.as_bytes().chunks(3).for_each(|piece| stream.write_all(piece).unwrap());
            }
        };
        (addr, spawn(serve))
    }

    fn start(addr: SocketAddr, form: Form) -> Driver {
        let batch = Batch::new(&["PING"], 4);
        Driver::start(addr, 1, &batch, ExpectedReplies { form, replies: 4 }, Numbers::random(10)).unwrap()
    }

    #[test]
    fn replies_are_counted_in_pieces() {
        let (addr, serving) = server("*2\r\n:1\r\n:99\r\n", 12);
        let mut driver = start(addr, Form::Array(2));
        let tally = driver.run(8, Duration::MAX).unwrap();
        assert_eq!((tally.replies, tally.allowed), (8, 8));
        driver.finish().unwrap();
        serving.join().unwrap();
    }

    #[test]
    fn an_error_of_the_server_ends_the_load() {
        for (reply, form, found) in [
            ("-ERR no\r\n", Form::Array(2), "-ERR no"),
            ("-ERR no\r\n", Form::Integer, "-ERR no"),
            ("*1\r\n:1\r\n", Form::Array(2), "*1"),
        ] {
            let (addr, serving) = server(reply, 4);
            let failure = start(addr, form).run(u64::MAX, Duration::MAX).err().unwrap().to_string();
            assert!(failure.contains(found), "{failure}");
            // It may find the connection closed before its last word.
            let _ = serving.join();
        }
    }

    #[test]
    fn a_server_that_leaves_ends_the_load() {
        let (addr, serving) = server(":1\r\n", 4);
        let failure = start(addr, Form::Integer).run(u64::MAX, Duration::MAX).err().unwrap();
        assert!(!failure.to_string().is_empty());
        serving.join().unwrap();
    }
}
