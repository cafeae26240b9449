//! The task that keeps the book: it renews what is held, and frees what could not be freed. There is one for all
//! permits of a limit. It ends when nothing is held or owed, and begins again with the next permit; a limit that is
//! gone with its last permit is not kept alive by it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::StoreError;

use super::Leases;
use super::lease::Lease;

/// The most leases that one call renews or frees.
const MOST_A_CALL: usize = 128;
/// The most calls under way: each must be answered within the store's deadline.
const MOST_CALLS: usize = 64;

/// Looks at the book every `pause`.
pub(crate) async fn keep(leases: Weak<Leases>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(leases) = leases.upgrade() else { return };
        let Some(round) = leases.round() else { return };
        let theirs = leases.clone();
        all(groups(round.renew), move |group| renew(theirs.clone(), group)).await;
        let ends: HashMap<u128, u64> = round.free.iter().map(|(lease, over)| (lease.id, *over)).collect();
        let ends = Arc::new(ends);
        let free = groups(round.free.into_iter().map(|(lease, _)| lease).collect());
        all(free, move |group| free_again(leases.clone(), group, ends.clone())).await;
    }
}

async fn renew(leases: Arc<Leases>, group: Vec<Arc<Lease>>) {
    let until = leases.until();
    // Away: the next round tries again, while there is time. Refused: the question is wrong, and the lease ends.
    if let Ok(answers) = leases.renew(&group).await {
        for (lease, held) in group.iter().zip(answers) {
            if held == 1 {
                lease.renew(until);
            } else {
                lease.lose();
            }
        }
    }
    // Whoever dropped one of them meanwhile has freed it, perhaps before it was renewed; and what was renewed too
    // late for its holder must not take a place.
    let gone = leases.gone(group);
    if !gone.is_empty() {
        let over = leases.over();
        free(&leases, gone, |_| over).await;
    }
}

async fn free_again(leases: Arc<Leases>, group: Vec<Arc<Lease>>, ends: Arc<HashMap<u128, u64>>) {
    free(&leases, group, |lease| ends.get(&lease.id).copied().unwrap_or(0)).await;
}

async fn free(leases: &Arc<Leases>, group: Vec<Arc<Lease>>, over: impl Fn(&Lease) -> u64) {
    if let Err(StoreError::Away { .. }) = leases.free(&group).await {
        for lease in group {
            let over = over(&lease);
            leases.owe(lease, over);
        }
    }
}

/// Leases by key, no group larger than a call takes.
fn groups(leases: Vec<Arc<Lease>>) -> Vec<Vec<Arc<Lease>>> {
    let mut by_key: HashMap<Arc<[u8]>, Vec<Arc<Lease>>> = HashMap::new();
    for lease in leases {
        by_key.entry(lease.key.clone()).or_default().push(lease);
    }
    by_key.into_values().flat_map(|group| group.chunks(MOST_A_CALL).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}

/// Does it to all groups, some at a time.
async fn all<F: Future<Output = ()> + Send + 'static>(
    groups: Vec<Vec<Arc<Lease>>>,
    call: impl Fn(Vec<Arc<Lease>>) -> F,
) {
    let mut calls = JoinSet::new();
    for group in groups {
        if calls.len() >= MOST_CALLS {
            calls.join_next().await;
        }
        calls.spawn(call(group));
    }
    while calls.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::lease::Watch;

    #[test]
    fn groups_are_of_one_key_and_no_larger_than_a_call() {
        let watch = Watch::start();
        let lease = |number: u128| {
            let key: Arc<[u8]> = if number < 300 { b"many".as_slice().into() } else { b"few".as_slice().into() };
            Arc::new(Lease::new(key, number, watch, u64::MAX))
        };
        let groups = groups((0..310).map(lease).collect());
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 310);
        assert!(
            groups.iter().all(|group| group.len() <= MOST_A_CALL && group.iter().all(|one| one.key == group[0].key))
        );
        assert_eq!(groups.len(), 4);
    }
}
