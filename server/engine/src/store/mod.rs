//! A store in Redis as the home of a server: beside the policies, the keys and dialects of callers live there.
//!
//! | file | what it is |
//! |---|---|
//! | `keys.rs` | commands on keys as the store runs them, behind the check of whose the keys are |
//! | `dialects.rs` | calls of dialects, and what decides them while the store does not answer |
//! | `namespaces.rs` | the namespaces that callers of this server used lately |

mod dialects;
mod keys;
mod namespaces;

use std::sync::Arc;

use tollgate_kernel::{OnError, StoreError};
use tollgate_keyspace::{Fault, FaultCode};
use tollgate_redis::{KeyGuard, Redis};

pub(crate) use dialects::check_keys;
use namespaces::SeenNamespaces;

/// The names under which policies keep their states in a store.
const OF_POLICIES: &[u8] = b"tg:{";

/// How callers use the keys of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreKeySettings {
    /// The prefixes of keys that callers reach beside those of limiters.
    pub prefixes: Vec<Vec<u8>>,
    /// What decides a call of a dialect while the store does not answer.
    pub on_error: OnError,
}

/// A store in Redis or Valkey, and how callers use its keys.
pub struct StoreHome {
    pub(crate) redis: Redis,
    prefixes: Arc<[Vec<u8>]>,
    on_error: OnError,
    /// Held while keys are flushed, so that callers do not flush at once.
    flushing: tokio::sync::Mutex<()>,
    namespaces: SeenNamespaces,
}

impl StoreHome {
    /// Returns the home of that store.
    pub fn new(redis: Redis, settings: StoreKeySettings) -> Self {
        let StoreKeySettings { prefixes, on_error } = settings;
        Self {
            redis,
            prefixes: prefixes.into(),
            on_error,
            flushing: tokio::sync::Mutex::default(),
            namespaces: SeenNamespaces::default(),
        }
    }

    fn guard(&self, may_reset: bool) -> KeyGuard {
        KeyGuard { prefixes: Arc::clone(&self.prefixes), may_reset }
    }
}

impl From<Redis> for StoreHome {
    fn from(redis: Redis) -> Self {
        Self::new(redis, StoreKeySettings::default())
    }
}

/// Converts an error of the store, whose own words have their code in front.
fn fault_of_error(error: StoreError) -> Fault {
    match error {
        StoreError::Refused(line) => fault_of(&line),
        error => error.into(),
    }
}

/// Converts an error line of Redis, which has its code in front.
pub(crate) fn fault_of(line: &str) -> Fault {
    match line.split_once(' ') {
        Some(("ERR", text)) => Fault::wrong(text),
        Some(("WRONGTYPE", text)) => Fault::new(FaultCode::WrongType, text),
        Some(("OOM", text)) => Fault::new(FaultCode::Full, text),
        Some(("NOPERM", _)) => Fault::wrong(format!("the user of the store may not do this: {line}")),
        _ => Fault::wrong(line),
    }
}
