//! `tollgate serve --data DIR`: charges survive a kill, and the server reports what it recovered.

use std::fs;
use std::path::Path;

use crate::serve::{ServeProcess, ask};
use crate::support::{path, tollgate};

/// An empty place for a directory.
fn place(name: &str) -> String {
    let place = path(name);
    let _ = fs::remove_dir_all(&place);
    place.to_str().unwrap().to_owned()
}

fn start(name: &str, args: &[&str]) -> ServeProcess {
    ServeProcess::start(name, &[&["--resp", "0", "--http", "off", "--log", "off"], args].concat())
}

#[test]
fn charges_survive_a_kill_and_a_clean_end() {
    let dir = place("serve-data-dir");
    let mut server = start("serve-data", &["--data", &dir]);
    for said in ["every charge, synced every second", "a loss of power the last second", &format!("in {dir}:")] {
        assert!(server.said.contains(said), "{}", server.said);
    }
    assert!(!server.said.contains("in memory only"), "{}", server.said);
    let mut connection = server.connect();
    for count in 1..=5 {
        assert_eq!(ask(&mut connection, &["INCR", "n"]), format!(":{count}"));
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // The next server reports what it recovered. The sixth record is the number of the policies in use.
    let server = start("serve-data-killed", &["--data", &dir, "--fsync", "always"]);
    assert!(
        server.row("found").starts_with("snapshot-") && server.said.contains(": 6 records read"),
        "{}",
        server.said
    );
    assert!(server.said.contains("synced before it is answered"), "{}", server.said);
    assert_eq!(ask(&mut server.connect(), &["INCR", "n"]), ":6");
    let second = tollgate(&["serve", "--resp", "0", "--http", "off", "--log", "off", "--data", &dir], b"").failed();
    assert!(second.starts_with("error: ") && second.contains("in use"), "{second}");
    assert_eq!(server.end(), Some(0));
    let server = start("serve-data-ended", &["--data", &dir, "--persist", "snapshot", "--on-full-disk", "stop"]);
    assert!(server.said.contains("a snapshot now and then"), "{}", server.said);
    assert_eq!(ask(&mut server.connect(), &["INCR", "n"]), ":7");
    assert_eq!(server.end(), Some(0));
    assert_eq!(ask(&mut start("serve-data-last", &["--data", &dir]).connect(), &["INCR", "n"]), ":8");
}

#[test]
fn nothing_is_kept_if_that_is_said() {
    let dir = place("serve-data-none-dir");
    let server = start("serve-data-none", &["--data", &dir, "--persist", "none"]);
    assert!(server.said.contains("nothing is kept over a restart, unless --data DIR is given"), "{}", server.said);
    assert_eq!(server.end(), Some(0));
    assert!(!Path::new(&dir).exists());
}

#[test]
fn wrong_words_say_what_was_expected() {
    let dir = place("serve-data-wrong-dir");
    let data = ["--data", dir.as_str()];
    for (args, said) in [
        (&["--repair"][..], "--data"),
        (&["--fsync", "always"], "--data"),
        (&[data[0], data[1], "--fsync", "often"], "everysec, always"),
        (&[data[0], data[1], "--snapshot-every", "1ms"], "a time from 1s to 1d"),
        (&[data[0], data[1], "--persist", "snapshot", "--fsync", "always"], "expected --persist journal"),
        (&["--data", "/proc/nowhere"], "/proc/nowhere"),
        (&[data[0], data[1], "--store", "redis://127.0.0.1:1", "--lazy"], "leave --data out"),
    ] {
        let error =
            tollgate(&[&["serve", "--resp", "0", "--http", "off", "--log", "off"], args].concat(), b"").failed();
        assert!(error.contains("error: ") && error.contains(said), "{args:?}: {error}");
    }
}
