//! The keeper: a task that renews leases that are held, and frees those that could not be freed before. There is one
//! for all permits of a limit. It ends when there is no lease to renew or free, and starts again with the next permit.
//! It does not keep alive a limit that was dropped together with its last permit.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_kernel::StoreError;

use super::Leases;
use super::lease::Lease;

/// The maximum number of leases that one call renews or frees.
const MAX_PER_CALL: usize = 128;
/// The maximum number of concurrent calls: each must be answered within the store's deadline.
const MAX_CALLS: usize = 64;

/// Does the work of the registry, once every `pause`.
pub(crate) async fn run(leases: Weak<Leases>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(leases) = leases.upgrade() else { return };
        let Some(round) = leases.round() else { return };
        let renewing = leases.clone();
        all(groups(round.renew), move |group| renew(renewing.clone(), group)).await;
        let ends: HashMap<u128, u64> = round.free.iter().map(|(lease, over)| (lease.id, *over)).collect();
        let ends = Arc::new(ends);
        let free = groups(round.free.into_iter().map(|(lease, _)| lease).collect());
        all(free, move |group| free_again(leases.clone(), group, ends.clone())).await;
    }
}

async fn renew(leases: Arc<Leases>, group: Vec<Arc<Lease>>) {
    let until = leases.until();
    // Away: the next round tries again while there is time. Refused: the request itself is wrong, so the lease ends.
    if let Ok(answers) = leases.renew(&group).await {
        for (lease, held) in group.iter().zip(answers) {
            if held == 1 {
                lease.renew(until);
            } else {
                lease.lose();
            }
        }
    }
    // A lease that was dropped meanwhile has been freed, perhaps before it was renewed. A lease that was renewed too
    // late for its holder must not take a place either. Both are freed.
    let gone = leases.no_longer_held(group);
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
            leases.free_later(lease, over);
        }
    }
}

/// Groups leases by key; no group is larger than the maximum for a call.
fn groups(leases: Vec<Arc<Lease>>) -> Vec<Vec<Arc<Lease>>> {
    let mut by_key: HashMap<Arc<[u8]>, Vec<Arc<Lease>>> = HashMap::new();
    for lease in leases {
        by_key.entry(lease.key.clone()).or_default().push(lease);
    }
    by_key.into_values().flat_map(|group| group.chunks(MAX_PER_CALL).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}

/// Runs the call for all groups, at most [`MAX_CALLS`] at a time.
async fn all<F: Future<Output = ()> + Send + 'static>(
    groups: Vec<Vec<Arc<Lease>>>,
    call: impl Fn(Vec<Arc<Lease>>) -> F,
) {
    let mut calls = JoinSet::new();
    for group in groups {
        if calls.len() >= MAX_CALLS {
            calls.join_next().await;
        }
        calls.spawn(call(group));
    }
    while calls.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::lease::LeaseClock;

    #[test]
    fn groups_are_of_one_key_and_no_larger_than_a_call() {
        let clock = LeaseClock::start();
        let lease = |number: u128| {
            let key: Arc<[u8]> = if number < 300 { b"many".as_slice().into() } else { b"few".as_slice().into() };
            Arc::new(Lease::new(key, number, clock, u64::MAX))
        };
        let groups = groups((0..310).map(lease).collect());
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 310);
        assert!(
            groups.iter().all(|group| group.len() <= MAX_PER_CALL && group.iter().all(|one| one.key == group[0].key))
        );
        assert_eq!(groups.len(), 4);
    }
}
