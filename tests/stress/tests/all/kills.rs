//! A few kills, losses of power and disks that fail.

use crate::common::torture;

#[test]
fn a_server_that_was_killed_knows_all_that_it_answered() {
    let said = torture(&["kills", "--kills", "5", "--losses", "0", "--faults", "0", "--longest", "400"]);
    assert!(said.contains("5 kills -9 under 8 connections"), "{said}");
}

#[test]
fn a_loss_of_power_costs_what_was_promised() {
    let said = torture(&["kills", "--kills", "0", "--losses", "2", "--faults", "0", "--longest", "400"]);
    assert_eq!(said.matches("2 losses of power, fsync ").count(), 2, "{said}");
}

#[test]
fn a_disk_that_fails_is_told_and_gets_well() {
    let said = torture(&["kills", "--kills", "0", "--losses", "0", "--faults", "1"]);
    assert_eq!(said.matches(": well again after ").count(), 4, "{said}");
}
