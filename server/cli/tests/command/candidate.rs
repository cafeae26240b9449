//! The candidate of a running server counts the flips that `tollgate replay` finds on the same traffic.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tollgate_daemon::{Server, ServerSettings};
use tollgate_kernel::{Micros, Timestamp};
use tollgate_memory::ManualClock;
use tollgate_random::Rng;

use crate::support::{path, tollgate};

const LIVE: &str = "20/min, 100/h";
const CANDIDATE: &str = "10/min gcra burst=25, 90/h";
const REQUESTS: usize = 4_000;
const BEGAN: u64 = 1_790_000_000_000_000;

/// A request of the recorded traffic.
struct Request {
    at: u64,
    key: String,
    cost: u64,
}

/// Bursts and pauses of a few keys, some of which ask for more than one unit.
fn traffic(rng: &mut Rng) -> Vec<Request> {
    let mut at = BEGAN;
    let request = |_| {
        at += if rng.one_in(10) { rng.below(20_000_000) } else { rng.below(600_000) };
        Request { at, key: format!("user:{}", rng.below(12)), cost: 1 + rng.below(3) }
    };
    (0..REQUESTS).map(request).collect()
}

fn settings() -> ServerSettings {
    let file = path("candidate.yaml");
    fs::write(&file, format!("policies:\n  api:\n    limit: {LIVE}\n    candidate: {CANDIDATE}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let here = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    ServerSettings { resp: here, http: here, config: Some(file), ..ServerSettings::default() }
}

/// Returns the counts of the server after it has decided each request at its time.
fn counted(requests: &[Request]) -> (u64, u64) {
    let clock = ManualClock::at(Timestamp::new(BEGAN).unwrap());
    let server = Server::start_with_clock(settings(), &clock).unwrap();
    let mut stream = TcpStream::connect(server.resp_addr().unwrap()).unwrap();
    let mut before = BEGAN;
    for Request { at, key, cost } in requests {
        clock.advance(Micros::new(at - before));
        before = *at;
        let words = ["TG.CHECK", key.as_str(), "api", "COST", &cost.to_string()]
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(format!("*5\r\n{}", words.concat()).as_bytes()).unwrap();
        let mut reply = [0; 1024];
        let count = stream.read(&mut reply).unwrap();
        assert!(reply[..count].starts_with(b"*6\r\n:"), "{}", String::from_utf8_lossy(&reply[..count]));
    }
    let body = r#"{"policy":"api","key":"user:1"}"#;
    let mut http = TcpStream::connect(server.http_addr().unwrap()).unwrap();
    let head = "POST /v1/explain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
    write!(http, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    http.read_to_string(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let candidate = &answer["because"]["candidate"];
    assert_eq!(candidate["decided"], REQUESTS, "{answer}");
    (candidate["would_refuse"].as_u64().unwrap(), candidate["would_allow"].as_u64().unwrap())
}

/// Returns the counts of the replay.
fn replayed(requests: &[Request]) -> (u64, u64) {
    let (log, out) = (path("candidate.jsonl"), path("candidate-decisions.jsonl"));
    let lines = requests.iter().fold(String::new(), |mut lines, Request { at, key, cost }| {
        writeln!(lines, r#"{{"t":{at},"key":"{key}","cost":{cost}}}"#).unwrap();
        lines
    });
    fs::write(&log, lines).unwrap();
    let (log, out_text) = (log.to_str().unwrap(), out.to_str().unwrap());
    let args = ["replay", log, "--time-unit", "us", "-p", LIVE, "-p", CANDIDATE, "--decisions", out_text];
    tollgate(&args, b"").ok();
    let decisions: Vec<bool> = fs::read_to_string(&out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["allowed"].as_bool().unwrap())
        .collect();
    assert_eq!(decisions.len(), 2 * REQUESTS);
    let (pairs, _) = decisions.as_chunks::<2>();
    let flips = |live: bool| pairs.iter().filter(|pair| **pair == [live, !live]).count() as u64;
    (flips(true), flips(false))
}

#[test]
fn a_candidate_counts_the_flips_that_replay_finds() {
    let requests = traffic(&mut Rng::new(7));
    let (counted, replayed) = (counted(&requests), replayed(&requests));
    assert_eq!(counted, replayed);
    assert!(counted.0 > 10 && counted.1 > 10, "both kinds of flips, or this shows little: {counted:?}");
}
