//! Homes: each answers the operations of a scenario. More homes join by a line in [`HOMES`].

use std::fmt;

use serde_json::{Map, Value};

use crate::kernel::Kernel;
use crate::line::{Operation, Scenario};
use crate::memory::Embedded;
use crate::redis::{Packaging, RedisHome};
use crate::server::ServerHome;

/// The fields of an answer.
pub type Answer = Map<String, Value>;

/// Where decisions are made.
pub trait Home {
    /// Begins a scenario with fresh state. Refuses a limiter it does not know and a policy that is
    /// none; what comes after a refusal up to the next scenario is refused too.
    fn scenario(&mut self, scenario: &Scenario) -> Result<(), Refusal>;

    /// Decides an operation of the scenario. A refusal changes nothing.
    fn operation(&mut self, operation: &Operation) -> Result<Answer, Refusal>;
}

/// Why something is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<tollgate_dialects::DialectError> for Refusal {
    fn from(error: tollgate_dialects::DialectError) -> Self {
        Self(error.to_string())
    }
}

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct HomeInfo {
    /// The name behind `--home`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Opens it, starting whatever it needs; dropping it stops that again.
    pub open: fn() -> Result<Box<dyn Home>, Refusal>,
}

/// All homes.
pub static HOMES: &[HomeInfo] = &[
    HomeInfo {
        name: "kernel",
        about: "the decision kernel and the dialects in this process",
        open: || Ok(Box::new(Kernel::default())),
    },
    HomeInfo {
        name: "memory",
        about: "the embedded store and the dialects in this process",
        open: || Ok(Box::new(Embedded::default())),
    },
    HomeInfo {
        name: "script",
        about: "Lua scripts in a redis-server, its own or that of TOLLGATE_CONFORMANCE_URL",
        open: || Ok(Box::new(RedisHome::open(Packaging::Script)?)),
    },
    HomeInfo {
        name: "function",
        about: "Lua functions in a redis-server, its own or that of TOLLGATE_CONFORMANCE_URL",
        open: || Ok(Box::new(RedisHome::open(Packaging::Function)?)),
    },
    HomeInfo {
        name: "server",
        about: "the Tollgate server and its dialects, over the Redis protocol",
        open: || Ok(Box::new(ServerHome::open()?)),
    },
    HomeInfo {
        name: "server-store",
        about: "the Tollgate server with --store on a redis-server of its own, over the Redis protocol",
        open: || Ok(Box::new(ServerHome::with_store()?)),
    },
];

/// The home of that name.
pub fn home(name: &str) -> Option<&'static HomeInfo> {
    HOMES.iter().find(|listed| listed.name == name)
}
