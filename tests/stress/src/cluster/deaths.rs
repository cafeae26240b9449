//! Primaries that die: killed as a crash would, replaced by their replicas, started again as replicas.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tollgate_kernel::{Policy, Request, Source, Store};
use tollgate_kit::Cluster;
use tollgate_redis::Redis;

use super::keys::Keys;
use super::owners::owners;
use crate::lateness::LatenessMonitor;
use crate::timing::is_judged;
use crate::{Failure, Report};

/// Within which a slot must be writable again, and its keys decided by the server.
const MAX_TIME: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(super) struct Deaths(Vec<Death>);

struct Death {
    writable: Instant,
    decided: Instant,
    /// From the kill to the slot being writable.
    outage: Duration,
}

impl Deaths {
    /// Kills the primary of a key's slot, waits until the slot is writable and decided by the server, starts
    /// it again, and waits until all is well.
    pub(super) async fn one(
        &mut self,
        report: &mut Report,
        cluster: &mut Cluster,
        store: &Redis,
        keys: &Keys,
        number: u64,
    ) -> Result<(), Failure> {
        let Some(key) = keys.all.get((number as usize * 7919 + 1) % keys.all.len()) else { return Ok(()) };
        let dead = tokio::task::block_in_place(|| kill(cluster, keys, key.slot))?;
        let killed = Instant::now();
        let policy: Policy = "1000000/h fixed name=probe".parse()?;
        let watched = tokio::spawn(until_home(store.clone(), policy, key.bytes.clone()));
        let waited = tokio::task::block_in_place(|| cluster.wait_until_writable(key.slot, MAX_TIME));
        let writable = Instant::now();
        waited?;
        let Some(decided) = watched.await? else {
            report.violated(format!("kill {number}: not decided by the server within {MAX_TIME:?}"));
            return Ok(());
        };
        let outage = writable - killed;
        self.0.push(Death { writable, decided, outage });
        tokio::task::block_in_place(|| {
            cluster.restart(dead)?;
            cluster.wait_healthy()
        })?;
        Ok(())
    }

    /// Within a second of being writable the slot is decided by the server.
    pub(super) fn judge(&self, report: &mut Report, lateness: &LatenessMonitor) {
        let mut longest = Duration::ZERO;
        for death in &self.0 {
            let took = death.decided.saturating_duration_since(death.writable);
            let late = lateness.within(death.writable, death.writable + took);
            report.demand(took <= SOON + late || !is_judged(), || {
                format!("decided by the server only {took:?} after being writable")
            });
            longest = longest.max(took);
        }
        let outages = self.0.iter().map(|death| death.outage);
        let (least, most) = (outages.clone().min().unwrap_or_default(), outages.max().unwrap_or_default());
        let first = self.0.iter().filter(|death| death.decided <= death.writable).count();
        report.say(format!(
            "{} primaries killed: slots writable after {least:.1?} to {most:.1?}, decided by the server at most \
             {longest:.0?} later ({first} times before the probe saw it)",
            self.0.len()
        ));
    }
}

/// Kills the primary of a slot; every key it held may have lost its state.
fn kill(cluster: &mut Cluster, keys: &Keys, slot: u16) -> Result<usize, Failure> {
    let (dying, owners) = (cluster.primary_of(slot)?, owners(cluster)?);
    for key in &keys.all {
        if owners.get(usize::from(key.slot)) == Some(&dying) {
            key.deaths.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(cluster.kill_primary_of(slot)?)
}

/// When the server decides again, if it does.
async fn until_home(store: Redis, policy: Policy, key: Vec<u8>) -> Option<Instant> {
    let started = Instant::now();
    while started.elapsed() < MAX_TIME {
        if let Ok(decision) = store.check(&policy, &key, Request::ONE).await
            && decision.source == Source::Home
        {
            return Some(Instant::now());
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}
