//! Prints the path of a Valkey server, fetching it if there is none.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match tollgate_kit::valkey() {
        Ok(path) => {
            let _ = writeln!(std::io::stdout(), "{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
