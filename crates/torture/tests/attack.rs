//! Every known way of an attacker once, and one short round of all roles at once.
#![allow(clippy::unwrap_used)]

mod common;

use common::torture;

#[test]
fn callers_that_mean_harm_get_nothing_that_is_not_theirs() {
    let said = torture(&["attack", "--minutes", "0", "--seconds", "5", "--memory", "4M"]);
    assert!(said.contains("nothing found") && said.contains("restarts"), "{said}");
}
