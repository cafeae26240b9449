//! The decoder and a connection withstand every input. Inputs are generated from a seed, so a failure can be
//! reproduced: `TOLLGATE_FUZZ` is their number (100,000 in the test command, 10^7 by `cargo xtask fuzz resp`),
//! `TOLLGATE_SEED` the first seed.
//!
//! | file | what it is |
//! |---|---|
//! | `input.rs` | inputs: valid commands, commands with a fault, random bytes |
//! | `frames.rs` | one input into the decoder, split everywhere, compared with another decoder |
//! | `wire.rs` | a stream of bytes in chunks |
//! | `lines.rs` | one input into two servers' connections, split differently |
//! | `memory.rs` | the memory that a connection takes for its input |

mod frames;
mod input;
mod lines;
mod memory;
mod wire;

use tollgate_random::Rng;

/// The number of inputs in the test command.
const INPUTS: u64 = 100_000;

/// Returns a number of the environment.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(otherwise)
}

/// Tries one in `share` of the requested inputs; a failure reports the seed that reproduces it.
fn campaign(what: &str, share: u64, mut run: impl FnMut(&mut Rng)) {
    let (inputs, first) = (asked("TOLLGATE_FUZZ", INPUTS) / share, asked("TOLLGATE_SEED", 1));
    println!("{what}: {inputs} inputs from seed {first}");
    for seed in first..first + inputs {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut Rng::new(seed))));
        assert!(done.is_ok(), "{what}: seed {seed} fails: TOLLGATE_SEED={seed} TOLLGATE_FUZZ=1 runs it alone");
    }
}
