//! A short life of a cluster.

use crate::common::torture;

#[test]
fn slots_move_and_primaries_die_without_a_broken_promise() {
    let words = ["cluster", "--keys", "1_000", "--kills", "3", "--slots", "512", "--timeout", "1_000"];
    let said = torture(&words);
    assert!(said.contains("3 primaries killed"), "{said}");
}
