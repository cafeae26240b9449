//! All connections, as CLIENT LIST shows them. A line is written when a connection begins and when it describes itself,
//! which is seldom, so one lock is enough.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_kernel::Timestamp;

use super::session::Session;
use super::writer::Protocol;

/// The connections of a server.
pub(crate) struct Clients {
    /// The time at which the server started.
    pub(crate) since: Timestamp,
    lines: Mutex<BTreeMap<u64, ClientLine>>,
}

/// The line of a connection.
struct ClientLine {
    peer: SocketAddr,
    local: SocketAddr,
    since: Timestamp,
    name: Vec<u8>,
    library: [Vec<u8>; 2],
    db: u8,
    protocol: Protocol,
}

/// A connection that is listed until this is dropped.
pub(crate) struct ClientEntry<'a> {
    clients: &'a Clients,
    id: u64,
}

impl Drop for ClientEntry<'_> {
    fn drop(&mut self) {
        self.clients.lines().remove(&self.id);
    }
}

impl Clients {
    pub(crate) fn new(since: Timestamp) -> Self {
        Self { since, lines: Mutex::default() }
    }

    /// Lists a new connection.
    pub(crate) fn list(&self, session: &Session, now: Timestamp) -> ClientEntry<'_> {
        let line = ClientLine {
            peer: session.peer,
            local: session.local,
            since: now,
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            db: session.db,
            protocol: Protocol::default(),
        };
        self.lines().insert(session.id, line);
        ClientEntry { clients: self, id: session.id }
    }

    /// Updates the line of a connection that described itself.
    pub(crate) fn update(&self, session: &Session, protocol: Protocol) {
        if let Some(line) = self.lines().get_mut(&session.id) {
            line.name.clone_from(&session.name);
            line.library.clone_from(&session.library);
            line.db = session.db;
            line.protocol = protocol;
        }
    }

    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.lines().len()
    }

    /// Returns the lines of the requested connections, in the order in which they connected.
    pub(crate) fn text(&self, now: Timestamp, wanted: impl Fn(u64) -> bool) -> String {
        let mut text = String::new();
        for (id, line) in self.lines().iter().filter(|(id, _)| wanted(**id)) {
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            // Only facts: nothing is measured of a connection, so its buffers are not shown.
            let _ = writeln!(
                text,
                "id={id} addr={} laddr={} name={} age={} idle=0 flags=N db={} sub=0 psub=0 multi=-1 resp={} \
                 lib-name={} lib-ver={}",
                line.peer,
                line.local,
                said(&line.name),
                now.since(line.since).get() / 1_000_000,
                line.db,
                line.protocol.number(),
                said(&line.library[0]),
                said(&line.library[1]),
            );
        }
        text
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<u64, ClientLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
