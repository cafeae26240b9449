//! A few changes of a policy file under load.

use crate::common::torture;

#[test]
fn a_policy_file_that_changes_under_load_loses_nothing() {
    let said = torture(&["reloads", "--reloads", "50", "--before", "300"]);
    assert!(said.contains("50 changes of the policy file"), "{said}");
}
