//! One server: it is the one that was started, and it is gone when it should be.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redis::Commands;
use tollgate_kit::{Error, Server, valkey};

#[test]
fn a_server_answers_as_the_child_it_is_and_is_gone_after_drop() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap();
    assert!(info.contains(&format!("process_id:{}\r\n", server.pid())), "{info}");
    assert!(server.port() < 55_000);
    let (addr, process, folder) = (server.addr(), process(server.pid()), server.folder().to_owned());
    assert!(process.exists() && folder.exists());
    drop(server);
    assert!(TcpStream::connect(addr).is_err());
    assert!(!process.exists() && !folder.exists());
}

#[test]
fn two_servers_run_at_once_and_know_nothing_of_each_other() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    assert_ne!(one.port(), two.port());
    let _: () = one.connection().unwrap().set("key", "one").unwrap();
    let found: Option<String> = two.connection().unwrap().get("key").unwrap();
    assert_eq!(found, None);
}

#[test]
fn a_killed_server_comes_back_on_its_port() {
    let mut server = Server::builder().option("--appendonly", "yes").option("--appendfsync", "always").start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    let _: () = server.connection().unwrap().set("key", "kept").unwrap();
    server.kill_hard().unwrap();
    assert!(!server.is_running());
    assert!(server.connection().is_err());
    assert!(matches!(server.stop_answering(), Err(Error::Unexpected(_))), "no signal to a dead process");
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    let found: String = server.connection().unwrap().get("key").unwrap();
    assert_eq!(found, "kept");
}

#[test]
fn a_stopped_server_answers_nothing_until_it_goes_on() {
    let mut server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    server.stop_answering().unwrap();
    assert!(connection.ping::<String>().is_err());
    server.resume().unwrap();
    assert_eq!(server.connection().unwrap().ping::<String>().unwrap(), "PONG");
    server.stop_answering().unwrap();
    server.restart().unwrap();
    assert_eq!(server.connection().unwrap().ping::<String>().unwrap(), "PONG");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let missing = Server::builder().binary("/nowhere/redis-server").start().unwrap_err();
    assert!(missing.to_string().contains("apt-get install redis-server"), "{missing}");
    let wrong = Server::builder().option("--no-such-option", "1").start().unwrap_err();
    assert!(wrong.to_string().contains("no-such-option"), "{wrong}");
}

#[test]
fn keys_are_scanned_once_with_their_time_to_live() {
    let server = Server::start().unwrap();
    let mut connection = server.connection().unwrap();
    let mut fill = redis::pipe();
    for number in 0..3_000 {
        fill.cmd("SET").arg(format!("key:{number}")).arg("").arg("PX").arg(600_000);
    }
    fill.cmd("SET").arg("kept").arg("").exec(&mut connection).unwrap();
    let (mut mortal, mut kept) = (0, 0);
    let seen = server.scan_all(|_, left| if left == -1 { kept += 1 } else { mortal += i32::from(left <= 600_000) });
    assert_eq!((seen.unwrap(), mortal, kept), (3_001, 3_000, 1));
}

#[test]
fn valkey_is_found_or_fetched_and_runs() {
    let server = Server::builder().binary(valkey().unwrap()).start().unwrap();
    let info: String = redis::cmd("INFO").arg("server").query(&mut server.connection().unwrap()).unwrap();
    assert!(info.contains("valkey_version:9.1.2"), "{info}");
}

#[test]
fn the_clock_moves_an_hour_and_back_while_timers_go_on() {
    let mut redis = Server::builder().moveable_clock().start().unwrap();
    moves_its_clock(&redis);
    moves_its_clock(&Server::builder().binary(valkey().unwrap()).moveable_clock().start().unwrap());
    redis.kill_hard().unwrap();
    redis.set_clock_offset(-7_200).unwrap();
    redis.restart().unwrap();
    assert!((-7_201..=-7_199).contains(&ahead(&mut redis.connection().unwrap())));
    let fixed = Server::start().unwrap();
    assert!(fixed.set_clock_offset(1).is_err());
}

fn moves_its_clock(server: &Server) {
    let mut connection = server.connection().unwrap();
    for offset in [0, 3_600, -3_600, 0] {
        server.set_clock_offset(offset).unwrap();
        let seen = ahead(&mut connection);
        assert!((offset - 1..=offset + 1).contains(&seen), "{seen} for {offset}");
        // Removed by a timer of the server, since nobody asks for the key.
        redis::cmd("SET").arg("key").arg("").arg("PX").arg(20).exec(&mut connection).unwrap();
        let started = Instant::now();
        while redis::cmd("DBSIZE").query::<i64>(&mut connection).unwrap() > 0 {
            assert!(started.elapsed() < Duration::from_secs(2), "no timer runs at {offset}");
        }
    }
    // An hour ahead a key of a minute is gone.
    redis::cmd("SET").arg("key").arg("").arg("EX").arg(60).exec(&mut connection).unwrap();
    server.set_clock_offset(3_600).unwrap();
    assert!(!connection.exists::<_, bool>("key").unwrap());
}

/// Seconds from our clock to the server's.
fn ahead(connection: &mut redis::Connection) -> i64 {
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query(connection).unwrap();
    seconds - std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64
}

fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}
