//! Every story of a clock that jumps.

use crate::common::torture;

#[test]
fn a_clock_that_jumps_costs_a_window_at_most() {
    let said = torture(&["clock", "--jumps", "50"]);
    assert!(said.contains("an hour back"), "{said}");
}
