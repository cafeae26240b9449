//! What the roles of a round share: where the server is at the moment, when to stop, and what was found.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::super::caller::Caller;
use crate::Report;

const LOOK: Duration = Duration::from_millis(2);

/// Where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) id: u32,
}

/// A round's common ground.
pub(super) struct Floor {
    origin: Instant,
    place: Mutex<Option<Place>>,
    /// Written while nobody may ask: what is decided then is not kept.
    pub(super) calm: RwLock<()>,
    stopped: AtomicBool,
    found: Mutex<Report>,
    /// Questions of the attacker.
    pub(super) attacks: AtomicU64,
}

impl Floor {
    pub(super) fn new(place: Place) -> Self {
        Self {
            origin: Instant::now(),
            place: Mutex::new(Some(place)),
            calm: RwLock::new(()),
            stopped: AtomicBool::new(false),
            found: Mutex::default(),
            attacks: AtomicU64::new(0),
        }
    }

    /// Microseconds of the round.
    pub(super) fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Where the server is; nothing while it is down.
    pub(super) fn place(&self) -> Option<Place> {
        *lock(&self.place)
    }

    pub(super) fn move_to(&self, place: Option<Place>) {
        *lock(&self.place) = place;
    }

    /// A connection, as soon as there is a server; nothing if the round is over.
    pub(super) fn connect(&self, token: &str) -> Option<Caller> {
        while !self.is_stopped() {
            match self.place().map(|place| Caller::connect(place.resp, token)) {
                Some(Ok(caller)) => return Some(caller),
                _ => std::thread::sleep(LOOK),
            }
        }
        None
    }

    pub(super) fn found(&self, what: String) {
        lock(&self.found).violated(what);
    }

    /// Lets something be judged.
    pub(super) fn judge<R>(&self, judge: impl FnOnce(&mut Report) -> R) -> R {
        judge(&mut lock(&self.found))
    }

    pub(super) fn into_found(self) -> Report {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
