//! Tokens are read as they were written, and nothing is trusted or written where other users could reach it.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::TokenFolder;

/// A directory of one test, removed with it.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-token-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn folder(&self) -> TokenFolder {
        TokenFolder::at(self.0.join("tollgate"))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_folder_is_the_one_the_environment_names() {
    let by = |runtime: Option<&str>, home: Option<&str>| {
        TokenFolder::by(runtime.map(Into::into), home.map(Into::into)).map(|folder| folder.path(7379))
    };
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(by(Some("/run/user/7"), Some("/home/ann")), path("/run/user/7/tollgate/7379.token"));
    assert_eq!(by(None, Some("/home/ann")), path("/home/ann/.tollgate/7379.token"));
    assert_eq!(by(Some(""), Some("/home/ann")), path("/home/ann/.tollgate/7379.token"));
    assert_eq!(by(Some("run"), Some("ann")), None);
    assert_eq!(by(None, None), None);
}

#[test]
fn a_token_is_found_as_it_was_left_until_it_is_removed() {
    let place = TempFolder::new("found");
    let folder = place.folder();
    assert_eq!(folder.read(7379).unwrap(), None, "no folder yet");
    let path = folder.write(7379, "sesame").unwrap();
    assert_eq!((mode(&path), mode(&folder.0)), (0o600, 0o700));
    assert_eq!(fs::read(&path).unwrap(), b"sesame\n");
    assert_eq!(folder.read(7379).unwrap().as_deref(), Some("sesame"));
    assert_eq!(folder.read(7380).unwrap(), None, "another port");
    folder.write(7379, "open").unwrap();
    assert_eq!(folder.read(7379).unwrap().as_deref(), Some("open"));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "no draft stays");
    folder.remove(7379).unwrap();
    folder.remove(7379).unwrap();
    assert_eq!(folder.read(7379).unwrap(), None);
}

#[test]
fn invalid_tokens_are_neither_written_nor_read() {
    let place = TempFolder::new("words");
    let folder = place.folder();
    let path = folder.write(1, "sesame").unwrap();
    for wrong in ["", "two words", "two\nlines", "line\n", "t\u{e9}l\u{e9}", &"x".repeat(513)] {
        assert_eq!(folder.write(1, wrong).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong:?}");
        assert_eq!(folder.read(1).unwrap().as_deref(), Some("sesame"), "nothing was changed");
    }
    for wrong in [&b""[..], b"\n", b"a b\n", b"a\nb\n", b"a\n\n", b"\xff\n", &[b'x'; 600]] {
        fs::write(&path, wrong).unwrap();
        let error = folder.read(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{wrong:?}: {error}");
    }
    fs::write(&path, b"sesame").unwrap();
    assert_eq!(folder.read(1).unwrap().as_deref(), Some("sesame"), "the end of the line may be missing");
}

#[test]
fn files_that_others_may_use_are_refused() {
    let place = TempFolder::new("rights");
    let folder = place.folder();
    let path = folder.write(1, "sesame").unwrap();
    for rights in [0o640, 0o604, 0o620, 0o602] {
        allow(&path, rights);
        let error = folder.read(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{rights:o}");
        assert!(error.to_string().contains("expected mode 600"), "{error}");
    }
    allow(&path, 0o600);
    for rights in [0o750, 0o770, 0o701] {
        allow(&folder.0, rights);
        assert!(folder.read(1).unwrap_err().to_string().contains("expected mode 700"), "{rights:o}");
        assert!(folder.write(1, "other").unwrap_err().to_string().contains("expected mode 700"), "{rights:o}");
    }
    allow(&folder.0, 0o700);
    assert_eq!(folder.read(1).unwrap().as_deref(), Some("sesame"));
}

#[test]
fn files_of_another_user_are_refused() {
    let place = TempFolder::new("owner");
    let folder = place.folder();
    let path = folder.write(1, "sesame").unwrap();
    // Only root may change the owner of files; the test does not apply to other users.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
        return;
    }
    assert!(folder.read(1).unwrap_err().to_string().contains("expected this user to own it"));
    folder.write(1, "ours").unwrap();
    assert_eq!(folder.read(1).unwrap().as_deref(), Some("ours"), "it was replaced");
    std::os::unix::fs::chown(&folder.0, Some(12_345), None).unwrap();
    assert!(folder.read(1).unwrap_err().to_string().contains("expected this user to own it"));
    assert!(folder.write(1, "x").unwrap_err().to_string().contains("expected this user to own it"));
}

#[test]
fn links_are_not_followed() {
    let place = TempFolder::new("links");
    let folder = place.folder();
    let path = folder.write(1, "sesame").unwrap();
    let other = place.0.join("other");
    fs::write(&other, b"precious\n").unwrap();
    allow(&other, 0o600);
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    assert!(folder.read(1).unwrap_err().to_string().contains("found a link"));
    folder.write(1, "new").unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"precious\n", "it was not written through");
    assert_eq!(folder.read(1).unwrap().as_deref(), Some("new"));

    let elsewhere = TokenFolder::at(place.0.join("elsewhere"));
    symlink(&folder.0, &elsewhere.0).unwrap();
    assert!(elsewhere.read(1).unwrap_err().to_string().contains("expected a directory"));
    assert!(elsewhere.write(1, "x").unwrap_err().to_string().contains("expected a directory"));
    fs::remove_file(&elsewhere.0).unwrap();
    fs::write(&elsewhere.0, b"").unwrap();
    assert!(elsewhere.read(1).unwrap_err().to_string().contains("expected a directory"));
}

#[test]
fn readers_see_whole_tokens_while_others_write() {
    let place = TempFolder::new("at_once");
    let folder = place.folder();
    folder.write(1, &"a".repeat(500)).unwrap();
    std::thread::scope(|scope| {
        for letter in ["a", "b"] {
            let folder = &folder;
            scope.spawn(move || (0..200).for_each(|_| drop(folder.write(1, &letter.repeat(500)).unwrap())));
        }
        for _ in 0..200 {
            let token = folder.read(1).unwrap().unwrap();
            assert!(token == "a".repeat(500) || token == "b".repeat(500), "{token}");
        }
    });
}
