//! Five million keys against 32 MB: the short form of `cargo xtask hostile`.

use std::process::Command;

#[test]
fn a_flood_of_keys_neither_takes_more_than_the_cap_nor_clears_a_counter() {
    let output = Command::new(env!("CARGO_BIN_EXE_hostile"))
        .args(["--keys", "5_000_000", "--cap", "32_000_000"])
        .output()
        .unwrap();
    let (said, wrong) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    println!("{said}{wrong}");
    assert!(output.status.success(), "{wrong}");
    assert!(said.contains("none of 10000 exhausted keys got a fresh quota"), "{said}");
}
