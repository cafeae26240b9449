//! Runs the built binary on small inputs.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandResult {
    /// Returns its output; panics if it failed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Returns its error message; panics unless it failed with exit code 2 and nothing on standard output.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        self.err
    }
}

impl CommandResult {
    /// Returns its output; panics unless it ended with this code and no error message.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(code), ""), "{}", self.out);
        self.out
    }
}

/// Returns its output as JSON.
#[track_caller]
pub(crate) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Runs `tollgate` with these arguments and this input.
pub(crate) fn tollgate(args: &[&str], input: &[u8]) -> CommandResult {
    tollgate_in(args, input, &[])
}

/// Does the same with these environment variables. Unless given, no variable names a store, or leads to the token of
/// a server of this user.
pub(crate) fn tollgate_in(args: &[&str], input: &[u8], variables: &[(&str, &str)]) -> CommandResult {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(args)
        .env_remove("TOLLGATE_STORE")
        .env_remove("TOLLGATE_TOKEN")
        .env("XDG_RUNTIME_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/nobody"))
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails early does not read its input; that is no fault of the test.
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandResult { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Returns the path of a file of this test.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Writes a file of this test, and returns its path.
pub(crate) fn file(name: &str, content: &[u8]) -> String {
    let path = path(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}
