//! The bound on buffers: every byte that a connection can make the server keep, beside limits and keys.
//!
//! ```text
//! --buffers 64 MiB ─┬─ 3/4, connections: each takes its room when it is accepted, and keeps it to its end
//!                   │       RESP 12 KiB: input, replies, the last check, a short MULTI queue
//!                   │       HTTP 32 KiB: a head, a short body, a short answer, what hyper takes
//!                   │       TLS  32 KiB more: its records and keys
//!                   └─ 1/4, shared: what is longer than that: commands, pipelines, MULTI queues, bodies,
//!                           answers and replies that wait for a slow reader; an eighth of it is kept for /metrics
//! ```
//!
//! A connection for which there is no room is not accepted. Since its own room is reserved by then, a command of
//! ordinary length ([`OWN`] bytes) is served whatever other connections do. A holder takes at most an eighth of what is
//! left of the shared part, so that a few holders cannot take all of it; and while more than half of it is taken, a
//! holder that has had its part for [`GIVE_BACK`] gives it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use tollgate_telemetry::audit::FrontEnd;

/// The default bound, in bytes.
pub const DEFAULT_BUFFERS: usize = 64 << 20;
/// The smallest bound that may be set: the longest command fits into one holder's share of it.
pub const MIN_BUFFERS: usize = 16 << 20;

/// The bytes that one holder may use of its connection's own room: enough for nearly every command.
pub(crate) const OWN: usize = 2 << 10;
/// The room that each connection reserves.
const RESP_ROOM: usize = 12 << 10;
const HTTP_ROOM: usize = 32 << 10;
const TLS_ROOM: usize = 32 << 10;
/// How long a holder keeps its part of the shared bytes while room is scarce.
pub(crate) const GIVE_BACK: Duration = Duration::from_secs(10);
/// A holder takes at most one part in this many of what is left.
const SHARE: usize = 8;

/// Returns the bytes that each connection reserves.
pub(crate) const fn room(front_end: FrontEnd, tls: bool) -> usize {
    let room = match front_end {
        FrontEnd::Resp => RESP_ROOM,
        FrontEnd::Http => HTTP_ROOM,
    };
    if tls { room + TLS_ROOM } else { room }
}

/// The bound on the buffers of all connections.
#[derive(Debug)]
pub(crate) struct BufferBudget {
    /// The bytes for connections, and how many of them are taken.
    rooms: usize,
    taken: AtomicUsize,
    /// The bytes that are shared, and how many of them are left.
    shared: usize,
    left: AtomicUsize,
    /// How often there was no room.
    refused: AtomicU64,
}

/// The bytes that one holder has of the shared part, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct BufferLease {
    budget: Option<Arc<BufferBudget>>,
    bytes: usize,
    /// The time at which it took its first byte.
    since: Option<Instant>,
}

/// The bytes taken of one part, and the limit of that part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferUsage {
    pub(crate) part: &'static str,
    pub(crate) bytes: usize,
    pub(crate) limit: usize,
}

impl Default for BufferBudget {
    fn default() -> Self {
        Self::new(DEFAULT_BUFFERS)
    }
}

impl BufferBudget {
    /// Returns a bound of that number of bytes, at least [`MIN_BUFFERS`].
    pub(crate) fn new(buffers: usize) -> Self {
        let buffers = buffers.max(MIN_BUFFERS);
        let shared = buffers / 4;
        Self {
            rooms: buffers - shared,
            taken: AtomicUsize::new(0),
            shared,
            left: AtomicUsize::new(shared),
            refused: AtomicU64::new(0),
        }
    }

    /// Returns the bytes that connections may reserve.
    pub(crate) fn rooms(&self) -> usize {
        self.rooms
    }

    /// Records the bytes that connections reserve; the acceptor decides whether there is room for more.
    pub(crate) fn note_rooms(&self, taken: usize) {
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Returns the bytes taken of both parts.
    pub(crate) fn usage(&self) -> [BufferUsage; 2] {
        let bytes = self.shared - self.left.load(Ordering::Relaxed).min(self.shared);
        [
            BufferUsage { part: "connections", bytes: self.taken.load(Ordering::Relaxed), limit: self.rooms },
            BufferUsage { part: "shared", bytes, limit: self.shared },
        ]
    }

    /// Returns how often there was no room in the shared part.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether more than half of the shared part is taken, so that holders that have had theirs for long give
    /// it back.
    pub(crate) fn is_scarce(&self) -> bool {
        self.left.load(Ordering::Relaxed) < self.shared / 2
    }

    /// Takes `more` bytes for a holder that has `has`, provided that its total is within one part in `share` of what is
    /// left and not reserved.
    pub(crate) fn take(&self, has: usize, more: usize, share: usize) -> bool {
        let reserve = self.shared / SHARE;
        self.take_if(more, |left| has + more <= (left.saturating_sub(reserve) + has) / share)
    }

    /// Takes bytes for an answer that must be given even while everything else is full.
    pub(crate) fn take_reserved(&self, bytes: usize) -> bool {
        self.take_if(bytes, |_| true)
    }

    fn take_if(&self, more: usize, may: impl Fn(usize) -> bool) -> bool {
        let next = |left: usize| left.checked_sub(more).filter(|_| may(left));
        let took = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        if !took {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        took
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl BufferLease {
    /// Keeps that number of bytes instead of the previous one. Returns `false` and changes nothing if there is no room
    /// for more.
    #[must_use]
    pub(crate) fn keep(&mut self, budget: &Arc<BufferBudget>, bytes: usize) -> bool {
        self.keep_share(budget, bytes, SHARE)
    }

    /// Does the same for replies, which exist already and are kept for a few seconds at most: they may take all that is
    /// left.
    #[must_use]
    pub(crate) fn keep_replies(&mut self, budget: &Arc<BufferBudget>, bytes: usize) -> bool {
        self.keep_share(budget, bytes, 1)
    }

    fn keep_share(&mut self, budget: &Arc<BufferBudget>, bytes: usize, share: usize) -> bool {
        let bytes = bytes.saturating_sub(OWN);
        if bytes > self.bytes {
            if !budget.take(self.bytes, bytes - self.bytes, share) {
                return false;
            }
            self.budget.get_or_insert_with(|| Arc::clone(budget));
            self.since.get_or_insert_with(Instant::now);
        } else if bytes < self.bytes {
            budget.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        if bytes == 0 {
            self.since = None;
        }
        true
    }

    /// Returns the time at which it gives back its bytes if room is scarce; `None` if it has none.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + GIVE_BACK)
    }
}

impl Drop for BufferLease {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_holder_takes_an_eighth_of_what_is_left_and_a_little_always() {
        // 16 MiB are shared, of which 2 are reserved.
        let budget = Arc::new(BufferBudget::default());
        let mut leases: Vec<BufferLease> = (0..600).map(|_| BufferLease::default()).collect();
        assert!(!leases[0].keep(&budget, 2 * MIB) && leases[0].keep(&budget, OWN + 14 * MIB / 8));
        assert!(leases[0].keep(&budget, OWN), "less than before");
        let kept = leases.iter_mut().filter_map(|lease| lease.keep(&budget, OWN + (256 << 10)).then_some(())).count();
        assert_eq!(kept, 49, "until less than eight times as much is left");
        assert!(leases[kept].keep(&budget, OWN + (200 << 10)), "shorter ones still fit");
        for lease in &mut leases[kept + 1..] {
            let most = (1..=256).rev().find(|kib| lease.keep(&budget, OWN + (kib << 10)));
            assert!(most.is_some() || budget.usage()[1].bytes > 13 * MIB);
            assert!(lease.keep(&budget, OWN), "a little is always kept");
        }
        assert!(budget.is_scarce());
        // The reserved bytes are still available.
        assert!(budget.take_reserved(MIB));
        budget.give_back(MIB);
        assert!(budget.refused() > 0);
        drop(leases);
        assert_eq!(budget.usage()[1], BufferUsage { part: "shared", bytes: 0, limit: 16 * MIB });
        assert_eq!(budget.rooms(), 48 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_as_old_as_its_first_byte() {
        let budget = Arc::new(BufferBudget::default());
        let mut lease = BufferLease::default();
        let start = Instant::now();
        assert!(lease.keep(&budget, OWN) && lease.deadline().is_none());
        assert!(lease.keep(&budget, OWN + 1));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(lease.keep(&budget, OWN + 2));
        assert_eq!(lease.deadline(), Some(start + GIVE_BACK), "more does not make it younger");
        assert!(lease.keep(&budget, 0) && lease.deadline().is_none());
    }
}
