//! The good client: one question after the other, in turn over a few connections, and now and then over a new
//! one, with the token. How long it took, and what was not answered as it should be.
//!
//! Every other question goes to the server's twin, which nobody attacks: what the machine does to both is not
//! the server's fault.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_rustls::rustls::ClientConfig;

use super::client::Client;

/// Connections that stay: the server deals them out to its threads in turn.
pub(super) const STAYING: usize = 2;
/// How often there is a new one.
const ANEW: Duration = Duration::from_millis(50);
/// A limit that a campaign does not reach.
const POLICY: &str = "1000000000/h gcra";
const KEYS: u64 = 1_000;
/// Times that are kept.
const MAX_KEPT: usize = 4_000_000;

/// Whom it asks.
#[derive(Clone)]
pub(super) struct ServerAccess {
    pub(super) to: SocketAddr,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) token: String,
}

pub(super) struct GoodClient {
    access: ServerAccess,
    clients: Vec<Client>,
    twins: Vec<Client>,
}

/// Microseconds of questions, sorted at the end.
#[derive(Debug, Default)]
pub(super) struct Latencies(Vec<u32>);

/// What it saw.
#[derive(Debug, Default)]
pub(super) struct ClientFigures {
    /// Microseconds of each question.
    pub(super) took: Latencies,
    /// The same of the twin.
    pub(super) twin: Latencies,
    /// Connections made anew, and the microseconds of the slowest, with its login and question.
    pub(super) anew: u64,
    pub(super) slowest_anew: u32,
    /// What went wrong: how often, and the first.
    pub(super) failed: u64,
    pub(super) failure: Option<String>,
}

impl ServerAccess {
    pub(super) fn connect(&self) -> io::Result<Client> {
        Client::connect(self.to, self.tls.as_ref())
    }
}

impl GoodClient {
    /// A client of a server, and of its twin.
    pub(super) fn new(access: ServerAccess, twin: &ServerAccess) -> io::Result<Self> {
        let staying = |access: &ServerAccess| (0..STAYING).map(|_| access.connect()).collect::<io::Result<_>>();
        Ok(Self { clients: staying(&access)?, twins: staying(twin)?, access })
    }

    /// Asks until it is told to stop.
    pub(super) fn ask(&mut self, stop: &AtomicBool) -> ClientFigures {
        let (mut seen, mut anew) = (ClientFigures::default(), Instant::now());
        for number in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let place = number as usize % self.clients.len();
            let start = Instant::now();
            match check(&mut self.clients[place], number % KEYS) {
                Ok(()) => seen.took.note(start),
                Err(error) => {
                    seen.complain(&error);
                    // The next question is over another connection, if there is one.
                    if let Ok(client) = self.access.connect() {
                        self.clients[place] = client;
                    }
                }
            }
            let start = Instant::now();
            if check(&mut self.twins[place], number % KEYS).is_ok() {
                seen.twin.note(start);
            }
            if anew.elapsed() >= ANEW {
                anew = Instant::now();
                match self.anew(number) {
                    Ok(()) => seen.slowest_anew = seen.slowest_anew.max(micros(anew)),
                    Err(error) => seen.complain(&error),
                }
                seen.anew += 1;
            }
        }
        seen.took.0.sort_unstable();
        seen.twin.0.sort_unstable();
        seen
    }

    fn anew(&self, number: u64) -> io::Result<()> {
        let mut client = self.access.connect()?;
        let said = client.ask(&["AUTH", &self.access.token])?;
        if said != "+OK" {
            return Err(io::Error::other(format!("the right token was answered {said:?}")));
        }
        check(&mut client, number % KEYS)
    }
}

/// Whether a limit is counted right, on a key that nobody asked for before.
pub(super) fn counts_right(access: &ServerAccess, key: &str) -> io::Result<()> {
    let mut client = access.connect()?;
    for left in [2, 1, 0] {
        let [allowed, granted, remaining, ..] = client.decide("TG.CHECK", key, "3/h")?;
        if (allowed, granted, remaining) != (1, 1, left) {
            return Err(io::Error::other(format!("{left} should be left of 3, found {remaining}, allowed {allowed}")));
        }
    }
    match client.decide("TG.CHECK", key, "3/h")? {
        [0, 0, 0, wait, ..] if wait > 0 => Ok(()),
        found => Err(io::Error::other(format!("the fourth of 3 should be refused, found {found:?}"))),
    }
}

fn check(client: &mut Client, number: u64) -> io::Result<()> {
    match client.decide("TG.CHECK", &format!("good:{number}"), POLICY)? {
        [1, 1, ..] => Ok(()),
        found => Err(io::Error::other(format!("it should be allowed, found {found:?}"))),
    }
}

impl ClientFigures {
    fn complain(&mut self, error: &io::Error) {
        self.failed += 1;
        self.failure.get_or_insert_with(|| error.to_string());
    }
}

impl Latencies {
    fn note(&mut self, start: Instant) {
        if self.0.len() < MAX_KEPT {
            self.0.push(micros(start));
        }
    }

    pub(super) fn calls(&self) -> usize {
        self.0.len()
    }

    /// The microseconds within which so many in a thousand were answered.
    pub(super) fn within(&self, of_a_thousand: usize) -> u32 {
        let place = (self.0.len() * of_a_thousand).div_ceil(1_000).saturating_sub(1);
        self.0.get(place).copied().unwrap_or_default()
    }
}

fn micros(start: Instant) -> u32 {
    u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX)
}
