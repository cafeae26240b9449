//! What was answered is there after a kill, whenever that comes, and after a loss of power as far as was promised.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tollgate_daemon::{Fsync, PersistMode, PersistSettings};
use tollgate_journal::disk::{EmulatedDisk, Survival};

use crate::data::support::{Client, DataTestServer, clock, until};

const CLIENTS: usize = 4;
const MAX: i64 = 1_000_000;

fn keeping(fsync: Fsync) -> PersistSettings {
    PersistSettings { persist: PersistMode::Journal(fsync), ..PersistSettings::new(PathBuf::from("data")) }
}

/// What a client spent, by the server that started from `disk`.
fn spent(running: &mut DataTestServer, client: usize) -> i64 {
    MAX - running.remaining(&format!("TG.PEEK c:{client} {MAX}/d~fixed"))
}

/// Clients spend while disks are looked at; what they were told is on each.
fn crash(fsync: Fsync, look: impl Fn(&EmulatedDisk, u64) -> EmulatedDisk) {
    let (disk, clock) = (EmulatedDisk::new(3), clock());
    let running = DataTestServer::on_disk(keeping(fsync), &clock, disk.clone()).unwrap();
    let addr = running.server.resp_addr().unwrap();
    let told: Vec<AtomicI64> = (0..CLIENTS).map(|_| AtomicI64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for (number, told) in told.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = Client::open(addr);
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("c:{number}");
                    let policy = format!("{MAX}/d fixed");
                    (0..5).for_each(|_| client.send(&["TG.CHECK", key.as_str(), policy.as_str()]));
                    for _ in 0..5 {
                        assert!(client.reply().unwrap().starts_with("*6 :1 :1"));
                        told.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for round in 0..30u64 {
            let written = running.server.snapshot().filter(|_| round % 3 == 0);
            // They have come further than at the look before.
            let before: Vec<i64> = told.iter().map(|told| told.load(Ordering::SeqCst)).collect();
            until(|| told.iter().zip(&before).all(|(told, before)| told.load(Ordering::SeqCst) >= before + 20));
            let before: Vec<i64> = told.iter().map(|told| told.load(Ordering::SeqCst)).collect();
            seen.push((before, look(&disk, round)));
            if let Some(written) = written {
                written.recv().unwrap().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (before, left) in seen {
        let mut after = DataTestServer::on_disk(keeping(fsync), &clock, left).unwrap();
        for (client, told) in before.iter().enumerate() {
            let spent = spent(&mut after, client);
            assert!(spent >= *told, "client {client} was told of {told}, {spent} are known");
        }
    }
}

#[test]
fn a_kill_forgets_nothing_that_was_answered() {
    crash(Fsync::EverySecond, |disk, round| EmulatedDisk::with(round, disk.files()));
}

#[test]
fn a_loss_of_power_forgets_nothing_that_was_answered_if_it_is_synced_always() {
    crash(Fsync::Always, |disk, round| {
        let survival = if round % 2 == 0 { Survival::Nothing } else { Survival::Some };
        disk.restart(survival, round)
    });
}
