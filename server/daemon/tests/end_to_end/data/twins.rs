//! A server that restarts, in a clean way or killed, with snapshots while it decides, and one that never does: they
//! answer alike, byte for byte, and remember the same.

use tollgate_daemon::{Fsync, PersistMode, PersistSettings};
use tollgate_journal::disk::EmulatedDisk;
use tollgate_kernel::{Clock, Micros};
use tollgate_memory::ManualClock;
use tollgate_random::Rng;

use crate::data::gate::SnapshotGatedDisk;
use crate::data::support::{DataTestServer, clock, copied, place, settings};
use crate::data::traffic::commands;

fn start(keeping: &PersistSettings, clock: &ManualClock, disk: Option<&SnapshotGatedDisk>) -> DataTestServer {
    match disk {
        None => DataTestServer::start(settings(Some(keeping.clone())), clock),
        Some(disk) => DataTestServer::on_disk(keeping.clone(), clock, disk.clone()).unwrap(),
    }
}

struct Twins {
    rng: Rng,
    clock: ManualClock,
    forever: DataTestServer,
    mortal: DataTestServer,
    keeping: PersistSettings,
    /// The disk, if it is not the real one.
    disk: Option<SnapshotGatedDisk>,
    name: String,
    /// The database that both have selected.
    db: String,
    /// Times of decisions.
    at: Vec<u64>,
    restarts: u64,
    snapshots: u64,
    replies: u64,
    errors: u64,
}

impl Twins {
    fn new(name: &str, seed: u64, persist: PersistMode, disk: Option<SnapshotGatedDisk>) -> Self {
        println!("seed {seed:#x}");
        let clock = clock();
        let keeping = PersistSettings { persist, ..PersistSettings::new(place(name)) };
        Self {
            rng: Rng::new(seed),
            forever: DataTestServer::start(settings(None), &clock),
            mortal: start(&keeping, &clock, disk.as_ref()),
            clock,
            keeping,
            disk,
            name: name.to_owned(),
            db: "0".to_owned(),
            at: Vec::new(),
            restarts: 0,
            snapshots: 0,
            replies: 0,
            errors: 0,
        }
    }

    /// Sends the same to both; the replies are the same.
    fn both(&mut self, sent: &[Vec<String>]) {
        for command in sent {
            self.forever.client.send(command);
            self.mortal.client.send(command);
        }
        for command in sent {
            let (one, other) = (self.forever.client.reply().unwrap(), self.mortal.client.reply().unwrap());
            assert_eq!(one, other, "{command:?} after {} restarts of {sent:?}", self.restarts);
            self.replies += 1;
            self.errors += u64::from(one.starts_with('-'));
            if command.contains(&"REST".to_owned()) {
                self.at.extend(one.split(' ').nth(9).and_then(|word| word[1..].parse::<u64>().ok()));
            }
            if command[0] == "SELECT" {
                self.db.clone_from(&command[1]);
            }
        }
    }

    fn some(&mut self, steps: u64) {
        for _ in 0..steps {
            let micros = match self.rng.below(10) {
                0..4 => 0,
                4..8 => self.rng.below(400_000),
                8 => self.rng.pick(&[1, 1_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000]),
                _ => self.rng.below(8_000_000),
            };
            self.clock.advance(Micros::new(micros));
            let sent = commands(&mut self.rng, self.clock.now().get(), &self.at);
            self.both(&sent);
        }
    }

    /// Others decide while a snapshot is written: before and after it has seen what there is.
    fn snapshot(&mut self) {
        let gates: &[u64] = if self.disk.is_some() { &[0, 1, 1, u64::MAX] } else { &[u64::MAX] };
        self.shut();
        let written = self.mortal.server.snapshot().unwrap();
        for writes in gates {
            let steps = self.rng.below(30);
            if let Some(disk) = &self.disk {
                disk.allow(*writes);
            }
            self.some(steps);
        }
        written.recv().unwrap().unwrap();
        self.snapshots += 1;
    }

    fn shut(&self) {
        if let Some(disk) = &self.disk {
            disk.shut();
        }
    }

    /// What a kill would leave now is what the server starts from next.
    fn kill(&mut self) {
        match &mut self.disk {
            Some(gated) => {
                let left = SnapshotGatedDisk::new(EmulatedDisk::with(self.restarts, gated.disk.files()));
                // The one that was killed ends by itself.
                std::mem::replace(gated, left).open();
            }
            None => self.keeping.dir = copied(&self.keeping.dir, &format!("{}-{}", self.name, self.restarts)),
        }
    }

    fn restart(&mut self) {
        self.restarts += 1;
        match self.rng.below(4) {
            // While a snapshot is written, which a copy of a real directory would not show as it was.
            0 if self.disk.is_some() => {
                self.shut();
                let written = self.mortal.server.snapshot().unwrap();
                for _ in 0..self.rng.below(6) {
                    let steps = self.rng.below(20);
                    self.disk.iter().for_each(|disk| disk.allow(1));
                    self.some(steps);
                }
                self.kill();
                let _ = written.recv();
            }
            0 | 1 => self.kill(),
            _ => {}
        }
        // Its directory is in use until it has ended.
        let next = DataTestServer::start(settings(None), &self.clock);
        std::mem::replace(&mut self.mortal, next).server.stop();
        self.mortal = start(&self.keeping, &self.clock, self.disk.as_ref());
        let select = vec!["SELECT".to_owned(), self.db.clone()];
        self.both(&[select]);
        self.same_states();
    }

    /// What dialects remember is the same, whatever they would answer.
    fn same_states(&mut self) {
        for kind in ["sliding", "sliding2", "fixed", "bucket", "slots", "shared"] {
            for number in 0..3 {
                let key = format!("{kind}:{number}");
                let now = self.clock.now();
                let [one, other] = [&self.forever, &self.mortal].map(|running| {
                    let states = running.server.states(key.as_bytes()).into_iter();
                    states.map(|state| state.sorted(now)).collect::<Vec<_>>()
                });
                assert_eq!(one, other, "{key}");
            }
        }
    }

    fn run(mut self, rounds: u64) {
        for _ in 0..rounds {
            let steps = self.rng.below(60);
            self.some(steps);
            match self.rng.below(2) {
                0 => self.snapshot(),
                _ => self.restart(),
            }
        }
        // Most of what is asked is worth asking.
        println!("{} replies, {} of them errors", self.replies, self.errors);
        assert!(self.errors < self.replies / 10);
        println!("{} restarts, {} snapshots", self.restarts, self.snapshots);
        assert!(self.restarts > rounds / 4 && self.snapshots > rounds / 4);
    }
}

#[test]
fn with_a_journal_that_is_synced_every_second() {
    Twins::new("twins", 0x5eed_0001, PersistMode::Journal(Fsync::EverySecond), None).run(40);
}

#[test]
fn with_a_journal_that_is_synced_always() {
    Twins::new("twins-always", 0x5eed_0002, PersistMode::Journal(Fsync::Always), None).run(20);
}

#[test]
fn killed_at_any_moment() {
    Twins::new(
        "twins-killed",
        0x5eed_0003,
        PersistMode::Journal(Fsync::EverySecond),
        Some(SnapshotGatedDisk::new(EmulatedDisk::new(7))),
    )
    .run(150);
}
