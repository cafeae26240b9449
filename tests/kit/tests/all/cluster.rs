//! A cluster forms, survives the death of a primary, and moves slots without losing a key.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tollgate_kit::{Cluster, Server, slot, tag_for, valkey};

#[test]
fn a_dead_primary_is_replaced_and_comes_back_and_slots_move() {
    let started = Instant::now();
    let mut cluster = Cluster::start().unwrap();
    println!("formed in {:.1?}", started.elapsed());
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    assert_eq!(cluster.urls().len(), 6);

    let names: HashSet<String> = (0..2_000).map(|number| format!("key:{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        write(&cluster, name, if number % 2 == 0 { None } else { Some(600_000) });
    }
    assert_eq!(scanned(&cluster), names);

    let started = Instant::now();
    let moved = cluster.reshard(0..=99, 0, 2).unwrap();
    println!("100 slots with {moved} keys moved in {:.1?}", started.elapsed());
    assert_eq!(moved, names.iter().filter(|name| slot(name) < 100).count());
    assert_eq!(cluster.primary_of(0).unwrap(), 2);
    assert_eq!(cluster.primary_of(100).unwrap(), 0);
    cluster.wait_healthy().unwrap();
    assert_eq!(scanned(&cluster), names);
    let mut mortal = 0;
    cluster.scan_all(|_, left| mortal += usize::from((1..=600_000).contains(&left))).unwrap();
    assert_eq!(mortal, 1_000, "times to live move with their keys");

    let dead = cluster.kill_primary_of(16_383).unwrap();
    assert_eq!(dead, 2);
    let took = cluster.wait_until_writable(16_383, Duration::from_secs(15)).unwrap();
    println!("writable {took:.1?} after its primary was killed");
    assert_eq!(cluster.primary_of(16_383).unwrap(), 5);
    let started = Instant::now();
    cluster.restart(dead).unwrap();
    cluster.wait_healthy().unwrap();
    println!("healthy {:.1?} after the restart", started.elapsed());
    assert_eq!(cluster.primary_of(16_383).unwrap(), 5);
    assert_eq!(scanned(&cluster), names, "the replica had all of it");
}

#[test]
fn a_cluster_of_valkey_forms() {
    let cluster = Cluster::start_with(&Server::builder().binary(valkey().unwrap())).unwrap();
    let key = format!("{{{}}}", tag_for(7));
    write(&cluster, &key, None);
    assert_eq!(cluster.reshard([7], 0, 1).unwrap(), 1);
    assert_eq!(cluster.primary_of(7).unwrap(), 1);
    assert_eq!(scanned(&cluster), HashSet::from([key]));
}

fn write(cluster: &Cluster, key: &str, millis: Option<u32>) {
    // Slots as they are given out at first: a third each.
    let node = usize::from(slot(key)) * 3 / 16_384;
    let mut connection = cluster.node(node).unwrap().connection().unwrap();
    let mut set = redis::cmd("SET");
    set.arg(key).arg("value");
    if let Some(millis) = millis {
        set.arg("PX").arg(millis);
    }
    set.exec(&mut connection).unwrap();
}

fn scanned(cluster: &Cluster) -> HashSet<String> {
    let mut found = HashSet::new();
    let count = cluster.scan_all(|key, _| assert!(found.insert(String::from_utf8(key.to_vec()).unwrap()), "twice"));
    assert_eq!(count.unwrap(), found.len());
    found
}
