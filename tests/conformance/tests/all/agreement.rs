//! The embedded store decides as the kernel does, whatever is asked in whatever order.

use tollgate_conformance::agree;
use tollgate_memory::{DEFAULT_CAP, ManualClock, Memory};

#[test]
fn the_embedded_store_agrees_with_the_kernel() {
    for seed in 0..3_000 {
        let clock = ManualClock::default();
        let memory = Memory::with_clock(DEFAULT_CAP, Box::new(clock.clone()));
        if let Err(found) = agree(&memory, &clock, seed, 150) {
            let last = found.asked.len().saturating_sub(40);
            panic!(
                "seed {seed}\n{}\nkernel {}\nstore  {}",
                found.asked[last..].join("\n"),
                found.answers[0],
                found.answers[1]
            );
        }
    }
}
