//! A tokens file is read as a whole or not at all, and mistakes are reported with their place.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;
use crate::access::{AccessToken, Scope};

/// A file of one test, removed with it.
struct TempTokensFile(PathBuf);

impl TempTokensFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-tokens-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Self(path)
    }
}

impl Drop for TempTokensFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn every_token_of_a_file_allows_its_scopes() {
    let tokens: Vec<AccessToken> = (0..4).map(|_| AccessToken::make().unwrap()).collect();
    let scopes =
        [Scopes::FREE_OVER_HTTP, Scopes::NONE.with(Scope::Check), Scopes::ALL, Scopes::NONE.with(Scope::Admin)];
    let mut text = "# who may what\n\n".to_owned();
    for (number, (token, scopes)) in tokens.iter().zip(scopes).enumerate() {
        text += &format!("  {}\r\n", token.line(scopes, &format!("n{number}")).replace(' ', "\t "));
    }
    let file = TempTokensFile::new("scopes", &text);
    let read = Tokens::read(&file.0).unwrap();
    assert_eq!(read.len(), 4);
    for (number, (token, scopes)) in tokens.iter().zip(scopes).enumerate() {
        let login = read.find(token.text().as_bytes()).unwrap();
        assert_eq!((login.scopes, &*login.name), (scopes, &*format!("n{number}")));
    }
    // The hash itself is not accepted as a token.
    assert_eq!(read.find(tokens[0].hash().to_string().as_bytes()), None);
    assert!(Tokens::read(&TempTokensFile::new("none", "# nobody\n").0).unwrap().find(b"").is_none());
}

#[test]
fn a_wrong_line_is_told_by_its_number_and_not_repeated() {
    let secret = AccessToken::make().unwrap();
    let (hash, other) = (secret.hash(), AccessToken::make().unwrap().hash());
    let good = format!("check {hash} billing\n");
    let token = secret.text();
    for (line, said) in [
        (format!("check {hash}"), "expected SCOPES SHA256HEX NAME, found 2 words"),
        (format!("check, read {hash} a"), "expected SCOPES SHA256HEX NAME, found 4 words"),
        (format!("check,write {other} a"), "expected scopes such as check,read"),
        (format!("CHECK {other} a"), "expected scopes such as check,read"),
        (format!("check,, {other} a"), "expected scopes such as check,read"),
        (format!("{token} check a"), "expected scopes such as check,read"),
        (format!("check {token} a"), "expected the SHA-256 of a token in 64 hexadecimal digits"),
        (format!("check {other} a/b"), "expected a name of 1 to 64 letters"),
        (format!("check {other} billing"), "expected a name of its own, found billing a second time"),
        (format!("read {hash} other"), "expected a token of its own for other"),
    ] {
        let file = TempTokensFile::new("wrong", &format!("# first\n{good}{line}\n"));
        let error = Tokens::read(&file.0).unwrap_err().to_string();
        assert!(error.contains(&format!(", line 3: {said}")), "{line}: {error}");
        assert!(!error.contains(token), "{error}");
    }
}

#[test]
fn files_that_others_may_write_are_refused() {
    let file = TempTokensFile::new("rights", "# nobody\n");
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&file.0, Permissions::from_mode(mode)).unwrap();
        let error = Tokens::read(&file.0).unwrap_err().to_string();
        assert!(error.contains("chmod go-w ") && error.contains("expected that only its owner"), "{error}");
    }
    // The file holds hashes, so other users may read it, as they may where secrets are mounted.
    fs::set_permissions(&file.0, Permissions::from_mode(0o644)).unwrap();
    Tokens::read(&file.0).unwrap();
}

#[test]
fn files_that_are_none_or_too_long_are_refused() {
    let missing = Tokens::read(&PathBuf::from("/nowhere/tokens")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the tokens file /nowhere/tokens: "), "{missing}");
    let long = TempTokensFile::new("long", &"# so much to say\n".repeat(70_000));
    assert!(Tokens::read(&long.0).unwrap_err().to_string().contains("at most 1048576 bytes"));
    let lines: String = (0..=MAX).map(|n| format!("check {} n{n}\n", TokenHash::of(&n.to_be_bytes()))).collect();
    let many = TempTokensFile::new("many", &lines);
    assert!(Tokens::read(&many.0).unwrap_err().to_string().contains("at most 1024 tokens, found 1025"));
}

#[test]
fn a_token_is_added_to_its_file_and_found_there() {
    let file = TempTokensFile::new("added", "# who may what");
    let (first, _) = AccessToken::add_to(&file.0, Scopes::FREE_OVER_HTTP, "billing").unwrap();
    let (second, line) = AccessToken::add_to(&file.0, Scopes::ALL, "operator").unwrap();
    let text = fs::read_to_string(&file.0).unwrap();
    assert!(
        text.starts_with("# who may what\ncheck,read ") && text.ends_with(&format!(" billing\n{line}\n")),
        "{text}"
    );
    assert!(!text.contains(first.text()) && !text.contains(second.text()));
    let read = Tokens::read(&file.0).unwrap();
    let found = |token: &AccessToken| read.find(token.text().as_bytes()).map(|login| (login.scopes, login.name));
    assert_eq!(found(&first), Some((Scopes::FREE_OVER_HTTP, "billing".into())));
    assert_eq!(found(&second), Some((Scopes::ALL, "operator".into())));
    // Nothing is added that would make the file invalid.
    for name in ["billing", "two words", ""] {
        assert!(matches!(AccessToken::add_to(&file.0, Scopes::FREE_OVER_HTTP, name), Err(TokensError::Name(_))));
    }
    assert_eq!(fs::read_to_string(&file.0).unwrap(), text);
    fs::write(&file.0, "nonsense\n").unwrap();
    assert!(matches!(AccessToken::add_to(&file.0, Scopes::FREE_OVER_HTTP, "a"), Err(TokensError::Line(_, 1, _))));
    fs::remove_file(&file.0).unwrap();
    AccessToken::add_to(&file.0, Scopes::FREE_OVER_HTTP, "a").unwrap();
    assert_eq!(fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
}
