//! Full disks and failing ones: what is answered, what is told, and how it ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use tollgate_daemon::{Fsync, OnFullDisk, PersistMode, PersistSettings, Server, ServerSettings};
use tollgate_journal::disk::{DiskOperation, EmulatedDisk};
use tollgate_kernel::{OnError, Policy};
use tollgate_memory::ManualClock;

use crate::data::support::{Client, DataTestServer, clock, settings};

/// An error of reading and writing, as the system numbers it.
const EIO: i32 = 5;

fn keeping() -> PersistSettings {
    PersistSettings::new(PathBuf::from("data"))
}

/// A server whose policies say who decides when nothing can be kept.
fn start(keeping: PersistSettings, clock: &ManualClock, disk: &EmulatedDisk) -> DataTestServer {
    let policy = |on_error: OnError| {
        let policy: Policy = "5/d fixed".parse().unwrap();
        policy.with_name(on_error.name()).unwrap().with_on_error(on_error)
    };
    let policies = [OnError::Local, OnError::Allow, OnError::Deny].map(policy).to_vec();
    let http = Some(([127, 0, 0, 1], 0).into());
    let settings = ServerSettings { policies, http, ..settings(Some(keeping)) };
    let server = Server::start_with_disk(settings, clock, std::sync::Arc::new(disk.clone())).unwrap();
    let client = Client::open(server.resp_addr().unwrap());
    DataTestServer { server, client }
}

fn get(running: &DataTestServer, path: &str) -> String {
    let mut stream = TcpStream::connect(running.server.http_addr().unwrap()).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn check(running: &DataTestServer, policy: &str) -> (u16, String) {
    let body = format!("{{\"key\":\"h\",\"policy\":\"{policy}\"}}");
    let mut stream = TcpStream::connect(running.server.http_addr().unwrap()).unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

fn health(running: &DataTestServer) -> String {
    let metrics = get(running, "/metrics");
    let line = metrics.lines().find(|line| line.starts_with("tollgate_journal_health ")).unwrap();
    line.to_owned()
}

/// Asks until the answer is by that source: the first may come before the failure is known.
fn asked_until(running: &mut DataTestServer, command: &str, source: &str) -> String {
    for _ in 0..1_000 {
        let Some(reply) = ({
            let args: Vec<&str> = command.split(' ').collect();
            running.client.send(&args);
            running.client.reply()
        }) else {
            running.client = Client::open(running.server.resp_addr().unwrap());
            continue;
        };
        if reply.ends_with(source) {
            return reply;
        }
    }
    panic!("never {source}");
}

#[test]
fn on_a_full_disk_it_decides_on_and_says_that_nothing_is_kept() {
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let mut running = start(keeping(), &clock, &disk);
    assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :4 :0 :86400000000 :0 $4 home");
    assert_eq!(
        (health(&running).as_str(), get(&running, "/readyz").ends_with("ready\n")),
        ("tollgate_journal_health 0.0", true)
    );
    disk.set_room(Some(10));
    // Whether it fits is known when it is written, so each is answered.
    for left in [3, 2] {
        assert_eq!(running.ask("TG.CHECK k local SOURCE"), format!("*7 :1 :1 :{left} :0 :86400000000 :0 $4 home"));
    }
    assert_eq!(running.ask("TG.CHECK k deny SOURCE"), "*7 :1 :1 :4 :0 :86400000000 :0 $4 home");
    assert_eq!(running.ask("INCR n"), ":1");
    assert!(running.ask("FCALL fixed_window 1 f 3 60").starts_with('*'));
    assert_eq!(health(&running), "tollgate_journal_health 1.0");
    let ready = get(&running, "/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains("nothing is kept over a restart: the disk is full"),
        "{ready}"
    );
    // There is no room for a snapshot either.
    assert!(running.server.snapshot().unwrap().recv().unwrap().is_err());
    assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :1 :0 :86400000000 :0 $4 home");
    // As soon as there is, everything is kept again, what was decided meanwhile too.
    disk.set_room(None);
    running.server.snapshot().unwrap().recv().unwrap().unwrap();
    assert_eq!(health(&running), "tollgate_journal_health 0.0");
    assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :0 :0 :86400000000 :0 $4 home");
    let mut after = start(keeping(), &clock, &EmulatedDisk::with(2, disk.files()));
    assert_eq!(after.remaining("TG.PEEK k local"), 0);
    assert_eq!(after.remaining("TG.PEEK k deny"), 4);
    assert_eq!(after.ask("GET n"), "$1 1");
}

#[test]
fn a_full_disk_may_mean_that_policies_say_who_decides() {
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let mut running = start(PersistSettings { on_full_disk: OnFullDisk::Stop, ..keeping() }, &clock, &disk);
    disk.set_room(Some(10));
    standing_in(&mut running);
    assert_eq!(health(&running), "tollgate_journal_health 1.0");
    disk.set_room(None);
    well_again(&mut running, &disk, &clock);
}

/// What every policy answers while nothing can be kept, over both protocols.
fn standing_in(running: &mut DataTestServer) {
    asked_until(running, "TG.CHECK other local SOURCE", "$5 local");
    assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :4 :0 :86400000000 :0 $5 local");
    assert_eq!(running.ask("TG.CHECK k allow SOURCE"), "*7 :1 :1 :5 :0 :0 :0 $4 open");
    assert_eq!(running.ask("TG.CHECK k deny SOURCE"), "*7 :0 :0 :0 :5000000 :0 :0 $6 closed");
    let full = running.ask("TG.CHECK k deny FULL SOURCE");
    assert!(full.starts_with("*15 :0 :0 :0 :5000000") && full.ends_with("$6 closed"), "{full}");
    let all = running.ask("TG.CHECKALL k local AND k allow");
    assert!(all.starts_with("*21 :1 :0 :1 :1 :3"), "{all}");
    assert!(running.ask("TG.CHECKALL k local AND k deny").starts_with("*21 :0 :5000000"));
    assert_eq!(running.ask("INCR n"), ":1");
    let (status, answer) = check(running, "deny");
    assert!(status == 200 && answer.contains("\"source\":\"closed\""), "{answer}");
    let (status, answer) = check(running, "local");
    assert!(status == 200 && answer.contains("\"source\":\"local\""), "{answer}");
    assert!(get(running, "/readyz").contains("deciding as policies say, but nothing is kept"));
}

/// A new snapshot ends it, and what was decided meanwhile is in it.
fn well_again(running: &mut DataTestServer, disk: &EmulatedDisk, clock: &ManualClock) {
    running.server.snapshot().unwrap().recv().unwrap().unwrap();
    assert_eq!(health(running), "tollgate_journal_health 0.0");
    assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :2 :0 :86400000000 :0 $4 home");
    assert_eq!(running.ask("TG.CHECK k deny SOURCE"), "*7 :1 :1 :4 :0 :86400000000 :0 $4 home");
    let mut after = start(keeping(), clock, &EmulatedDisk::with(2, disk.files()));
    assert_eq!((after.remaining("TG.PEEK k local"), after.remaining("TG.PEEK k deny")), (2, 4));
    assert_eq!(after.ask("GET n"), "$1 1");
}

#[test]
fn a_write_that_fails_is_not_answered_as_if_it_had_not() {
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let mut running = start(keeping(), &clock, &disk);
    disk.fail(DiskOperation::Append, 0, 1, EIO);
    // Who asked is told nothing: the connection ends, and the next one is answered by who stands in.
    running.client.send(&["TG.CHECK", "first", "deny", "SOURCE"]);
    assert_eq!(running.client.reply(), None);
    running.client = Client::open(running.server.resp_addr().unwrap());
    assert_eq!(health(&running), "tollgate_journal_health 2.0");
    standing_in(&mut running);
    well_again(&mut running, &disk, &clock);
}

#[test]
fn over_http_a_write_that_fails_is_an_error() {
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let running = start(keeping(), &clock, &disk);
    disk.fail(DiskOperation::Append, 0, 1, EIO);
    let (status, answer) = check(&running, "local");
    assert!(status == 503 && answer.contains("it may have been charged"), "{answer}");
    let (status, answer) = check(&running, "local");
    assert!(status == 200 && answer.contains("\"source\":\"local\""), "{answer}");
}

#[test]
fn a_sync_that_fails_is_never_a_success_later() {
    let always = || PersistSettings { persist: PersistMode::Journal(Fsync::Always), ..keeping() };
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let mut running = start(always(), &clock, &disk);
    disk.fail(DiskOperation::Sync, 0, 1, EIO);
    running.client.send(&["TG.CHECK", "first", "deny", "SOURCE"]);
    assert_eq!(running.client.reply(), None);
    running.client = Client::open(running.server.resp_addr().unwrap());
    // Syncs would go well by now.
    standing_in(&mut running);
    assert_eq!(health(&running), "tollgate_journal_health 2.0");
    well_again(&mut running, &disk, &clock);
}

#[test]
fn a_server_that_cannot_write_its_last_snapshot_ends_all_the_same() {
    let (disk, clock) = (EmulatedDisk::new(1), clock());
    let mut running = start(keeping(), &clock, &disk);
    assert_eq!(running.remaining("TG.CHECK k local"), 4);
    // Enough for the end of the journal alone.
    disk.set_room(Some(200));
    running.server.stop();
    disk.set_room(None);
    let mut after = start(keeping(), &clock, &disk);
    assert_eq!(after.remaining("TG.PEEK k local"), 4);
}

/// Starts are tried on a disk with less and less room.
#[test]
fn a_start_on_a_full_disk_decides_and_keeps_what_was_kept() {
    for room in (0..400).step_by(7) {
        let (disk, clock) = (EmulatedDisk::new(1), clock());
        let mut running = start(keeping(), &clock, &disk);
        assert_eq!(running.remaining("TG.CHECK k local"), 4);
        // One half of them is killed, the other is stopped.
        let disk = if room % 2 == 0 { EmulatedDisk::with(2, disk.files()) } else { disk };
        running.server.stop();
        disk.set_room(Some(room));
        let stop = PersistSettings { on_full_disk: OnFullDisk::Stop, ..keeping() };
        let stopped = Server::start_with_disk(settings(Some(stop)), &clock, std::sync::Arc::new(disk.clone()));
        if room == 0 {
            let why = stopped.map(|_| ()).unwrap_err().to_string();
            assert!(why.contains("failed"), "{why}");
        } else if let Ok(server) = stopped {
            server.stop();
        }
        disk.set_room(Some(room));
        let mut running = start(keeping(), &clock, &disk);
        assert_eq!(running.ask("TG.CHECK k local SOURCE"), "*7 :1 :1 :3 :0 :86400000000 :0 $4 home", "{room}");
        if room == 0 {
            assert_eq!(health(&running), "tollgate_journal_health 1.0");
            let ready = get(&running, "/readyz");
            assert!(ready.contains("nothing is kept over a restart: the disk is full"), "{ready}");
            assert!(running.server.snapshot().unwrap().recv().unwrap().is_err());
        }
        // What was kept is there for who starts next, wherever this one is killed.
        let mut after = start(keeping(), &clock, &EmulatedDisk::with(3, disk.files()));
        let left = after.remaining("TG.PEEK k local");
        assert!(left == 4 || left == 3 && room > 0, "{room}: {left}");
        disk.set_room(None);
        running.server.snapshot().unwrap().recv().unwrap().unwrap();
        assert_eq!(health(&running), "tollgate_journal_health 0.0");
        assert_eq!(running.remaining("TG.CHECK k local"), 2);
        let mut after = start(keeping(), &clock, &EmulatedDisk::with(4, disk.files()));
        assert_eq!(after.remaining("TG.PEEK k local"), 2, "{room}");
        running.server.stop();
        assert_eq!(start(keeping(), &clock, &disk).remaining("TG.PEEK k local"), 2, "{room}");
    }
}

#[test]
fn the_first_start_of_all_may_be_on_a_full_disk() {
    for room in (0..500).step_by(11) {
        let (disk, clock) = (EmulatedDisk::new(1), clock());
        disk.set_room(Some(room));
        let mut running = start(keeping(), &clock, &disk);
        assert_eq!(running.remaining("TG.CHECK k local"), 4, "{room}");
        assert_eq!(
            start(keeping(), &clock, &EmulatedDisk::with(2, disk.files())).remaining("TG.PEEK k local"),
            5,
            "{room}"
        );
        assert!(running.server.snapshot().unwrap().recv().unwrap().is_err(), "{room}");
        start(keeping(), &clock, &EmulatedDisk::with(3, disk.files())).server.stop();
        disk.set_room(None);
        running.server.snapshot().unwrap().recv().unwrap().unwrap();
        assert_eq!(running.remaining("TG.CHECK k local"), 3);
        assert_eq!(
            start(keeping(), &clock, &EmulatedDisk::with(4, disk.files())).remaining("TG.PEEK k local"),
            3,
            "{room}"
        );
    }
}
