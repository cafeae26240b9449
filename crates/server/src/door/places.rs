//! How many connections there are, in all and of each caller.
//!
//! One caller, an IPv4 address or an IPv6 network of 64 bits, has so many; 127.0.0.1, ::1 and trusted proxies
//! stand for many callers and have no such limit. All others together leave some places to those, so that
//! a server that strangers have filled still answers its own machine.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_http::{Prefix, Proxies};

use crate::settings::Limits;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    /// Of these, for callers that have a limit of their own.
    most_of_strangers: usize,
    most_of_one: usize,
    trusted: Proxies,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    strangers: usize,
    of: HashMap<Prefix, usize>,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// Whose it is, if he has a limit.
    stranger: Option<Prefix>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are taken that may be; how many those are.
    All(usize),
    /// The caller has as many as one may have.
    One(usize),
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(most) => write!(f, "expected at most {most} connections in all"),
            Self::One(most) => write!(f, "expected at most {most} connections of one address"),
        }
    }
}

impl Places {
    /// Places for `most` connections, which may be fewer than the limits say.
    pub(crate) fn new(most: usize, limits: &Limits, trusted: Proxies) -> Self {
        // Fewer places keep the same part of them.
        let reserved = limits.reserved.min(limits.reserved * most / limits.connections.max(1));
        Self {
            most,
            most_of_strangers: most - reserved.min(most),
            most_of_one: limits.connections_per_prefix,
            trusted,
            taken: Mutex::default(),
        }
    }

    /// Takes a place for a connection from `ip`.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr) -> Result<Place, NoPlace> {
        let stranger = if self.is_known(ip.to_canonical()) { None } else { Some(Prefix::of(ip)) };
        let mut taken = self.taken();
        if taken.all >= self.most {
            return Err(NoPlace::All(self.most));
        }
        if let Some(prefix) = stranger {
            if taken.strangers >= self.most_of_strangers {
                return Err(NoPlace::All(self.most_of_strangers));
            }
            let of = taken.of.get(&prefix).copied().unwrap_or_default();
            if of >= self.most_of_one {
                return Err(NoPlace::One(self.most_of_one));
            }
            taken.of.insert(prefix, of + 1);
            taken.strangers += 1;
        }
        taken.all += 1;
        Ok(Place { places: Arc::clone(self), stranger })
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
        taken.all -= 1;
        let Some(prefix) = self.stranger else { return };
        taken.strangers -= 1;
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
        Arc::new(Places::new(most, &limits, Proxies::new(["10.0.0.0/8"]).unwrap()))
    }

    fn take(places: &Arc<Places>, ip: &str, count: usize) -> Vec<Result<Place, NoPlace>> {
        (0..count).map(|_| places.take(ip.parse().unwrap())).collect()
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
            let places = Places::new(most, &Limits::default(), Proxies::none());
            (places.most, places.most_of_strangers)
        };
        assert_eq!(of(4_096), (4_096, 3_584));
        assert_eq!(of(800), (800, 700));
        assert_eq!(of(1), (1, 1));
    }
}
