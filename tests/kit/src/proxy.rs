//! A TCP proxy that does harm on request: cuts, lost replies, stalls, delays, refusals.
//!
//! What its users see is here. What happens to which connection is decided in `fault.rs`, and done in
//! `relay.rs`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crate::error::Error;
use crate::fault::Fault;
use crate::relay::{Relay, lock};

/// A proxy in front of a server.
#[derive(Debug)]
pub struct Proxy {
    faults: Faults,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to the target.
    pub fn start(target: SocketAddr) -> Result<Self, Error> {
        let (relay, acceptor) = Relay::start(target)?;
        Ok(Self { faults: Faults(relay), acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.faults.0.addr
    }

    /// Where it listens, for clients.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    /// What goes wrong; a clone of it may be changed from another thread.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.faults.0.tally.read()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let relay = &self.faults.0;
        relay.ended.store(true, Ordering::SeqCst);
        // The acceptor first, so that no connection comes after all were closed.
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        relay.refuse();
        relay.close_all();
        relay.join();
    }
}

/// The faults of a proxy, to be changed while it runs.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Relay>);

impl Faults {
    /// For all connections, old and new, until something else is set. Bytes count from now.
    pub fn set(&self, fault: Fault) {
        lock(&self.0.settings).set(fault);
    }

    /// For one connection: the first, old or new, on which the client sends something from now on. It
    /// keeps the fault to its end; others are not touched.
    pub fn once(&self, fault: Fault) {
        lock(&self.0.settings).once(fault);
    }

    /// For the next connection made.
    pub fn next(&self, fault: Fault) {
        self.next_many(1, fault);
    }

    /// For each of the next so many connections made, after those armed before.
    pub fn next_many(&self, connections: usize, fault: Fault) {
        lock(&self.0.settings).next(connections, fault);
    }

    /// How many armed faults wait for their connection.
    pub fn armed(&self) -> usize {
        lock(&self.0.settings).armed()
    }

    /// Sets nothing and arms nothing. Connections that took a fault of their own keep it.
    pub fn clear(&self) {
        lock(&self.0.settings).clear();
    }

    /// Refuses new connections as a port does on which nobody listens. Open ones go on.
    pub fn refuse(&self) {
        self.0.refuse();
    }

    /// Takes new connections again, on the same port.
    pub fn accept(&self) -> Result<(), Error> {
        self.0.listen_again()
    }

    /// Ends every open connection at both sides, and returns how many there were.
    pub fn close_all(&self) -> usize {
        self.0.close_all()
    }
}

/// What a proxy has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Of these, closed at once: too many, or no way to the server.
    pub turned_away: u64,
    /// Bytes forwarded to the server.
    pub bytes_up: u64,
    /// Bytes delivered to clients.
    pub bytes_down: u64,
    /// Connections ended by a fault.
    pub cuts: u64,
}
