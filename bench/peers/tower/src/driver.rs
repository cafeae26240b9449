//! The load: one thread that goes around the open connections of a server, takes the response of each and sends its
//! next request.
//!
//! It has to be cheaper than what it drives: a request is one write and one read, and nobody asks which connection
//! is ready. All others have a request on its way while one is waited for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::response::{LARGEST, REQUEST, whole};

/// Without a response for so long, a server has stopped.
const SILENCE: Duration = Duration::from_secs(10);

/// What came in a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) responses: u64,
    /// Those with the status that all should have.
    pub(crate) expected: u64,
    pub(crate) elapsed: Duration,
}

/// Open connections to one server, none of which waits for anything.
pub(crate) struct Driver {
    streams: Vec<TcpStream>,
    buffer: Box<[u8; LARGEST]>,
}

impl Driver {
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> Result<Self, Failure> {
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
            Ok(stream)
        };
        let streams = (0..connections).map(|_| open()).collect::<Result<_, Failure>>()?;
        Ok(Self { streams, buffer: Box::new([0; LARGEST]) })
    }

    /// Sends for as long as `slice`, and waits for what is left on its way.
    pub(crate) fn run(&mut self, slice: Duration, status: u16) -> Result<Tally, Failure> {
        let mut tally = Tally { responses: 0, expected: 0, elapsed: Duration::ZERO };
        let began = Instant::now();
        self.streams.iter_mut().try_for_each(|stream| stream.write_all(REQUEST))?;
        let mut ending = false;
        while !ending {
            ending = began.elapsed() >= slice;
            for stream in &mut self.streams {
                let found = response(stream, &mut self.buffer)?;
                tally.responses += 1;
                tally.expected += u64::from(found == status);
                if !ending {
                    stream.write_all(REQUEST)?;
                }
            }
        }
        tally.elapsed = began.elapsed();
        Ok(tally)
    }
}

/// The status of the response that comes next.
fn response(stream: &mut TcpStream, buffer: &mut [u8; LARGEST]) -> Result<u16, Failure> {
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..])? {
            0 => return Err("the server closed a connection, or a response was too long".into()),
            more => filled += more,
        }
        if let Some((status, length)) = whole(&buffer[..filled])? {
            return if length == filled { Ok(status) } else { Err("more came than a response".into()) };
        }
    }
}
