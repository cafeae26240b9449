//! The connections: checks by name as fast as they are answered, explanations now and then.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::policies::POLICIES;
use crate::serving::{Reply, Resp, ServerProcess, push};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// Changes after which there are new keys: those before have used what they may.
const PER_KEY: u64 = 20;
/// Checks at a time, of every other connection.
const DEPTHS: [usize; 2] = [1, 8];
/// One in so many turns is an explanation.
const EXPLAINS: u64 = 40;
/// Times that a connection keeps.
const MAX_KEPT: usize = 2_000_000;

/// What was granted of each key, by all connections.
pub(super) struct GrantCounts {
    /// Changes so far.
    changes: AtomicU64,
    /// By key, then by policy.
    units: Vec<Vec<AtomicU64>>,
}

impl GrantCounts {
    pub(super) fn new(reloads: u64) -> Arc<Self> {
        let keys = (reloads / PER_KEY + 1) as usize;
        let units = (0..keys).map(|_| POLICIES.iter().map(|_| AtomicU64::new(0)).collect()).collect();
        Arc::new(Self { changes: AtomicU64::new(0), units })
    }

    /// The file has changed once more.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn keys(&self) -> usize {
        self.units.len()
    }

    pub(super) fn of(&self, key: usize, policy: usize) -> u64 {
        self.units[key][policy].load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, key: usize, policy: usize, units: u64) {
        self.units[key][policy].fetch_add(units, Ordering::Relaxed);
    }

    /// The key of the moment.
    fn key(&self) -> usize {
        ((self.changes.load(Ordering::Relaxed) / PER_KEY) as usize).min(self.units.len() - 1)
    }
}

/// A key's name.
pub(super) fn name(key: usize) -> String {
    format!("key:{key}")
}

/// What connections saw.
#[derive(Debug, Default)]
pub(super) struct TrafficFigures {
    pub(super) checks: u64,
    pub(super) granted: u64,
    /// Microseconds of checks that were sent one by one, sorted.
    took: Vec<u32>,
    wrong: Vec<String>,
    /// The last generation that was told.
    generation: u64,
}

impl TrafficFigures {
    /// The microseconds within which so many in a thousand were answered.
    pub(super) fn within(&self, of_a_thousand: usize) -> u32 {
        let place = (self.took.len() * of_a_thousand).div_ceil(1_000).saturating_sub(1);
        self.took.get(place).copied().unwrap_or_default()
    }
}

pub(super) struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<TrafficFigures>>,
}

impl Traffic {
    pub(super) fn start(server: &ServerProcess, granted: &Arc<GrantCounts>, connections: u64, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |number: u64| {
            let (to, granted, stop) = (server.resp, Arc::clone(granted), Arc::clone(&stop));
            let depth = DEPTHS[(number % 2) as usize];
            std::thread::spawn(move || {
                let mut seen = TrafficFigures::default();
                if let Err(error) = seen.ask(to, &granted, depth, Rng::of_part(seed, number), &stop) {
                    seen.wrong.push(format!("a connection ended: {error}"));
                }
                seen
            })
        };
        Self { threads: (0..connections).map(start).collect(), stop }
    }

    pub(super) fn end(self, report: &mut Report) -> Result<TrafficFigures, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = TrafficFigures::default();
        for thread in self.threads {
            let seen = thread.join().map_err(|_| Failure("a connection panicked".to_owned()))?;
            all.checks += seen.checks;
            all.granted += seen.granted;
            all.took.extend(seen.took);
            seen.wrong.into_iter().for_each(|wrong| report.violated(wrong));
        }
        all.took.sort_unstable();
        Ok(all)
    }
}

impl TrafficFigures {
    fn ask(
        &mut self,
        to: SocketAddr,
        granted: &GrantCounts,
        depth: usize,
        mut rng: Rng,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut resp = Resp::connect(to)?;
        let (mut bytes, mut asked) = (Vec::new(), Vec::with_capacity(depth));
        while !stop.load(Ordering::Relaxed) && self.wrong.is_empty() {
            let key = granted.key();
            let name = name(key);
            if rng.below(EXPLAINS) == 0 {
                self.explain(&mut resp, &name, &mut rng)?;
            }
            bytes.clear();
            for _ in 0..depth {
                let policy = rng.index(POLICIES.len());
                push(&mut bytes, &["TG.CHECK", &name, POLICIES[policy].name]);
                asked.push(policy);
            }
            let start = Instant::now();
            resp.send(&bytes)?;
            for policy in asked.drain(..) {
                let reply = resp.reply()?;
                self.note(&reply, policy, key, granted);
            }
            if depth == 1 && self.took.len() < MAX_KEPT {
                self.took.push(u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    fn note(&mut self, reply: &Reply, policy: usize, key: usize, granted: &GrantCounts) {
        self.checks += 1;
        let name = POLICIES[policy].name;
        match (reply, reply.at(1).int()) {
            (Reply::Array(_), Some(units)) if units >= 0 => {
                granted.add(key, policy, units as u64);
                self.granted += units as u64;
            }
            // One that comes and goes may be away.
            (Reply::Error(error), _) if !POLICIES[policy].is_always_there() && error.contains(name) => {}
            _ => self.wrong.push(format!("{name}: expected a decision, found {reply:?}")),
        }
    }

    /// Each explanation names a generation, which only grows.
    fn explain(&mut self, resp: &mut Resp, key: &str, rng: &mut Rng) -> io::Result<()> {
        let there: Vec<_> = POLICIES.iter().filter(|policy| policy.is_always_there()).collect();
        let policy = there[rng.index(there.len())];
        let text = resp.ask(&["TG.EXPLAIN", key, policy.name])?.text();
        match generation(&text) {
            Some(generation) if generation >= self.generation => self.generation = generation,
            Some(generation) => {
                self.wrong.push(format!("generation {generation} was named after {}", self.generation));
            }
            None => {
                self.wrong.push(format!("{}: expected an explanation with a generation, found {text}", policy.name))
            }
        }
        Ok(())
    }
}

/// The one generation that an explanation names.
pub(super) fn generation(text: &str) -> Option<u64> {
    let mut named = text.split("generation ").skip(1).map(|rest| {
        let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u64>().ok()
    });
    let first = named.next()??;
    named.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_names_one_generation() {
        for (text, found) in [
            ("rule: policy; generation 12", Some(12)),
            ("generation 12, x\ngeneration 12", Some(12)),
            ("generation 12, generation 13", None),
            ("generation none", None),
            ("", None),
        ] {
            assert_eq!(generation(text), found, "{text}");
        }
    }
}
