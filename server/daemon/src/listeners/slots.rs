//! The number of connections, in all and of each caller.
//!
//! One caller, that is an IPv4 address or an IPv6 network of 64 bits, may have a limited number; 127.0.0.1, ::1 and
//! trusted proxies stand for many callers and have no such limit. All other callers ("strangers") together leave some
//! slots to those, so that a server that strangers have filled still answers its own machine. Each protocol leaves some
//! slots to the other, so that health, metrics and the gate have one while Redis clients have all the rest.
//!
//! A slot also reserves room in the bound on buffers (`buffers.rs`): a connection that does not fit there is not
//! accepted.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::{Prefix, Proxies};

use crate::buffers::{self, BufferBudget};
use crate::settings::ConnectionLimits;
use tollgate_telemetry::audit::FrontEnd;

/// One slot in this many is left to the other protocol, where there are at least [`FEW`] slots.
const OTHER: usize = 16;
const FEW: usize = 64;

/// The protocols of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocols {
    /// Whether the server speaks both protocols.
    pub(crate) both: bool,
    pub(crate) tls: bool,
}

/// The connection slots of a server.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    most: usize,
    /// How many of `most` are open to callers that have a limit of their own.
    most_of_strangers: usize,
    most_of_one: usize,
    /// How many of `most` are open to connections of one protocol.
    most_of_protocol: usize,
    protocols: Protocols,
    budget: Arc<BufferBudget>,
    trusted: Proxies,
    counts: Mutex<SlotCounts>,
}

/// The connections and bytes that are taken.
#[derive(Debug, Default)]
struct SlotCounts {
    all: usize,
    strangers: usize,
    by_prefix: HashMap<Prefix, usize>,
    /// The number of connections of each protocol.
    by_front_end: [usize; 2],
    /// The bytes that all connections reserve of the bound on buffers, and those of strangers.
    bytes: usize,
    strangers_bytes: usize,
}

/// A connection slot that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    /// The caller, if it has a limit of its own.
    stranger: Option<Prefix>,
    front_end: FrontEnd,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    /// All slots that are open to the caller are taken; how many those are.
    All(usize),
    /// The caller has as many connections as one caller may have.
    One(usize),
    /// The bound on buffers is reached; how many bytes of it are for connections.
    Buffers(usize),
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(most) => write!(f, "expected at most {most} connections in all"),
            Self::One(most) => write!(f, "expected at most {most} connections of one address"),
            Self::Buffers(most) => {
                write!(f, "expected connections that fit into {most} bytes of buffers; --buffers sets more")
            }
        }
    }
}

impl ConnectionSlots {
    /// Returns slots for `most` connections, which may be fewer than the limits say.
    pub(crate) fn new(
        most: usize,
        limits: &ConnectionLimits,
        trusted: Proxies,
        budget: Arc<BufferBudget>,
        protocols: Protocols,
    ) -> Self {
        let other = if protocols.both && most >= FEW { most / OTHER } else { 0 };
        // With fewer slots, the reserved part is reduced in proportion.
        let reserved = limits.reserved.min(limits.reserved * most / limits.connections.max(1));
        Self {
            most,
            most_of_strangers: most - reserved.min(most),
            most_of_one: limits.connections_per_prefix,
            most_of_protocol: most - other,
            protocols,
            budget,
            trusted,
            counts: Mutex::default(),
        }
    }

    /// Takes a slot for a connection from `ip`.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr, front_end: FrontEnd) -> Result<ConnectionSlot, SlotError> {
        let stranger = if self.is_known(ip.to_canonical()) { None } else { Some(Prefix::of(ip)) };
        let room = buffers::room(front_end, self.protocols.tls);
        let mut counts = self.counts();
        if counts.all >= self.most {
            return Err(SlotError::All(self.most));
        }
        if counts.by_front_end[front_end as usize] >= self.most_of_protocol {
            return Err(SlotError::All(self.most_of_protocol));
        }
        if counts.bytes + room > self.rooms(front_end) {
            return Err(SlotError::Buffers(self.budget.rooms()));
        }
        if let Some(prefix) = stranger {
            if counts.strangers >= self.most_of_strangers {
                return Err(SlotError::All(self.most_of_strangers));
            }
            if counts.strangers_bytes + room > self.rooms_of_strangers() {
                return Err(SlotError::Buffers(self.budget.rooms()));
            }
            let of = counts.by_prefix.get(&prefix).copied().unwrap_or_default();
            if of >= self.most_of_one {
                return Err(SlotError::One(self.most_of_one));
            }
            counts.by_prefix.insert(prefix, of + 1);
            counts.strangers += 1;
            counts.strangers_bytes += room;
        }
        counts.all += 1;
        counts.by_front_end[front_end as usize] += 1;
        counts.bytes += room;
        self.budget.note_rooms(counts.bytes);
        Ok(ConnectionSlot { slots: Arc::clone(self), stranger, front_end })
    }

    /// Returns the bytes that may be reserved in all for a connection of that protocol to be accepted: RESP leaves some
    /// to HTTP, as it leaves some slots.
    fn rooms(&self, front_end: FrontEnd) -> usize {
        let all = self.budget.rooms();
        if front_end == FrontEnd::Resp && self.most_of_protocol < self.most { all - all / OTHER } else { all }
    }

    /// Returns the bytes that strangers may reserve: the same part as of the slots.
    fn rooms_of_strangers(&self) -> usize {
        let (all, most) = (self.budget.rooms(), self.most.max(1));
        all / most * self.most_of_strangers + all % most
    }

    /// Returns whether an address has no limit of its own. Other addresses of 127.0.0.0/8 have one.
    fn is_known(&self, ip: IpAddr) -> bool {
        ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST) || self.trusted.trusts(ip)
    }

    fn counts(&self) -> MutexGuard<'_, SlotCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        let room = buffers::room(self.front_end, self.slots.protocols.tls);
        counts.all -= 1;
        counts.by_front_end[self.front_end as usize] -= 1;
        counts.bytes -= room;
        self.slots.budget.note_rooms(counts.bytes);
        let Some(prefix) = self.stranger else { return };
        counts.strangers -= 1;
        counts.strangers_bytes -= room;
        // A caller without connections is removed, so that addresses cannot fill the memory.
        match counts.by_prefix.get_mut(&prefix) {
            Some(of) if *of > 1 => *of -= 1,
            _ => drop(counts.by_prefix.remove(&prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(most: usize, reserved: usize, of_one: usize) -> Arc<ConnectionSlots> {
        let limits = ConnectionLimits {
            connections: most,
            reserved,
            connections_per_prefix: of_one,
            ..ConnectionLimits::default()
        };
        let trusted = Proxies::new(["10.0.0.0/8"]).unwrap();
        Arc::new(ConnectionSlots::new(most, &limits, trusted, Arc::default(), Protocols { both: true, tls: false }))
    }

    fn take(slots: &Arc<ConnectionSlots>, ip: &str, count: usize) -> Vec<Result<ConnectionSlot, SlotError>> {
        (0..count).map(|_| slots.take(ip.parse().unwrap(), FrontEnd::Resp)).collect()
    }

    fn got(taken: &[Result<ConnectionSlot, SlotError>]) -> usize {
        taken.iter().filter(|slot| slot.is_ok()).count()
    }

    #[test]
    fn a_caller_has_so_many_however_he_writes_his_address() {
        let slots = slots(100, 0, 3);
        let first = take(&slots, "192.0.2.7", 5);
        assert_eq!(got(&first), 3);
        assert_eq!(first[3].as_ref().unwrap_err(), &SlotError::One(3));
        assert_eq!(got(&take(&slots, "::ffff:192.0.2.7", 1)), 0);
        assert_eq!(got(&take(&slots, "127.0.0.2", 5)), 3, "not every loopback address is known");
        let six = take(&slots, "2001:db8::1", 2);
        assert_eq!(got(&six) + got(&take(&slots, "2001:db8::ffff:2", 5)), 3, "one network");
        drop(first);
        assert_eq!(got(&take(&slots, "192.0.2.7", 5)), 3, "slots are released");
    }

    #[test]
    fn known_callers_have_no_limit_of_their_own_and_a_reserve() {
        let slots = slots(16, 4, 3);
        let strangers: Vec<_> = (0..10).flat_map(|n| take(&slots, &format!("192.0.2.{n}"), 3)).collect();
        assert_eq!(got(&strangers), 12);
        assert_eq!(strangers[12].as_ref().unwrap_err(), &SlotError::All(12));
        let mut known = take(&slots, "127.0.0.1", 1);
        known.extend(take(&slots, "::1", 1));
        known.extend(take(&slots, "10.9.9.9", 1));
        known.extend(take(&slots, "::ffff:127.0.0.1", 3));
        assert_eq!(got(&known), 4);
        assert_eq!(known[5].as_ref().unwrap_err(), &SlotError::All(16));
        drop(strangers);
        assert_eq!(got(&take(&slots, "127.0.0.1", 20)), 12);
    }

    #[test]
    fn each_protocol_leaves_some_slots_to_the_other() {
        let slots = slots(64, 0, 100);
        let resp = take(&slots, "127.0.0.1", 64);
        assert_eq!(got(&resp), 60);
        assert_eq!(resp[60].as_ref().unwrap_err(), &SlotError::All(60));
        let localhost = "127.0.0.1".parse().unwrap();
        let http: Vec<_> = (0..5).map(|_| slots.take(localhost, FrontEnd::Http)).collect();
        assert_eq!(got(&http), 4);
    }

    #[test]
    fn a_connection_that_does_not_fit_into_the_buffers_is_not_taken() {
        // Of 16 MiB, 12 are for connections: 384 of HTTP with 32 KiB each, or 1,024 of RESP with 12.
        let limits = ConnectionLimits { reserved: 512, ..ConnectionLimits::default() };
        let with = |both, tls| {
            let budget = Arc::new(BufferBudget::new(16 << 20));
            let slots =
                ConnectionSlots::new(4_096, &limits, Proxies::none(), Arc::clone(&budget), Protocols { both, tls });
            (Arc::new(slots), budget)
        };
        let all = |slots: &Arc<ConnectionSlots>, front_end| {
            let taken = (0..).map_while(|_| slots.take(Ipv4Addr::LOCALHOST.into(), front_end).ok());
            taken.collect::<Vec<_>>()
        };
        let (slots, budget) = with(true, false);
        let http = all(&slots, FrontEnd::Http);
        assert_eq!(http.len(), 384);
        assert_eq!(slots.take(Ipv4Addr::LOCALHOST.into(), FrontEnd::Http).unwrap_err(), SlotError::Buffers(12 << 20));
        assert_eq!(budget.usage()[0].bytes, 12 << 20);
        drop(http);
        assert_eq!(budget.usage()[0].bytes, 0);
        let resp = all(&slots, FrontEnd::Resp);
        assert_eq!(resp.len(), 960, "a sixteenth is left to HTTP");
        assert_eq!(all(&slots, FrontEnd::Http).len(), 24);
        let (slots, _) = with(false, false);
        assert_eq!(all(&slots, FrontEnd::Resp).len(), 1_024);
        // Strangers leave an eighth of the bytes too.
        drop(resp);
        let (slots, _) = with(true, false);
        let strangers = (0..4_000).filter_map(|n| {
            let ip = Ipv4Addr::from_bits(0xc000_0000 + n);
            slots.take(ip.into(), FrontEnd::Http).ok()
        });
        assert_eq!(strangers.collect::<Vec<_>>().len(), 336);
    }

    #[test]
    fn nothing_is_kept_of_callers_that_have_gone() {
        let slots = slots(100, 0, 3);
        for n in 0..200 {
            assert_eq!(got(&take(&slots, &format!("192.0.2.{n}"), 2)), 2);
        }
        let counts = slots.counts();
        assert_eq!((counts.all, counts.strangers, counts.by_prefix.len()), (0, 0, 0));
    }

    #[test]
    fn fewer_slots_keep_their_part_in_reserve() {
        let of = |most| {
            let protocols = Protocols { both: true, tls: false };
            let slots =
                ConnectionSlots::new(most, &ConnectionLimits::default(), Proxies::none(), Arc::default(), protocols);
            (slots.most, slots.most_of_strangers)
        };
        assert_eq!(of(4_096), (4_096, 3_584));
        assert_eq!(of(800), (800, 700));
        assert_eq!(of(1), (1, 1));
    }
}
