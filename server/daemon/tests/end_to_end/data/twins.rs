//! A server that restarts, in a clean way or killed, with snapshots while it decides, and one that never does: they
//! answer alike, byte for byte, and remember the same.

use tollgate_daemon::{Fsync, Keeping, Persist};
use tollgate_journal::disk::Emulated;
use tollgate_kernel::{Clock, Micros};
use tollgate_memory::Manual;

use crate::data::gate::Gated;
use crate::data::support::{Running, clock, copied, place, settings};
use crate::data::traffic::{Dice, commands};

fn start(keeping: &Keeping, clock: &Manual, disk: Option<&Gated>) -> Running {
    match disk {
        None => Running::start(settings(Some(keeping.clone())), clock),
        Some(disk) => Running::on_disk(keeping.clone(), clock, disk.clone()).unwrap(),
    }
}

struct Twins {
    dice: Dice,
    clock: Manual,
    forever: Running,
    mortal: Running,
    keeping: Keeping,
    /// The disk, if it is not the real one.
    disk: Option<Gated>,
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
    fn new(name: &str, seed: u64, persist: Persist, disk: Option<Gated>) -> Self {
        println!("seed {seed:#x}");
        let clock = clock();
        let keeping = Keeping { persist, ..Keeping::new(place(name)) };
        Self {
            dice: Dice(seed),
            forever: Running::start(settings(None), &clock),
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
            let micros = match self.dice.below(10) {
                0..4 => 0,
                4..8 => self.dice.below(400_000),
                8 => [1, 1_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000][self.dice.below(7) as usize],
                _ => self.dice.below(8_000_000),
            };
            self.clock.advance(Micros::new(micros));
            let sent = commands(&mut self.dice, self.clock.now().get(), &self.at);
            self.both(&sent);
        }
    }

    /// Others decide while a snapshot is written: before and after it has seen what there is.
    fn snapshot(&mut self) {
        let gates: &[u64] = if self.disk.is_some() { &[0, 1, 1, u64::MAX] } else { &[u64::MAX] };
        self.shut();
        let written = self.mortal.server.snapshot().unwrap();
        for writes in gates {
            let steps = self.dice.below(30);
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
                let left = Gated::new(Emulated::with(self.restarts, gated.disk.files()));
                // The one that was killed ends by itself.
                std::mem::replace(gated, left).open();
            }
            None => self.keeping.dir = copied(&self.keeping.dir, &format!("{}-{}", self.name, self.restarts)),
        }
    }

    fn restart(&mut self) {
        self.restarts += 1;
        match self.dice.below(4) {
            // While a snapshot is written, which a copy of a real directory would not show as it was.
            0 if self.disk.is_some() => {
                self.shut();
                let written = self.mortal.server.snapshot().unwrap();
                for _ in 0..self.dice.below(6) {
                    let steps = self.dice.below(20);
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
        let next = Running::start(settings(None), &self.clock);
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
            let steps = self.dice.below(60);
            self.some(steps);
            match self.dice.below(2) {
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
    Twins::new("twins", 0x5eed_0001, Persist::Journal(Fsync::EverySecond), None).run(40);
}

#[test]
fn with_a_journal_that_is_synced_always() {
    Twins::new("twins-always", 0x5eed_0002, Persist::Journal(Fsync::Always), None).run(20);
}

#[test]
fn killed_at_any_moment() {
    Twins::new("twins-killed", 0x5eed_0003, Persist::Journal(Fsync::EverySecond), Some(Gated::new(Emulated::new(7))))
        .run(150);
}
