//! The limit on failed logins, decided by the server's own kernel.

use std::net::IpAddr;

use tollgate_http::Prefix;
use tollgate_kernel::{Clock, Micros, Policy, Request};
use tollgate_memory::{MIN_CAP, Memory, MemoryPolicy};

/// The limit on failed logins of one caller.
const MAX: &str = "5/s";

/// How long to wait if the decision gives no time.
const UNKNOWN: Micros = Micros::from_secs(1);

/// Failed logins, counted by the prefix they come from.
#[derive(Debug)]
pub(crate) struct LoginThrottle {
    memory: Memory,
    /// Always present; without it, every attempt would be refused.
    policy: Option<MemoryPolicy>,
}

impl LoginThrottle {
    pub(crate) fn new(clock: Box<dyn Clock>) -> Self {
        let memory = Memory::with_clock(MIN_CAP, clock);
        let policy = MAX.parse::<Policy>().ok().and_then(|policy| memory.prepare(&policy).ok());
        Self { memory, policy }
    }

    /// Returns how long a caller must wait before it may try; `None` if it may try now.
    pub(crate) fn wait(&self, ip: IpAddr) -> Option<Micros> {
        self.decide(ip, &Request { peek: true, ..Request::ONE })
    }

    /// Counts a failed login.
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
