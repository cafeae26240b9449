//! Every known way of an attacker once. The mixture of all of them is `cargo xtask torture attack`.

use crate::common::torture;

/// All plays, by parts of their names.
const PLAYS: &str = "unlimited,restart,fresh,pushed-out,refund,names,half-sent,addresses,pairs,queues,clock-ahead,\
                     plain-keys,full-disk";

#[test]
fn callers_that_mean_harm_get_nothing_that_is_not_theirs() {
    let said = torture(&["attack", "--minutes", "0", "--memory", "4M", "--only", PLAYS]);
    assert_eq!(said.matches("nothing found").count(), 16, "{said}");
}
