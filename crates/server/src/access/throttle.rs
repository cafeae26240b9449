//! How often a caller may be wrong. Decided by the kernel that the server is there for.

use std::net::IpAddr;

use tollgate_core::{Clock, Micros, Policy, Request};
use tollgate_http::Prefix;
use tollgate_memory::{LEAST_CAP, Memory, Prepared};

/// Failed logins of one caller.
const MOST: &str = "5/s";

/// How long to wait if nothing better is known.
const UNKNOWN: Micros = Micros::from_secs(1);

/// Failed logins, by the prefix they come from.
#[derive(Debug)]
pub(crate) struct Throttle {
    memory: Memory,
    /// There always is one; without it nobody may try.
    policy: Option<Prepared>,
}

impl Throttle {
    pub(crate) fn new(clock: Box<dyn Clock>) -> Self {
        let memory = Memory::with_clock(LEAST_CAP, clock);
        let policy = MOST.parse::<Policy>().ok().and_then(|policy| memory.prepare(&policy).ok());
        Self { memory, policy }
    }

    /// How long a caller has to wait before he may try; nothing if he may.
    pub(crate) fn wait(&self, ip: IpAddr) -> Option<Micros> {
        self.decide(ip, &Request { peek: true, ..Request::ONE })
    }

    /// A caller was wrong.
    pub(crate) fn failed(&self, ip: IpAddr) {
        self.decide(ip, &Request::ONE);
    }

    fn decide(&self, ip: IpAddr, request: &Request) -> Option<Micros> {
        let Some(policy) = &self.policy else { return Some(UNKNOWN) };
        let mut caller = Vec::with_capacity(48);
        Prefix::of(ip).write(&mut caller);
        match self.memory.check(policy, &caller, request) {
            Ok(decision) if decision.allowed => None,
            Ok(decision) => Some(decision.retry_after.span().unwrap_or(UNKNOWN)),
            Err(_) => Some(UNKNOWN),
        }
    }
}
