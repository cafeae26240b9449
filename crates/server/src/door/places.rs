//! How many connections there are, in all and of each caller.
//!
//! One caller, an IPv4 address or an IPv6 network of 64 bits, has so many; 127.0.0.1, ::1 and trusted proxies
//! stand for many callers and have no such limit. All others together leave some places to those, so that
//! a server that strangers have filled still answers its own machine. Each protocol leaves some to the other, so
//! that health, metrics and the gate have one while Redis clients have all the rest.
//!
//! A place is also room in the bound on buffers (`held.rs`): a connection that does not fit there is not taken.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::{Prefix, Proxies};

use super::Speaks;
use crate::held::{self, Held};
use crate::settings::Limits;

/// One place in so many is left to the other protocol, where there are a few dozen.
const OTHER: usize = 16;
const FEW: usize = 64;

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// Both protocols, or one.
    pub(crate) both: bool,
    pub(crate) tls: bool,
}

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    /// Of these, for callers that have a limit of their own.
    most_of_strangers: usize,
    most_of_one: usize,
    /// Of these, for connections of one protocol.
    most_of_protocol: usize,
    spoken: Spoken,
    held: Arc<Held>,
    trusted: Proxies,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    strangers: usize,
    of: HashMap<Prefix, usize>,
    /// Connections of each protocol.
    speak: [usize; 2],
    /// Bytes that all have of the bound on buffers, and those of strangers.
    bytes: usize,
    strangers_bytes: usize,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// Whose it is, if he has a limit.
    stranger: Option<Prefix>,
    speaks: Speaks,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are taken that may be; how many those are.
    All(usize),
    /// The caller has as many as one may have.
    One(usize),
    /// The bound on buffers is reached; how many bytes of it are for connections.
    Buffers(usize),
}

impl fmt::Display for NoPlace {
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

impl Places {
    /// Places for `most` connections, which may be fewer than the limits say.
    pub(crate) fn new(most: usize, limits: &Limits, trusted: Proxies, held: Arc<Held>, spoken: Spoken) -> Self {
        let other = if spoken.both && most >= FEW { most / OTHER } else { 0 };
        // Fewer places keep the same part of them.
        let reserved = limits.reserved.min(limits.reserved * most / limits.connections.max(1));
        Self {
            most,
            most_of_strangers: most - reserved.min(most),
            most_of_one: limits.connections_per_prefix,
            most_of_protocol: most - other,
            spoken,
            held,
            trusted,
            taken: Mutex::default(),
        }
    }

    /// Takes a place for a connection from `ip`.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr, speaks: Speaks) -> Result<Place, NoPlace> {
        let stranger = if self.is_known(ip.to_canonical()) { None } else { Some(Prefix::of(ip)) };
        let room = held::room(speaks, self.spoken.tls);
        let mut taken = self.taken();
        if taken.all >= self.most {
            return Err(NoPlace::All(self.most));
        }
        if taken.speak[speaks as usize] >= self.most_of_protocol {
            return Err(NoPlace::All(self.most_of_protocol));
        }
        if taken.bytes + room > self.rooms(speaks) {
            return Err(NoPlace::Buffers(self.held.rooms()));
        }
        if let Some(prefix) = stranger {
            if taken.strangers >= self.most_of_strangers {
                return Err(NoPlace::All(self.most_of_strangers));
            }
            if taken.strangers_bytes + room > self.rooms_of_strangers() {
                return Err(NoPlace::Buffers(self.held.rooms()));
            }
            let of = taken.of.get(&prefix).copied().unwrap_or_default();
            if of >= self.most_of_one {
                return Err(NoPlace::One(self.most_of_one));
            }
            taken.of.insert(prefix, of + 1);
            taken.strangers += 1;
            taken.strangers_bytes += room;
        }
        taken.all += 1;
        taken.speak[speaks as usize] += 1;
        taken.bytes += room;
        self.held.note_rooms(taken.bytes);
        Ok(Place { places: Arc::clone(self), stranger, speaks })
    }

    /// Returns the bytes that may be taken when a connection of that protocol is: RESP leaves some to HTTP, as it
    /// leaves some places.
    fn rooms(&self, speaks: Speaks) -> usize {
        let all = self.held.rooms();
        if speaks == Speaks::Resp && self.most_of_protocol < self.most { all - all / OTHER } else { all }
    }

    /// Returns the bytes that strangers may take: the same part as of the places.
    fn rooms_of_strangers(&self) -> usize {
        let (all, most) = (self.held.rooms(), self.most.max(1));
        all / most * self.most_of_strangers + all % most
    }

    /// Whether an address has no limit of its own. Others of 127.0.0.0/8 have one.
    fn is_known(&self, ip: IpAddr) -> bool {
        ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST) || self.trusted.trusts(ip)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        let room = held::room(self.speaks, self.places.spoken.tls);
        taken.all -= 1;
        taken.speak[self.speaks as usize] -= 1;
        taken.bytes -= room;
        self.places.held.note_rooms(taken.bytes);
        let Some(prefix) = self.stranger else { return };
        taken.strangers -= 1;
        taken.strangers_bytes -= room;
        // Whoever has none left is forgotten, so that nobody can fill memory with addresses.
        match taken.of.get_mut(&prefix) {
            Some(of) if *of > 1 => *of -= 1,
            _ => drop(taken.of.remove(&prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, reserved: usize, of_one: usize) -> Arc<Places> {
        let limits = Limits { connections: most, reserved, connections_per_prefix: of_one, ..Limits::default() };
        let trusted = Proxies::new(["10.0.0.0/8"]).unwrap();
        Arc::new(Places::new(most, &limits, trusted, Arc::default(), Spoken { both: true, tls: false }))
    }

    fn take(places: &Arc<Places>, ip: &str, count: usize) -> Vec<Result<Place, NoPlace>> {
        (0..count).map(|_| places.take(ip.parse().unwrap(), Speaks::Resp)).collect()
    }

    fn got(taken: &[Result<Place, NoPlace>]) -> usize {
        taken.iter().filter(|place| place.is_ok()).count()
    }

    #[test]
    fn a_caller_has_so_many_however_he_writes_his_address() {
        let places = places(100, 0, 3);
        let first = take(&places, "192.0.2.7", 5);
        assert_eq!(got(&first), 3);
        assert_eq!(first[3].as_ref().unwrap_err(), &NoPlace::One(3));
        assert_eq!(got(&take(&places, "::ffff:192.0.2.7", 1)), 0);
        assert_eq!(got(&take(&places, "127.0.0.2", 5)), 3, "not every loopback address is known");
        let six = take(&places, "2001:db8::1", 2);
        assert_eq!(got(&six) + got(&take(&places, "2001:db8::ffff:2", 5)), 3, "one network");
        drop(first);
        assert_eq!(got(&take(&places, "192.0.2.7", 5)), 3, "places come back");
    }

    #[test]
    fn known_callers_have_no_limit_of_their_own_and_a_reserve() {
        let places = places(16, 4, 3);
        let strangers: Vec<_> = (0..10).flat_map(|n| take(&places, &format!("192.0.2.{n}"), 3)).collect();
        assert_eq!(got(&strangers), 12);
        assert_eq!(strangers[12].as_ref().unwrap_err(), &NoPlace::All(12));
        let mut known = take(&places, "127.0.0.1", 1);
        known.extend(take(&places, "::1", 1));
        known.extend(take(&places, "10.9.9.9", 1));
        known.extend(take(&places, "::ffff:127.0.0.1", 3));
        assert_eq!(got(&known), 4);
        assert_eq!(known[5].as_ref().unwrap_err(), &NoPlace::All(16));
        drop(strangers);
        assert_eq!(got(&take(&places, "127.0.0.1", 20)), 12);
    }

    #[test]
    fn each_protocol_leaves_some_places_to_the_other() {
        let places = places(64, 0, 100);
        let resp = take(&places, "127.0.0.1", 64);
        assert_eq!(got(&resp), 60);
        assert_eq!(resp[60].as_ref().unwrap_err(), &NoPlace::All(60));
        let localhost = "127.0.0.1".parse().unwrap();
        let http: Vec<_> = (0..5).map(|_| places.take(localhost, Speaks::Http)).collect();
        assert_eq!(got(&http), 4);
    }

    #[test]
    fn a_connection_that_does_not_fit_into_the_buffers_is_not_taken() {
        // Of 16 MiB, 12 are for connections: 384 of HTTP with 32 KiB each, or 1,024 of RESP with 12.
        let limits = Limits { reserved: 512, ..Limits::default() };
        let with = |both, tls| {
            let held = Arc::new(Held::new(16 << 20));
            let places = Places::new(4_096, &limits, Proxies::none(), Arc::clone(&held), Spoken { both, tls });
            (Arc::new(places), held)
        };
        let all = |places: &Arc<Places>, speaks| {
            let taken = (0..).map_while(|_| places.take(Ipv4Addr::LOCALHOST.into(), speaks).ok());
            taken.collect::<Vec<_>>()
        };
        let (places, held) = with(true, false);
        let http = all(&places, Speaks::Http);
        assert_eq!(http.len(), 384);
        assert_eq!(places.take(Ipv4Addr::LOCALHOST.into(), Speaks::Http).unwrap_err(), NoPlace::Buffers(12 << 20));
        assert_eq!(held.usage()[0].bytes, 12 << 20);
        drop(http);
        assert_eq!(held.usage()[0].bytes, 0);
        let resp = all(&places, Speaks::Resp);
        assert_eq!(resp.len(), 960, "a sixteenth is left to HTTP");
        assert_eq!(all(&places, Speaks::Http).len(), 24);
        let (places, _) = with(false, false);
        assert_eq!(all(&places, Speaks::Resp).len(), 1_024);
        // Strangers leave an eighth of the bytes too.
        drop(resp);
        let (places, _) = with(true, false);
        let strangers = (0..4_000).filter_map(|n| {
            let ip = Ipv4Addr::from_bits(0xc000_0000 + n);
            places.take(ip.into(), Speaks::Http).ok()
        });
        assert_eq!(strangers.collect::<Vec<_>>().len(), 336);
    }

    #[test]
    fn nothing_is_kept_of_callers_that_have_gone() {
        let places = places(100, 0, 3);
        for n in 0..200 {
            assert_eq!(got(&take(&places, &format!("192.0.2.{n}"), 2)), 2);
        }
        let taken = places.taken();
        assert_eq!((taken.all, taken.strangers, taken.of.len()), (0, 0, 0));
    }

    #[test]
    fn fewer_places_keep_their_part_in_reserve() {
        let of = |most| {
            let spoken = Spoken { both: true, tls: false };
            let places = Places::new(most, &Limits::default(), Proxies::none(), Arc::default(), spoken);
            (places.most, places.most_of_strangers)
        };
        assert_eq!(of(4_096), (4_096, 3_584));
        assert_eq!(of(800), (800, 700));
        assert_eq!(of(1), (1, 1));
    }
}
