//! Outsiders against the HTTP front-end. nginx is run by a test of the server; schemathesis by this.

use crate::install;
use crate::run::{Failure, run_with};

/// `cargo xtask schemathesis`: so many examples of each operation of the OpenAPI document, good and bad, and
/// every boundary of its schemas.
pub(crate) fn schemathesis(examples: &str) -> Result<(), Failure> {
    run("examples,coverage,fuzzing", examples)
}

/// The same without the boundaries, which are most of it.
pub(crate) fn schemathesis_in_short() -> Result<(), Failure> {
    run("examples,fuzzing", "25")
}

fn run(phases: &str, examples: &str) -> Result<(), Failure> {
    let program = install::schemathesis()?.display().to_string();
    let test = ["test", "--quiet", "--workspace", "--test", "end_to_end", "http_schemathesis", "--", "--ignored"];
    let set =
        [("TOLLGATE_SCHEMATHESIS", program.as_str()), ("TOLLGATE_EXAMPLES", examples), ("TOLLGATE_PHASES", phases)];
    run_with("cargo", &test, &set)
}
