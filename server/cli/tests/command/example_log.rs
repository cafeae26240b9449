//! The example log of the repository is what its generator makes.

use crate::{access, support};

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access_log.txt");

#[test]
fn the_generator_makes_the_example_log_byte_for_byte() {
    let kept = std::fs::read_to_string(LOG).unwrap();
    assert!(kept == access::log(), "run: cargo run --example make_log access > examples/access_log.txt");
    let documentation = ["192.0.2.", "198.51.100.", "203.0.113."];
    assert!(kept.lines().all(|line| documentation.iter().any(|range| line.starts_with(range))));
}

#[test]
fn the_example_log_replays_twice_the_same() {
    let args = ["replay", LOG, "--strict", "--policy", "60/min, 300/h", "--policy", "1/s gcra burst=20"];
    let first = support::tollgate(&args, b"").ok();
    assert_eq!(support::tollgate(&args, b"").ok(), first);
    assert!(first.lines().skip(1).all(|line| line.chars().count() <= 80), "{first}");
    for who in ["203.0.113.66", "203.0.113.9"] {
        assert!(first.contains(who), "{first}");
    }
}
