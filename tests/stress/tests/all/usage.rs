//! What the program says when it is not understood.

use std::process::Command;

#[test]
fn what_is_not_understood_is_said_and_nothing_is_run() {
    for words in [&[][..], &["nothing"], &["cuts", "--cuts"], &["cuts", "--kills", "1"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_torture")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--help"), "{words:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_torture")).arg("--help").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for campaign in ["crowd", "cluster", "cuts", "down", "clock", "connections", "kills", "damage", "reloads", "attack"]
    {
        assert!(said.contains(&format!("\n{campaign}: ")), "{said}");
    }
}
