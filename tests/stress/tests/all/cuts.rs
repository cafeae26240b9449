//! A few hundred cuts.

use crate::common::torture;

#[test]
fn no_cut_charges_twice() {
    let said = torture(&["cuts", "--cuts", "800"]);
    assert!(said.contains("800 connections hurt"), "{said}");
}
