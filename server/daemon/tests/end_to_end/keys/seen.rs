//! What operators see of calls of dialects: counters by dialect, by whatever command a call came.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tollgate_daemon::{Server, ServerSettings};
use tollgate_redis::Redis;

use crate::keys::store::OpenStore;
use crate::keys::support::Client;

fn start(store: Option<Redis>) -> (Server, Client) {
    let free = || Some(([127, 0, 0, 1], 0).into());
    let settings = ServerSettings { resp: free(), http: free(), threads: 1, store, ..ServerSettings::default() };
    let server = Server::start(settings).unwrap();
    let client = Client::open(server.resp_addr().unwrap());
    (server, client)
}

/// The series of `/metrics` that have the label `dialect`.
fn series(http: SocketAddr) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let lines = page.lines().filter(|line| line.contains("{dialect=\""));
    lines
        .map(|line| line.rsplit_once(' ').map(|(id, value)| (id.to_owned(), value.parse().unwrap())).unwrap())
        .collect()
}

/// The numbers of decisions and calls of a dialect: allowed, denied, all.
fn counts(series: &BTreeMap<String, f64>, dialect: &str) -> [u64; 3] {
    let of = |id: String| series.get(&id).map_or(0, |value| *value as u64);
    let decided = |word: &str| of(format!("tollgate_decisions_total{{dialect=\"{dialect}\",decision=\"{word}\"}}"));
    let calls = of(format!("tollgate_dialect_seconds_count{{dialect=\"{dialect}\"}}"));
    [decided("allowed"), decided("denied"), calls]
}

fn ask(client: &mut Client, command: &str) -> String {
    client.ask(&command.split(' ').collect::<Vec<_>>())
}

#[test]
fn decisions_are_counted_by_dialect_whatever_command_they_came_by() {
    let (server, mut client) = start(None);
    for (commands, times) in [
        // The published script of fixed_window by its SHA-1.
        (&["EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 4 60"][..], 2),
        (&["FCALL fixed_window 1 f 4 60"], 1),
        (&["MULTI", "FCALL fixed_window 1 f 4 60", "FCALL fixed_window 1 f 4 60", "EXEC"], 1),
        (&["FCALL token_bucket 1 b 2 60 1"], 3),
        (&["FCALL sliding_window 1 s 60000 1"], 3),
        (&["FCALL slot_window 1 o 1 ns [[1,5,1]] 1700000040 0"], 2),
        // These only look, and forget.
        (
            &[
                "FCALL slot_window 1 o 0 ns [[1,5,1]] 1700000040 0",
                "FCALL slot_window 1 o -1 ns [[1,5,1]] 1700000040 0",
            ],
            1,
        ),
        (&["FCALL ar1 1 a 1 ns [[1,2,60]] 1700000040 0"], 2),
        (&["FCALL rolling 1 r 1 2 1700000040000000 0 3 1000000 60"], 2),
        (&["FCALL api_counter 1 {api:x} 1"], 2),
        (&["CL.THROTTLE t 1 1 60"], 3),
        (&["CL.THROTTLE t 1 1 60 0"], 1),
        // Errors, of which one is found when the call is run.
        (&["FCALL fixed_window 1 f nonsense 60", "SET text x", "FCALL fixed_window 1 text 4 60"], 1),
    ] {
        for command in (0..times).flat_map(|_| commands) {
            ask(&mut client, command);
        }
    }
    let series = series(server.http_addr().unwrap());
    for (dialect, expected) in [
        ("fixed_window", [4, 1, 6]),
        ("token_bucket", [1, 2, 3]),
        ("sliding_window", [1, 2, 3]),
        ("slot_window", [1, 1, 4]),
        ("ar1", [1, 1, 2]),
        ("rolling", [1, 1, 2]),
        ("api_counter", [1, 1, 2]),
        ("cl.throttle", [2, 1, 4]),
    ] {
        assert_eq!(counts(&series, dialect), expected, "{dialect}: {series:#?}");
    }
    assert!(series.keys().all(|id| !id.contains("text") && !id.contains("api:")), "a key is told: {series:#?}");
}

#[test]
fn decisions_in_the_store_are_counted_too() {
    let redis = tollgate_kit::Server::start().unwrap();
    let store = OpenStore::new(redis.url(), Redis::builder);
    let (server, mut client) = start(Some(store.store()));
    for command in ["FCALL sliding_window 1 s 60000 1", "FCALL fixed_window 1 f 1 60"] {
        (0..3).for_each(|_| drop(ask(&mut client, command)));
    }
    let series = series(server.http_addr().unwrap());
    for dialect in ["sliding_window", "fixed_window"] {
        assert_eq!(counts(&series, dialect), [1, 2, 3], "{dialect}: {series:#?}");
    }
    drop(server);
}

#[test]
fn what_stands_in_for_the_store_is_counted_as_such() {
    // No server listens on port 1.
    let away = OpenStore::lazy("redis://127.0.0.1:1", std::time::Duration::from_millis(50));
    let (server, mut client) = start(Some(away.store()));
    (0..3).for_each(|_| drop(ask(&mut client, "FCALL fixed_window 1 f 1 60")));
    let series = series(server.http_addr().unwrap());
    assert_eq!(counts(&series, "fixed_window"), [1, 2, 3], "{series:#?}");
    let local = "tollgate_standin_decisions_total{dialect=\"fixed_window\",source=\"local\"}";
    assert_eq!(series.get(local), Some(&3.0), "{series:#?}");
    drop(server);
}
