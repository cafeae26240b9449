//! The server's own counters. Counting is an addition to an atomic; the text is formatted at scrape time.
//!
//! | file | what it is |
//! |---|---|
//! | `reloads.rs` | results of reading the policy file |
//! | `dialects.rs` | decisions by calls of dialects, and their duration |
//! | `histogram.rs` | the duration of answers |
//! | `families.rs` | all metrics, gathered |
//! | `exposition.rs` | the same as text, in either format |
//!
//! Labels are names of policies and limits, words of tables and nothing else: never a key. There may be many policies,
//! so only 100 are labelled separately, and their limits up to a number.

mod dialects;
mod exposition;
mod families;
mod histogram;
mod reloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::buffers::BufferBudget;
use crate::http;
use crate::resp::commands::{RespCommand, table};
pub(crate) use dialects::DialectCounters;
pub(crate) use exposition::{exposition, plain};
pub(crate) use reloads::{ReloadCounters, ReloadResult};
use tollgate_keyspace::FaultCode;
use tollgate_telemetry::audit::FrontEnd;

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// The server has as many connections as it accepts.
    Full,
    /// The peer has as many connections as one peer may have.
    Peer,
    /// The TLS handshake failed.
    Tls,
}

impl ConnectionRefusal {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Peer, Self::Tls];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Peer => "peer",
            Self::Tls => "tls",
        }
    }
}

/// The counters of a server.
pub(crate) struct Metrics {
    /// Results of reading the policy file.
    pub(crate) reloads: ReloadCounters,
    /// Calls of dialects.
    pub(crate) dialects: DialectCounters,
    /// Runs of each command, by its place in the table.
    commands: Box<[AtomicU64]>,
    /// The place of TG.CHECK among them.
    check: usize,
    /// Requests of each route, by its place in the list.
    routes: Box<[AtomicU64]>,
    /// Error replies, by their code.
    faults: [AtomicU64; FaultCode::ALL.len()],
    /// HTTP error answers, by their status from 400 to 599.
    statuses: Box<[AtomicU64]>,
    connections: [AtomicI64; FrontEnd::ALL.len()],
    refused: [AtomicU64; ConnectionRefusal::ALL.len()],
    took: histogram::AnswerHistogram,
    started: SystemTime,
    /// The bound on buffers, which keeps its own counts.
    pub(crate) buffers: Arc<BufferBudget>,
}

impl Default for Metrics {
    fn default() -> Self {
        let counters = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            reloads: Default::default(),
            dialects: DialectCounters::default(),
            commands: counters(table::COMMANDS.len()),
            check: table::COMMANDS.iter().position(|command| command.name == "TG.CHECK").unwrap_or_default(),
            routes: counters(http::ROUTES.len()),
            faults: Default::default(),
            statuses: counters(200),
            connections: Default::default(),
            refused: Default::default(),
            took: Default::default(),
            started: SystemTime::now(),
            buffers: Arc::default(),
        }
    }
}

impl Metrics {
    /// Returns the counters of a server whose buffers have this bound.
    pub(crate) fn new(buffers: Arc<BufferBudget>) -> Self {
        Self { buffers, ..Self::default() }
    }

    /// Counts a run of a command of the table; a subcommand is counted as its command.
    pub(crate) fn command(&self, command: &'static RespCommand) {
        // Its place follows from its address, which is quicker than a search.
        let address = std::ptr::from_ref(command);
        let from = address.addr().checked_sub(table::COMMANDS.as_ptr().addr());
        let place = from.map(|from| from / size_of::<RespCommand>()).filter(|place| *place < table::COMMANDS.len());
        let whole = || table::COMMANDS.iter().position(|whole| whole.parts.as_ptr_range().contains(&address));
        let counter = place.or_else(whole).and_then(|place| self.commands.get(place));
        counter.inspect(|counter| add(counter, 1));
    }

    /// Counts checks that were decided in one call.
    #[inline]
    pub(crate) fn checks(&self, count: usize) {
        self.commands.get(self.check).inspect(|counter| add(counter, count as u64));
    }

    /// Counts an error reply.
    pub(crate) fn fault(&self, code: FaultCode) {
        let place = FaultCode::ALL.iter().position(|other| other.word() == code.word());
        place.and_then(|place| self.faults.get(place)).inspect(|counter| add(counter, 1));
    }

    /// Counts a request of the route at that place in the list.
    pub(crate) fn http_request(&self, place: usize) {
        self.routes.get(place).inspect(|counter| add(counter, 1));
    }

    /// Counts an answer that is an error.
    pub(crate) fn http_error(&self, status: u16) {
        let place = usize::from(status).checked_sub(400);
        place.and_then(|place| self.statuses.get(place)).inspect(|counter| add(counter, 1));
    }

    /// Counts the time taken to answer everything that arrived at once.
    #[inline]
    pub(crate) fn took(&self, took: Duration) {
        self.took.count(took);
    }

    /// Counts a connection that was not accepted.
    pub(crate) fn refused(&self, why: ConnectionRefusal) {
        self.refused.get(why as usize).inspect(|counter| add(counter, 1));
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connection(&self, front: FrontEnd) -> ConnectionGuard<'_> {
        let count = &self.connections[front as usize];
        count.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(count)
    }
}

/// A counted connection.
pub(crate) struct ConnectionGuard<'a>(&'a AtomicI64);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
