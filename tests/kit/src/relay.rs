//! The threads of a proxy: one accepts, two carry the bytes of each connection; all end with the proxy.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use crate::error::{Error, ErrorContext};
use crate::fault::{ChunkAction, ConnectionFault, Direction, FaultSettings};
use crate::ports;
use crate::proxy::Counters;

/// Connections at once; more are closed as they come.
const CONNECTIONS: usize = 512;
const STACK: usize = 128 * 1024;
const CHUNK: usize = 16 * 1024;
/// Between two looks for a new connection, or for the end of the proxy during a delay.
const PAUSE: Duration = Duration::from_millis(1);
const CONNECT: Duration = Duration::from_secs(1);

/// What the threads of a proxy share.
#[derive(Debug)]
pub(crate) struct Relay {
    target: SocketAddr,
    pub(crate) addr: SocketAddr,
    /// None while connections are refused.
    listener: Mutex<Option<TcpListener>>,
    pub(crate) settings: Mutex<FaultSettings>,
    open: Mutex<HashMap<u64, Arc<Link>>>,
    carriers: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) tally: Tally,
    pub(crate) ended: AtomicBool,
}

impl Relay {
    /// Listens on a free port; the thread accepts until the relay is told that it ended.
    pub(crate) fn start(target: SocketAddr) -> Result<(Arc<Self>, JoinHandle<()>), Error> {
        let listener = ports::listen()?;
        let addr = listener.local_addr().doing("asking for the proxy's address")?;
        listener.set_nonblocking(true).doing("making the proxy's listener non-blocking")?;
        let relay = Arc::new(Self {
            target,
            addr,
            listener: Mutex::new(Some(listener)),
            settings: Mutex::default(),
            open: Mutex::default(),
            carriers: Mutex::default(),
            tally: Tally::default(),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&relay);
        let acceptor = thread::Builder::new().name("proxy".to_owned()).stack_size(STACK);
        let acceptor = acceptor.spawn(move || accepting.accept()).doing("starting the proxy")?;
        Ok((relay, acceptor))
    }

    pub(crate) fn refuse(&self) {
        *lock(&self.listener) = None;
    }

    pub(crate) fn listen_again(&self) -> Result<(), Error> {
        let mut listener = lock(&self.listener);
        if listener.is_none() {
            let new = TcpListener::bind(self.addr).doing("listening again")?;
            new.set_nonblocking(true).doing("listening again")?;
            *listener = Some(new);
        }
        Ok(())
    }

    pub(crate) fn close_all(&self) -> usize {
        let open = lock(&self.open);
        for link in open.values() {
            link.end();
        }
        open.len()
    }

    /// Waits for the threads of all connections, which are closed.
    pub(crate) fn join(&self) {
        let carriers = std::mem::take(&mut *lock(&self.carriers));
        for carrier in carriers {
            let _ = carrier.join();
        }
    }

    fn accept(self: &Arc<Self>) {
        while !self.ended.load(Ordering::SeqCst) {
            let accepted = lock(&self.listener).as_ref().map(TcpListener::accept);
            match accepted {
                Some(Ok((client, _))) => self.welcome(client),
                _ => sleep(PAUSE),
            }
        }
    }

    fn welcome(self: &Arc<Self>, client: TcpStream) {
        let number = self.tally.connections.fetch_add(1, Ordering::SeqCst);
        let link = if lock(&self.open).len() < CONNECTIONS { self.connect(client) } else { None };
        let Some(link) = link.map(Arc::new) else {
            self.tally.turned_away.fetch_add(1, Ordering::SeqCst);
            return;
        };
        lock(&self.open).insert(number, Arc::clone(&link));
        let relay = Arc::clone(self);
        let carrier = thread::Builder::new().stack_size(STACK).spawn(move || relay.serve(number, &link));
        let mut carriers = lock(&self.carriers);
        carriers.retain(|carrier| !carrier.is_finished());
        match carrier {
            Ok(carrier) => carriers.push(carrier),
            Err(_) => self.part(number),
        }
    }

    fn connect(&self, client: TcpStream) -> Option<Link> {
        let server = TcpStream::connect_timeout(&self.target, CONNECT).ok()?;
        client.set_nonblocking(false).ok()?;
        client.set_nodelay(true).ok()?;
        server.set_nodelay(true).ok()?;
        let connection_fault = Mutex::new(lock(&self.settings).begin());
        Some(Link { client, server, connection_fault })
    }

    /// Carries bytes both ways until both sides ended.
    fn serve(&self, number: u64, link: &Link) {
        thread::scope(|scope| {
            let down =
                thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || self.carry(link, Direction::Down));
            if down.is_err() {
                link.end();
            }
            self.carry(link, Direction::Up);
        });
        self.part(number);
    }

    fn part(&self, number: u64) {
        if let Some(link) = lock(&self.open).remove(&number) {
            link.end();
        }
    }

    fn carry(&self, link: &Link, direction: Direction) {
        let (mut from, mut to, counter) = match direction {
            Direction::Up => (&link.client, &link.server, &self.tally.up),
            Direction::Down => (&link.server, &link.client, &self.tally.down),
        };
        let mut buffer = [0; CHUNK];
        // A side that takes no more bytes does not stop the reading: closing a socket with bytes unread
        // would reset the connection, and the server might not do all that was forwarded before.
        let mut open = true;
        loop {
            let bytes = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
            };
            if !open {
                continue;
            }
            let step = lock(&self.settings).step(&mut lock(&link.connection_fault), direction, bytes.len());
            let (forward, cut) = match step {
                ChunkAction::Swallow => continue,
                ChunkAction::Forward { hold } => {
                    self.hold(hold);
                    (bytes, false)
                }
                ChunkAction::Cut { forward } => (bytes.get(..forward).unwrap_or(bytes), true),
            };
            // Counted first: who has the bytes may ask for the count.
            counter.fetch_add(forward.len() as u64, Ordering::SeqCst);
            open = to.write_all(forward).is_ok();
            if !open {
                counter.fetch_sub(forward.len() as u64, Ordering::SeqCst);
            }
            if cut {
                self.tally.cuts.fetch_add(1, Ordering::SeqCst);
                link.cut();
                open = false;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Waits, but not past the end of the proxy.
    fn hold(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.ended.load(Ordering::SeqCst) {
            let pause = left.min(PAUSE * 5);
            sleep(pause);
            left -= pause;
        }
    }
}

/// A connection: its two sockets, and what happens to it.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    connection_fault: Mutex<ConnectionFault>,
}

impl Link {
    /// The client learns at once; the server reads what was forwarded, and then the end.
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Write);
    }

    fn end(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// A thread that panicked leaves nothing half done here, so its lock is as good as any.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    connections: AtomicU64,
    turned_away: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    cuts: AtomicU64,
}

impl Tally {
    pub(crate) fn read(&self) -> Counters {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Counters {
            connections: of(&self.connections),
            turned_away: of(&self.turned_away),
            bytes_up: of(&self.up),
            bytes_down: of(&self.down),
            cuts: of(&self.cuts),
        }
    }
}
