//! Slots that move while they are asked for: from each primary to the next.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate_kit::{Cluster, SLOTS};

use super::owners::owners;
use super::traffic::Traffic;
use crate::{Failure, Report};

/// Moves so many slots, as many of each primary: those that lie together, or every second one.
pub(super) fn run(
    report: &mut Report,
    cluster: &Cluster,
    (count, apart): (u64, bool),
    traffic: &Traffic,
) -> Result<(), Failure> {
    let (started, before) = (Instant::now(), counts(traffic));
    let (primaries, owners) = (cluster.primaries(), owners(cluster)?);
    let owner = |slot: &u16| owners.get(usize::from(*slot)).copied();
    let each = (count as usize).div_ceil(primaries.len().max(1));
    let of = |number: &usize| {
        let own = (0..SLOTS).filter(|slot| owner(slot) == Some(*number));
        own.step_by(if apart { 2 } else { 1 }).take(each).collect::<Vec<u16>>()
    };
    let slots: Vec<u16> = primaries.iter().flat_map(of).collect();
    let mut moved = 0;
    for group in slots.chunk_by(|one, other| owner(one) == owner(other)) {
        let Some(from) = group.first().and_then(owner) else { continue };
        let place = primaries.iter().position(|number| *number == from).unwrap_or(0);
        let Some(to) = primaries.get((place + 1) % primaries.len()) else { continue };
        moved += cluster.reshard(group.iter().copied(), from, *to)?;
    }
    let (home, elsewhere) = counts(traffic);
    report.say(format!(
        "{} slots with {moved} keys moved in {:.1?}; meanwhile {} decisions by the server, {} by others",
        slots.len(),
        started.elapsed(),
        home - before.0,
        elsewhere - before.1,
    ));
    Ok(())
}

fn counts(traffic: &Traffic) -> (u64, u64) {
    (traffic.counts.0.load(Ordering::Relaxed), traffic.counts.1.load(Ordering::Relaxed))
}
