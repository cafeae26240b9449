//! Clients of the five limiters, written after their documents, against every home: `tests/dropin`, and what it needs.

use crate::clients::tollgate;
use crate::install;
use crate::run::{Failure, root, run_with};

/// `cargo xtask dropin`. The commands `tollgate` and `dropin` must be built.
pub(crate) fn dropin(args: &[&str]) -> Result<(), Failure> {
    let (python, node) = install::limiter_clients()?;
    let program = root().join("target/debug/dropin").display().to_string();
    let places = [tollgate(), python, node].map(|place| place.display().to_string());
    let [tollgate, python, node] = places.each_ref().map(String::as_str);
    run_with(&program, args, &[("TOLLGATE_BIN", tollgate), ("DROPIN_PYTHON", python), ("DROPIN_NODE", node)])
}

/// Without homes that take long to start, and without tests that wait.
pub(crate) fn in_short() -> Result<(), Failure> {
    dropin(&["--short"])
}
