//! R19: whatever comes, the decoder and a connection hold. Inputs are made from a seed, so a failure can be
//! run again: `TOLLGATE_FUZZ` is how many (100,000 in the test command, 10^7 by `cargo xtask fuzz resp`),
//! `TOLLGATE_SEED` the first.
//!
//! | file | what it is |
//! |---|---|
//! | `rng.rs`, `input.rs` | inputs: right commands, commands with a fault, bytes |
//! | `frames.rs` | one input into the decoder, cut everywhere, beside another decoder |
//! | `wire.rs` | a stream that is bytes in chunks |
//! | `lines.rs` | one input into two servers' connections, cut differently |
//! | `memory.rs` | what a connection takes for what it was sent |

mod frames;
mod input;
mod lines;
mod memory;
mod rng;
mod wire;

use rng::Rng;

/// Inputs in the test command.
const INPUTS: u64 = 100_000;

/// A number of the environment.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(otherwise)
}

/// Tries `share` of the inputs asked for; a failure says by which seed it is made again.
fn campaign(what: &str, share: u64, mut run: impl FnMut(&mut Rng)) {
    let (inputs, first) = (asked("TOLLGATE_FUZZ", INPUTS) / share, asked("TOLLGATE_SEED", 1));
    println!("{what}: {inputs} inputs from seed {first}");
    for seed in first..first + inputs {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut Rng::new(seed))));
        assert!(done.is_ok(), "{what}: seed {seed} fails: TOLLGATE_SEED={seed} TOLLGATE_FUZZ=1 runs it alone");
    }
}
