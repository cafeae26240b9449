//! The order of the waiters: one linked row of waiters for each key, so that a waiter leaves without a search.
//!
//! This module neither reads the time nor wakes any task: it returns the wakers to be woken. Laws: the deadlines in
//! a row are in the order of the row; the first of a row is its head, and remains so until it leaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use slab::Slab;
use tollgate_kernel::Timestamp;

use super::lengths::RowLengths;

/// The number of waiters whose memory may be kept when the queue becomes empty.
const KEEP: usize = 64;

#[derive(Default)]
pub(super) struct LineQueue {
    /// The row of a key. Clients choose keys, so the map's hash has a random seed.
    keys: HashMap<Arc<[u8]>, usize>,
    rows: Slab<WaiterRow>,
    waiters: Slab<Waiter>,
    lengths: RowLengths,
    /// How many waiters have ever arrived.
    arrivals: u64,
}

struct WaiterRow {
    key: Arc<[u8]>,
    last: usize,
    length: usize,
}

struct Waiter {
    /// Distinguishes it from other waiters that use the same slot before or after.
    number: u64,
    row: usize,
    before: Option<usize>,
    after: Option<usize>,
    until: Timestamp,
    waker: Option<Waker>,
}

/// A waiter's reference to its position in the queue.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    slot: usize,
    number: u64,
    /// Its deadline.
    pub(super) until: Timestamp,
    /// Whether it was the first when it arrived.
    pub(super) leads: bool,
}

/// The status of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterStatus {
    /// It is the first of its key.
    Head,
    /// Other waiters of its key are before it.
    Waiting,
    /// The waiter no longer has a position: it was displaced, or its deadline passed.
    Gone,
}

/// Wakers that have left the queue. `wake` is to be woken; both are to be dropped outside the lock.
#[derive(Default)]
#[must_use = "a waiter that is not woken waits forever"]
pub(super) struct ReleasedWakers {
    pub(super) wake: Option<Waker>,
    pub(super) forget: Option<Waker>,
}

impl LineQueue {
    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Takes a place at the end of the key's row, if there is room. A displaced waiter is returned to be woken.
    pub(super) fn join(
        &mut self,
        key: &[u8],
        until: Timestamp,
        most: usize,
        most_a_key: usize,
    ) -> Option<(Ticket, ReleasedWakers)> {
        let row = self.keys.get(key).copied();
        let length = row.and_then(|row| self.rows.get(row)).map_or(0, |row| row.length);
        if length >= most_a_key {
            return None;
        }
        let wakers = if self.waiters.len() < most { ReleasedWakers::default() } else { self.displace(length)? };
        Some((self.append(row, key, until), wakers))
    }

    /// Returns the status of this waiter. If it waits behind others, `waker` is woken when that changes.
    pub(super) fn status(&mut self, ticket: &Ticket, waker: &Waker) -> (WaiterStatus, Option<Waker>) {
        let Some(waiter) = self.waiters.get_mut(ticket.slot).filter(|waiter| waiter.number == ticket.number) else {
            return (WaiterStatus::Gone, None);
        };
        if waiter.before.is_none() {
            return (WaiterStatus::Head, waiter.waker.take());
        }
        match &waiter.waker {
            Some(known) if known.will_wake(waker) => (WaiterStatus::Waiting, None),
            _ => (WaiterStatus::Waiting, waiter.waker.replace(waker.clone())),
        }
    }

    /// Gives up a place, if the waiter still has one. If it was the head, the next waiter is returned to be woken.
    pub(super) fn leave(&mut self, ticket: &Ticket) -> ReleasedWakers {
        match self.waiters.get(ticket.slot) {
            Some(waiter) if waiter.number == ticket.number => self.remove(ticket.slot),
            _ => ReleasedWakers::default(),
        }
    }

    /// Returns the first deadline behind this waiter.
    pub(super) fn next_deadline(&self, ticket: &Ticket) -> Option<Timestamp> {
        let next = self.behind(ticket)?;
        self.waiters.get(next).map(|waiter| waiter.until)
    }

    /// Removes the waiters behind this one whose deadline has passed, and returns their wakers.
    pub(super) fn expire(&mut self, ticket: &Ticket, now: Timestamp) -> Vec<Waker> {
        let mut late = Vec::new();
        while let Some(slot) = self.behind(ticket)
            && self.waiters.get(slot).is_some_and(|waiter| waiter.until <= now)
        {
            late.extend(self.remove(slot).forget);
        }
        late
    }

    fn behind(&self, ticket: &Ticket) -> Option<usize> {
        self.waiters.get(ticket.slot).filter(|waiter| waiter.number == ticket.number)?.after
    }

    /// Displaces the last waiter of the longest row, if that row stays at least as long as the row that gains the
    /// place, whose length is `length` before: so no two keys displace each other in turn.
    fn displace(&mut self, length: usize) -> Option<ReleasedWakers> {
        let (longest, row) = self.lengths.longest()?;
        if length + 1 >= longest {
            return None;
        }
        let last = self.rows.get(row)?.last;
        let ReleasedWakers { wake, forget } = self.remove(last);
        // The row had at least two waiters, so its last one was not the head, and there was no waiter behind it to
        // wake.
        Some(ReleasedWakers { wake: forget, forget: wake })
    }

    fn append(&mut self, row: Option<usize>, key: &[u8], until: Timestamp) -> Ticket {
        self.arrivals += 1;
        let (number, slot) = (self.arrivals, self.waiters.vacant_key());
        let row = row.unwrap_or_else(|| {
            let key: Arc<[u8]> = key.into();
            let row = self.rows.insert(WaiterRow { key: key.clone(), last: slot, length: 0 });
            self.keys.insert(key, row);
            row
        });
        let mut waiter = Waiter { number, row, before: None, after: None, until, waker: None };
        if let Some(found) = self.rows.get_mut(row) {
            if found.length > 0 {
                waiter.before = Some(found.last);
            }
            found.last = slot;
            found.length += 1;
            self.lengths.change(row, found.length - 1, found.length);
        }
        if let Some(last) = waiter.before.and_then(|last| self.waiters.get_mut(last)) {
            last.after = Some(slot);
            // A clock that goes back does not change the order of the deadlines.
            waiter.until = until.max(last.until);
        }
        let ticket = Ticket { slot, number, until: waiter.until, leads: waiter.before.is_none() };
        self.waiters.insert(waiter);
        ticket
    }

    fn remove(&mut self, slot: usize) -> ReleasedWakers {
        let Some(gone) = self.waiters.try_remove(slot) else { return ReleasedWakers::default() };
        let mut wakers = ReleasedWakers { wake: None, forget: gone.waker };
        if let Some(before) = gone.before.and_then(|before| self.waiters.get_mut(before)) {
            before.after = gone.after;
        }
        if let Some(after) = gone.after.and_then(|after| self.waiters.get_mut(after)) {
            after.before = gone.before;
            if gone.before.is_none() {
                wakers.wake = after.waker.take();
            }
        }
        self.shorten(gone.row, gone.before, gone.after);
        wakers
    }

    /// Removes a row's waiter that stood between these two.
    fn shorten(&mut self, row: usize, before: Option<usize>, after: Option<usize>) {
        let Some(found) = self.rows.get_mut(row) else { return };
        found.length -= 1;
        self.lengths.change(row, found.length + 1, found.length);
        if found.length == 0 {
            let gone = self.rows.remove(row);
            self.keys.remove(&gone.key);
        } else if after.is_none() {
            found.last = before.unwrap_or(found.last);
        }
        if self.waiters.is_empty() && self.waiters.capacity() > KEEP {
            self.waiters = Slab::new();
            self.rows = Slab::new();
            self.keys.shrink_to(0);
        }
    }
}
