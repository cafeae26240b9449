//! The `tollgate` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    tollgate_cli::main()
}
