//! A few hundred folders harmed.

use crate::common::torture;

#[test]
fn damaged_files_are_refused_or_repaired_and_never_silently_wrong() {
    let said = torture(&["damage", "--trials", "300"]);
    assert!(said.contains("300 folders harmed"), "{said}");
}
