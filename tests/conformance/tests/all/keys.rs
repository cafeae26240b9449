//! A key is 1 to 512 bytes in every home, and any other is refused in the same words.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use serde_json::json;
use tollgate::redis::Redis;
use tollgate::{
    Gate, Micros, Policy, Request, RollingLimit, RollingLimiter, RollingOptions, SharedRollingLimiter, Store,
};
use tollgate_conformance::{HOMES, Line};
use tollgate_daemon::{Server, ServerSettings};

/// The lengths that are refused.
const WRONG: [usize; 3] = [0, 513, 5_000];
/// The lengths at the ends of those that are taken.
const RIGHT: [usize; 2] = [1, 512];

fn words(len: usize) -> String {
    format!("expected a key of 1 to 512 bytes, found {len}; hash longer ones")
}

#[test]
fn every_home_that_plays_vectors() {
    let line = |value: serde_json::Value| Line::read(value.to_string().as_bytes()).unwrap();
    let limiter = json!({"scenario": "keys", "limiter": "leaky_bucket", "t_unit": "ms",
        "policy": {"limit": 5, "capacity": 5, "period_ms": 60_000}});
    for home in HOMES {
        let mut playing = (home.open)().unwrap();
        let Line::Scenario(scenario) = line(limiter.clone()) else { panic!("expected a scenario") };
        playing.scenario(&scenario).unwrap();
        let mut ask = |len: usize| {
            let Line::Operation(operation) = line(json!({"t": 1_700_000_000_000_u64, "key": "k".repeat(len)})) else {
                panic!("expected an operation")
            };
            playing.operation(&operation)
        };
        for len in WRONG {
            let error = ask(len).unwrap_err().to_string();
            assert!(error.ends_with(&words(len)), "{}: {error}", home.name);
        }
        for len in RIGHT {
            assert_eq!(ask(len).unwrap()["allowed"], true, "{}: {len} bytes", home.name);
        }
    }
}

#[test]
fn the_libraries() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Keys are looked at before a server is asked, and no server listens here.
    let store = runtime.block_on(async { Redis::builder("redis://127.0.0.1:1").lazy().unwrap() });
    let (gate, policy) = (Gate::memory("5/min").unwrap(), "5/min".parse::<Policy>().unwrap());
    let options = RollingOptions::single(RollingLimit::new(Micros::from_secs(60), 5));
    let near = RollingLimiter::memory(&options).unwrap();
    let far = runtime.block_on(async { SharedRollingLimiter::over(&store, &options).unwrap() });
    for len in WRONG {
        let key = "k".repeat(len);
        let errors = [
            gate.check(&key).unwrap_err(),
            gate.peek(&key).unwrap_err(),
            gate.reset(&key).unwrap_err(),
            gate.check_many(&["good", &key]).unwrap_err(),
            near.attempt(&key, 1).unwrap_err(),
            runtime.block_on(store.check(&policy, key.as_bytes(), Request::ONE)).unwrap_err(),
            runtime.block_on(store.reset(&policy, key.as_bytes())).unwrap_err(),
            runtime.block_on(far.attempt(&key, 1)).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), words(len));
        }
    }
    assert_eq!(gate.stats().keys, 0, "nothing was charged");
    for len in RIGHT {
        let key = "k".repeat(len);
        assert!(gate.check(&key).unwrap().allowed);
        assert_eq!(near.attempt(&key, 1).unwrap().acknowledged, 1);
        assert!(runtime.block_on(store.check(&policy, key.as_bytes(), Request::ONE)).unwrap().allowed);
        assert_eq!(runtime.block_on(far.attempt(&key, 1)).unwrap().acknowledged, 1);
    }
    // The whole key counts: namespace, index and id.
    let long = RollingOptions::list([RollingLimit::new(Micros::from_secs(60), 5)]).namespace("n".repeat(500));
    let (near, far) = (RollingLimiter::memory(&long).unwrap(), SharedRollingLimiter::over(&store, &long).unwrap());
    for (id, len) in [("123456789", None), ("1234567890", Some(513)), ("", None)] {
        let (near, far) = (near.attempt(id, 1), runtime.block_on(far.attempt(id, 1)));
        let words = len.map(words);
        assert_eq!(near.err().map(|error| error.to_string()), words, "{id}");
        assert_eq!(far.err().map(|error| error.to_string()), words, "{id}");
    }
}

#[test]
fn the_server_over_both_protocols() {
    let free = || Some((Ipv4Addr::LOCALHOST, 0).into());
    let settings = ServerSettings { resp: free(), http: free(), threads: 1, ..ServerSettings::default() };
    let server = Server::start(settings).unwrap();
    let client = redis::Client::open(format!("redis://{}", server.resp_addr().unwrap())).unwrap();
    let mut client = client.get_connection().unwrap();
    for len in WRONG {
        let key = "k".repeat(len);
        for command in ["TG.CHECK", "TG.PEEK", "TG.RESET", "TG.EXPLAIN", "TG.CHECKALL"] {
            let error = redis::cmd(command).arg(&key).arg("5/min").exec(&mut client).unwrap_err().to_string();
            assert!(error.contains(&words(len)), "{command}: {error}");
        }
        for path in ["check", "peek", "explain"] {
            let said = post(server.http_addr().unwrap(), path, &json!({"key": key, "policy": "5/min"}).to_string());
            assert!(said.starts_with("HTTP/1.1 400 ") && said.contains(&words(len)), "{path}: {said}");
        }
    }
    for len in RIGHT {
        let reply: Vec<i64> = redis::cmd("TG.CHECK").arg("k".repeat(len)).arg("5/min").query(&mut client).unwrap();
        assert_eq!(reply[0], 1);
    }
}

fn post(addr: SocketAddr, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let len = body.len();
    let head = format!(
        "POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}
