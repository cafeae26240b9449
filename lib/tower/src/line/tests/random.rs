//! Random joins, cancels and clock moves over several keys, compared with the model step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_kernel::{Clock, Micros};
use tollgate_random::Rng;

use super::super::WaitLine;
use super::model::Model;
use super::scene::{ModelOutcome, Scene};

const POLICIES: [&str; 4] = ["3/s", "5/s gcra burst=2", "4/s, 20/min", "2/s fixed"];
const KEYS: [&str; 4] = ["alice", "bob", "carol", "dave"];

struct ScenePair {
    scene: Scene,
    model: Model,
    seed: u64,
}

impl ScenePair {
    fn new(seed: u64, rng: &mut Rng) -> Self {
        let policy = rng.pick(&POLICIES);
        let longest = rng.pick(&[400_000, 1_000_000, 2_500_000, 60_000_000]);
        let (most, most_a_key) = (1 + rng.index(20), 1 + rng.index(20));
        let line = WaitLine::new(Duration::from_micros(longest)).most(most).most_a_key(most_a_key);
        let scene = Scene::new(policy, line);
        let gate = scene.clock.gate(policy).unwrap();
        let model = Model { gate, longest, most, most_a_key, rows: BTreeMap::new(), ends: BTreeMap::new() };
        Self { scene, model, seed }
    }

    fn now(&self) -> u64 {
        Clock::now(&self.scene.clock).get() - 1_700_000_000_000_000
    }

    fn come(&mut self, rng: &mut Rng) {
        // The first key floods; few requests have a high cost, and some of them never fit.
        let key = KEYS[rng.index(KEYS.len()) * rng.index(2)];
        let cost = rng.pick(&[1, 1, 1, 1, 2, 3]);
        let id = self.scene.come(key, cost);
        self.scene.crowd.run();
        let losers = self.model.come(id, key, cost, self.now());
        if !losers.is_empty() {
            let lost = losers.iter().find(|id| self.scene.end(**id).is_some_and(|end| end.fate == ModelOutcome::Full));
            let lost = *lost.unwrap_or_else(|| panic!("seed {}: none of {losers:?} lost its place", self.seed));
            self.model.lose(lost, self.now());
        }
    }

    fn leave(&mut self, rng: &mut Rng) {
        let there = self.scene.crowd.there();
        if there.is_empty() {
            return;
        }
        let id = there[rng.index(there.len())];
        self.scene.crowd.cancel(id);
        self.scene.crowd.run();
        self.model.leave(id, self.now());
    }

    fn advance(&mut self, rng: &mut Rng) {
        let next = self.scene.clock.next_wake().map_or(1, Micros::get);
        let span = [1, next, next.saturating_sub(1), next + 1, rng.below(1_000_000), rng.below(5_000_000)];
        self.scene.advance(Micros::new(rng.pick(&span)));
        self.model.tick(self.now());
    }

    fn check(&self, step: usize) {
        let at = format!("seed {}, step {step}", self.seed);
        let ends: BTreeMap<_, _> = self.scene.ends.borrow().iter().map(|end| (end.id, (end.fate, end.at))).collect();
        assert_eq!(ends, self.model.ends, "{at}");
        let line = &self.scene.line;
        assert_eq!((line.waiting(), line.keys()), (self.model.waiting(), self.model.rows.len()), "{at}");
        assert_eq!(self.scene.clock.sleeping(), line.keys(), "one timer a key: {at}");
        for (key, row) in &self.model.rows {
            let fits = self.scene.gate.ask(key).cost(row[0].cost).peek().unwrap().allowed;
            assert!(!fits, "the head of {key} would fit and waits: {at}");
        }
    }
}

#[test]
fn random_schedules_go_as_the_model_says() {
    let mut fates = BTreeMap::new();
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut pair = ScenePair::new(seed, &mut rng);
        for step in 0..400 {
            match rng.below(10) {
                0..5 => pair.come(&mut rng),
                5 => pair.leave(&mut rng),
                _ => pair.advance(&mut rng),
            }
            pair.check(step);
        }
        pair.model.ends.values().for_each(|(fate, _)| *fates.entry(*fate).or_insert(0) += 1);
        // The remaining requests pass or are refused as time passes: none is forgotten.
        pair.scene.finish(1_000);
    }
    // Every result occurred often; no request is late if answers take no time.
    assert!(
        [ModelOutcome::Passed, ModelOutcome::Refused, ModelOutcome::Full].iter().all(|fate| fates[fate] > 1_000),
        "{fates:?}"
    );
    assert!(!fates.contains_key(&ModelOutcome::Late));
}
