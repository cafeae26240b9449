//! The campaign: eight threads at one embedded store, for every algorithm, policies of one limit and of
//! three, a hot key and a thousand others. What it holds the store to:
//!
//! - **bound**: no interval admits more than any limit promises, for any key
//! - **fullness**: offered more than fits, a key is admitted at least 99.9 % of what one thread alone
//!   would be
//! - **all or none**: what is decided together is charged together, or not at all
//!
//! A seed chooses policy, clock and traffic. Half the seeds run by the process's own clock, half by one
//! that a thread advances, which is faster than time and can be saturated step by step. How threads
//! interleave is not chosen by anything: the same seed again is the same traffic, not the same run.
//!
//! | file | what it is |
//! |---|---|
//! | `scene.rs` | what a seed chooses |
//! | `keys.rs` | the keys and how often each is asked for |
//! | `traffic.rs`, `caller.rs` | a run; one thread of it |
//! | `fullness.rs` | what one thread alone would be admitted |
//! | `together.rs` | all or none |
//! | `summary.rs` | what came of it |

mod caller;
mod fullness;
mod keys;
mod scene;
mod summary;
mod together;
mod traffic;

pub use summary::{Complaint, Line, Share, Summary};

use keys::Keys;
use scene::Scene;

/// The threads of every run.
const THREADS: u64 = 8;
/// Operations a thread does before it looks up: few, so that all threads stay at it on few cores.
const BATCH: u64 = 32;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// How many seeds, one after another.
    pub seeds: u64,
    /// Decisions in all; each seed gets its part.
    pub operations: u64,
}

impl Plan {
    /// The operations of each seed.
    pub fn each(&self) -> u64 {
        self.operations / self.seeds.max(1)
    }
}

/// Runs the campaign; calls `tell` before each seed.
pub fn run(plan: &Plan, mut tell: impl FnMut(u64)) -> Summary {
    let keys = Keys::new();
    let mut summary = Summary::new(plan.each());
    for seed in plan.seed..plan.seed.saturating_add(plan.seeds) {
        tell(seed);
        let scene = Scene::of(seed);
        // A fifth for what is decided together: it takes locks, and so takes longer.
        let operations = plan.each() / 5;
        summary.add_traffic(&scene, &traffic::run(&scene, &keys, plan.each() - operations));
        summary.add_together(&scene, &together::run(&scene, operations));
    }
    summary
}

/// The results of `act` on each of the threads, which begin together.
fn on_threads<R: Send>(act: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let start = std::sync::Barrier::new(THREADS as usize);
    let begin = |thread| {
        start.wait();
        act(thread)
    };
    std::thread::scope(|scope| {
        let begin = &begin;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || begin(thread))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
