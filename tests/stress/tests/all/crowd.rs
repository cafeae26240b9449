//! A short crowd, also while scripts and functions are flushed.

use crate::common::torture;

#[test]
fn a_crowd_is_admitted_what_one_caller_would_be() {
    let said = torture(&["crowd", "--operations", "120_000"]);
    assert_eq!(said.lines().filter(|line| line.contains(" admitted (")).count(), 8, "{said}");
}

#[test]
fn a_crowd_does_not_see_what_is_flushed() {
    let said = torture(&["crowd", "--operations", "8_000", "--connections", "8", "--flush", "100"]);
    assert!(said.contains("times SCRIPT FLUSH and FUNCTION FLUSH"), "{said}");
}
