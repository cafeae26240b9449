//! Every trouble, a second each.

use crate::common::torture;

#[test]
fn a_server_that_is_down_costs_a_deadline_at_most() {
    let said = torture(&["down", "--seconds", "1"]);
    assert_eq!(said.matches("back on the server after").count(), 6, "{said}");
}
