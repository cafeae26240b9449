//! What the roles of a round share: where the server is at the moment, when to stop, and what was found.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::super::caller::Caller;
use crate::Report;

const LOOK: Duration = Duration::from_millis(2);
/// Findings of one kind that are told in full: one mistake makes many.
const MAX_TOLD: u64 = 2;
/// How long a caller may find no connection while the server is up.
const CONNECTS: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) id: u32,
}

/// What was found, by the words before the first colon.
#[derive(Debug, Default)]
struct Findings {
    kinds: BTreeMap<String, (u64, Vec<String>)>,
}

/// What the roles of a round share.
pub(super) struct RoundState {
    origin: Instant,
    place: Mutex<Option<ServerAddress>>,
    /// Written while nobody may ask: what is decided then is not kept.
    pub(super) calm: RwLock<()>,
    stopped: AtomicBool,
    found: Mutex<Findings>,
    /// What the operator did, and when.
    deeds: Mutex<Vec<String>>,
    /// Questions of the attacker.
    pub(super) attacks: AtomicU64,
}

impl RoundState {
    pub(super) fn new(place: ServerAddress) -> Self {
        Self {
            origin: Instant::now(),
            place: Mutex::new(Some(place)),
            calm: RwLock::new(()),
            stopped: AtomicBool::new(false),
            found: Mutex::default(),
            deeds: Mutex::default(),
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
    pub(super) fn place(&self) -> Option<ServerAddress> {
        *lock(&self.place)
    }

    pub(super) fn move_to(&self, place: Option<ServerAddress>) {
        *lock(&self.place) = place;
    }

    /// A connection, as soon as there is a server; nothing if the round is over.
    pub(super) fn connect(&self, token: &str) -> Option<Caller> {
        let (mut since, mut tried) = (Instant::now(), None);
        while !self.is_stopped() {
            let place = self.place();
            if place.is_none() || place != tried {
                (since, tried) = (Instant::now(), place);
            }
            match place.map(|place| Caller::connect(place.resp, token)) {
                Some(Ok(caller)) => return Some(caller),
                Some(Err(error)) if since.elapsed() > CONNECTS => {
                    self.found(format!("a caller finds no connection for {CONNECTS:?}: {error}"));
                    since = Instant::now();
                }
                _ => std::thread::sleep(LOOK),
            }
        }
        None
    }

    pub(super) fn found(&self, what: String) {
        let kind = what.split(':').next().unwrap_or_default().to_owned();
        let mut found = lock(&self.found);
        let (count, told) = found.kinds.entry(kind).or_default();
        *count += 1;
        if *count <= MAX_TOLD {
            told.push(what);
        }
    }

    /// Notes what the operator did, from a moment of the round until now.
    pub(super) fn did(&self, what: &str, from: u64) {
        lock(&self.deeds).push(format!("{what} {}-{}", from / 1_000, self.now() / 1_000));
    }

    /// All that he did.
    pub(super) fn deeds(&self) -> String {
        lock(&self.deeds).join(", ")
    }

    /// Lets something be judged.
    pub(super) fn judge<R>(&self, judge: impl FnOnce(&mut Report) -> R) -> R {
        let mut report = Report::default();
        let judged = judge(&mut report);
        report.violations().iter().for_each(|what| self.found(what.clone()));
        judged
    }

    /// Everything that was found: how often in all, and what is told of it.
    pub(super) fn into_found(self) -> (u64, Vec<String>) {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let all = found.kinds.values().map(|(count, _)| count).sum();
        let told = found.kinds.into_values().flat_map(|(count, mut told)| {
            if let Some(last) = told.last_mut().filter(|_| count > MAX_TOLD) {
                *last += &format!(" (and {} more of the kind)", count - MAX_TOLD);
            }
            told
        });
        (all, told.collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
