//! Tests of lines with arbitrary values, and of failures of the file.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::log::LogFormat;

/// The time after which a test that still waits has failed.
const HANGS: Duration = Duration::from_secs(30);

/// A directory for one test, removed with it.
struct AuditFolder(PathBuf);

impl AuditFolder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-audit-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("audit")
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.path()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for AuditFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn audit(folder: &AuditFolder, keys: bool) -> Audit {
    Audit::new(Some(AuditFile { path: folder.path(), keys }), Arc::default()).unwrap()
}

fn actor(identity: CallerIdentity, client: Option<&str>) -> AuditActor {
    let peer: SocketAddr = "192.0.2.7:5000".parse().unwrap();
    AuditActor::new(identity, FrontEnd::Http, peer, client.map(|client| client.parse().unwrap()))
}

#[test]
fn an_event_is_one_line_of_json_whatever_it_holds() {
    let folder = AuditFolder::new();
    let audit = audit(&folder, true);
    let actor = actor(CallerIdentity::Token("billing".into()), Some("203.0.113.9"));
    let evil = "a\n{\"what\":\"stop\"}\r\u{1b}[2J\u{9b}\u{2028}\"\\";
    let keys: [&[u8]; 2] = [evil.as_bytes(), b"\xff\xfe\n"];
    for key in keys {
        let outcome = AuditOutcome::Failed(evil);
        audit.record(&AuditEvent {
            action: AuditAction::Reset,
            actor: &actor,
            policy: evil,
            key: Some(key),
            outcome,
            detail: evil,
        });
    }
    drop(audit);
    let text = fs::read_to_string(folder.path()).unwrap();
    assert!(!text.trim_end_matches('\n').contains(|char: char| char.is_control() && char != '\n'), "{text:?}");
    let lines = folder.lines();
    assert_eq!(lines.len(), 2);
    for (field, value) in [
        ("what", "reset"),
        ("who", "token"),
        ("token", "billing"),
        ("front", "http"),
        ("peer", "192.0.2.7:5000"),
        ("client", "203.0.113.9"),
        ("policy", evil),
        ("key", evil),
        ("outcome", "failed"),
        ("because", evil),
        ("detail", evil),
    ] {
        assert_eq!(lines[0][field], value, "{field}");
    }
    assert_eq!((&lines[1]["key_base64"], &lines[1]["key"]), (&"//4K".into(), &serde_json::Value::Null));
    let at = lines[0]["at"].as_str().unwrap();
    assert_eq!((at.len(), &at[at.len() - 1..]), ("2026-09-21T14:13:20.000000Z".len(), "Z"));
    let micros = format!("{:06}", lines[0]["at_us"].as_u64().unwrap() % 1_000_000);
    assert_eq!(at[20..26], micros, "both are the same moment");
}

#[test]
fn keys_are_hashed_unless_they_are_asked_for() {
    let folder = AuditFolder::new();
    let audit = audit(&folder, false);
    for key in [b"user:42", b"user:42", b"user:43"] {
        let event = AuditEvent { key: Some(key), ..AuditEvent::of_server(AuditAction::BanBegan, AuditOutcome::Done) };
        audit.record(&event);
    }
    drop(audit);
    let text = fs::read_to_string(folder.path()).unwrap();
    assert!(!text.contains("user:4"), "{text}");
    let lines = folder.lines();
    assert_eq!(lines[0]["key_hash"], lines[1]["key_hash"]);
    assert_ne!(lines[0]["key_hash"], lines[2]["key_hash"]);
    assert_eq!(lines[0]["who"], "the server");
}

#[test]
fn of_refused_attempts_some_are_written_and_the_others_counted() {
    let folder = AuditFolder::new();
    let audit = audit(&folder, false);
    let actor = actor(CallerIdentity::NoToken, None);
    let refused =
        AuditEvent { actor: &actor, ..AuditEvent::of_server(AuditAction::Reset, AuditOutcome::Refused("no")) };
    let done = AuditEvent { actor: &actor, ..AuditEvent::of_server(AuditAction::Reset, AuditOutcome::Done) };
    for _ in 0..REFUSED + 90 {
        audit.record(&refused);
    }
    // Actions that were done are never left queue.
    for _ in 0..30 {
        audit.record(&done);
    }
    audit.begin_second();
    audit.begin_second();
    audit.record(&refused);
    drop(audit);
    let lines = folder.lines();
    let count = |what: &str, outcome: &str| {
        lines.iter().filter(|line| line["what"] == what && line["outcome"] == outcome).count() as u64
    };
    assert_eq!((count("reset", "refused"), count("reset", "done"), count("left_out", "done")), (REFUSED + 1, 30, 1));
    let told = lines.iter().find(|line| line["what"] == "left_out").unwrap();
    assert!(told["detail"].as_str().unwrap().starts_with("90 refused attempts"), "{told}");
}

#[test]
fn the_file_is_its_owners_and_no_link_is_followed() {
    let folder = AuditFolder::new();
    drop(audit(&folder, false));
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let open = |path: PathBuf| Audit::new(Some(AuditFile { path, keys: false }), Arc::default());
    let link = folder.0.join("link");
    symlink(folder.0.join("elsewhere"), &link).unwrap();
    assert!(open(link).is_err());
    assert!(!folder.0.join("elsewhere").exists(), "nothing was made behind the link");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o622)).unwrap();
    assert!(open(folder.path()).unwrap_err().to_string().contains("chmod go-w"));
    assert!(open(folder.0.clone()).is_err(), "a folder");
    assert!(open("/dev/null".into()).unwrap_err().to_string().contains("expected a file"));
}

#[test]
fn a_full_disk_loses_lines_and_says_how_many() {
    let (log, said) = ServerLog::to_channel(LogFormat::Text);
    let folder = AuditFolder::new();
    // A device that is always full, until the file is reopened.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let queue = file::AuditQueue::to(full, folder.path(), Arc::new(log)).unwrap();
    for number in 0..3 {
        queue.put(format!("{{\"number\":{number}}}\n"));
    }
    let read = |said: &std::sync::mpsc::Receiver<String>| said.recv_timeout(HANGS).unwrap();
    // The first line, and then, with each of the others, a report of lost lines.
    let said: Vec<String> = (0..1 + 2 + 2).map(|_| read(&said)).collect();
    assert!(said.iter().all(|line| line.contains("error audit_failed")), "{said:?}");
    queue.reopen();
    queue.put("{\"number\":3}\n".to_owned());
    let counts = Arc::clone(&queue.counters);
    drop(queue);
    let lines = folder.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0]["detail"].as_str().unwrap().starts_with("3 lines are lost"), "{lines:?}");
    assert_eq!(lines[1]["number"], 3);
    assert_eq!((counts.written.load(Ordering::Relaxed), counts.lost.load(Ordering::Relaxed)), (2, 3));
}

#[test]
fn a_queue_that_is_full_loses_lines_and_says_how_many() {
    let folder = AuditFolder::new();
    let file = fs::OpenOptions::new().append(true).create(true).open(folder.path()).unwrap();
    let (go, waits) = channel();
    let queue = file::AuditQueue::to(StuckFile { file, waits }, folder.path(), Arc::default()).unwrap();
    let most = 20 * file::WAITING;
    for _ in 0..most {
        queue.put("{\"number\":0}\n".to_owned());
    }
    let lost = queue.counts().1;
    assert!(lost >= (most - file::WAITING - 1) as u64, "the queue is bounded: {lost}");
    // The writers did not wait; now the disk responds.
    drop(go);
    drop(queue);
    let lines = folder.lines();
    let told: u64 = lines.iter().filter(|line| line["what"] == "lost").map(|line| first_number(&line["detail"])).sum();
    let written = lines.iter().filter(|line| line["number"] == 0).count() as u64;
    assert_eq!((told, written + lost), (lost, most as u64), "every line is written or told as lost");
}

/// A disk that does not respond until the other end is dropped.
struct StuckFile {
    file: fs::File,
    waits: Receiver<()>,
}

impl std::io::Write for StuckFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.waits.recv_timeout(HANGS);
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn first_number(text: &serde_json::Value) -> u64 {
    text.as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}
