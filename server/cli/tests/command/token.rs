//! `tollgate token` from end to end.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{json, path, tollgate};

#[test]
fn a_token_is_shown_once_and_its_line_holds_a_hash() {
    let out = tollgate(&["token", "--scopes", "check,read", "--name", "billing"], b"").ok();
    let (token, line) = (out.lines().next().unwrap(), out.lines().last().unwrap());
    assert!(token.starts_with("tg_") && token.len() == 46, "{out}");
    assert!(line.starts_with("check,read ") && line.ends_with(" billing") && !line.contains(token), "{out}");
    let other = json(&tollgate(&["token", "--scopes", "admin", "--name", "ann", "--json"], b"").ok());
    assert_ne!(other["token"].as_str().unwrap(), token);
    let out = tollgate(&["token", "--scopes", "refund,check", "--name", "gateway"], b"").ok();
    assert!(out.lines().last().unwrap().starts_with("check,refund "), "{out}");
    assert!(other["line"].as_str().unwrap().starts_with("admin "));
}

#[test]
fn lines_are_added_to_a_file_that_only_its_owner_writes() {
    let file = path("tokens");
    let _ = fs::remove_file(&file);
    let name = file.to_str().unwrap();
    let add = |who: &str| tollgate(&["token", "--scopes", "check", "--name", who, "--file", name], b"");
    let (first, second) = (add("first").ok(), add("second").ok());
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, [first.lines().last().unwrap(), second.lines().last().unwrap()]);
    assert!(add("second").failed().contains("expected a name of its own, found second a second time"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    assert!(add("third").failed().contains("chmod go-w "));
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing was changed");
}

#[test]
fn mistakes_are_reported() {
    let error = tollgate(&["token", "--scopes", "check,write", "--name", "a"], b"").failed();
    assert!(
        error.contains("expected scopes such as check,read out of check, read, refund, reset, admin and script"),
        "{error}"
    );
    let error = tollgate(&["token", "--scopes", "check", "--name", "two words"], b"").failed();
    assert!(error.contains("expected a name of 1 to 64 letters"), "{error}");
}
