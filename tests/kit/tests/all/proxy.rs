//! The proxy does the harm it was asked for, to the byte, and no other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tollgate_kit::{Fault, Proxy, Server};

/// One command; while n has one digit its reply is four bytes.
const INCR: &[u8] = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let (_server, proxy) = pair();
    let mut client = dial(&proxy);
    assert_eq!(ask(&mut client, INCR), b":1\r\n");
    assert_eq!(ask(&mut client, INCR), b":2\r\n");
    let counters = proxy.counters();
    assert_eq!((counters.connections, counters.cuts, counters.turned_away), (1, 0, 0));
    assert_eq!((counters.bytes_up, counters.bytes_down), (2 * INCR.len() as u64, 8));
    let mut client = redis::Client::open(proxy.url()).unwrap().get_connection().unwrap();
    let value: i64 = redis::cmd("GET").arg("n").query(&mut client).unwrap();
    assert_eq!(value, 2);
}

#[test]
fn a_request_is_cut_after_exactly_so_many_bytes() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(sink.local_addr().unwrap()).unwrap();
    for after in [0, 1, 7, 19, 20] {
        proxy.faults().next(Fault::CutRequest { after });
        let mut client = dial(&proxy);
        let (mut server, _) = sink.accept().unwrap();
        for chunk in INCR.chunks(3) {
            let _ = client.write_all(chunk);
        }
        let mut arrived = Vec::new();
        server.read_to_end(&mut arrived).unwrap();
        assert_eq!(arrived, INCR[..after as usize]);
        assert!(rest(&mut client).is_empty());
    }
    assert_eq!(proxy.counters().cuts, 5);
}

#[test]
fn a_request_that_arrived_whole_before_the_cut_is_done() {
    let (server, proxy) = pair();
    for round in 1..=50 {
        proxy.faults().next(Fault::CutRequest { after: INCR.len() as u64 });
        let mut client = dial(&proxy);
        client.write_all(INCR).unwrap();
        rest(&mut client);
        eventually(|| value(&server) == round);
    }
}

#[test]
fn a_reply_is_dropped_after_the_server_did_the_work() {
    let (server, proxy) = pair();
    for (round, after) in (1_u64..).zip(0..=4) {
        proxy.faults().next(Fault::CutReply { after });
        let mut client = dial(&proxy);
        client.write_all(INCR).unwrap();
        assert_eq!(rest(&mut client).len() as u64, after);
        assert_eq!(value(&server), round);
    }
    assert_eq!(proxy.counters().cuts, 5);
    assert_eq!(ask(&mut dial(&proxy), INCR), b":6\r\n", "armed for those connections only");
}

#[test]
fn one_shot_takes_the_connection_that_sends_next() {
    let (server, proxy) = pair();
    let (mut idle, mut busy) = (dial(&proxy), dial(&proxy));
    assert_eq!(ask(&mut busy, INCR), b":1\r\n");
    proxy.faults().once(Fault::CutReply { after: 0 });
    busy.write_all(INCR).unwrap();
    assert!(rest(&mut busy).is_empty());
    assert_eq!(value(&server), 2);
    assert_eq!(ask(&mut idle, INCR), b":3\r\n");
    assert_eq!(proxy.faults().armed(), 0);
}

#[test]
fn a_stalled_connection_gets_nothing_and_does_nothing() {
    let (server, proxy) = pair();
    proxy.faults().next_many(2, Fault::Stall);
    for _ in 0..2 {
        let mut client = dial(&proxy);
        client.write_all(INCR).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(client.read(&mut [0; 8]).is_err(), "neither bytes nor the end");
    }
    assert_eq!(value(&server), 0);
    assert_eq!(ask(&mut dial(&proxy), INCR), b":1\r\n");
    assert_eq!(proxy.counters().bytes_up, INCR.len() as u64);
}

#[test]
fn a_delay_holds_each_chunk_both_ways() {
    let (_server, proxy) = pair();
    let mut client = dial(&proxy);
    proxy.faults().set(Fault::Delay(Duration::from_millis(40)));
    let started = Instant::now();
    assert_eq!(ask(&mut client, INCR), b":1\r\n");
    assert!(started.elapsed() >= Duration::from_millis(80));
    proxy.faults().clear();
    assert_eq!(ask(&mut client, INCR), b":2\r\n");
}

#[test]
fn connections_are_refused_and_taken_again() {
    let (_server, proxy) = pair();
    let mut old = dial(&proxy);
    assert_eq!(ask(&mut old, INCR), b":1\r\n");
    proxy.faults().refuse();
    assert!(TcpStream::connect(proxy.addr()).is_err());
    assert_eq!(ask(&mut old, INCR), b":2\r\n");
    proxy.faults().accept().unwrap();
    let mut new = dial(&proxy);
    assert_eq!(ask(&mut new, INCR), b":3\r\n");
    assert_eq!(proxy.faults().close_all(), 2);
    assert!(rest(&mut old).is_empty() && rest(&mut new).is_empty());
}

#[test]
fn all_threads_end_with_the_proxy() {
    let (_server, proxy) = pair();
    let stalled: Vec<TcpStream> = (0..20).map(|_| dial(&proxy)).collect();
    proxy.faults().set(Fault::Delay(Duration::from_secs(60)));
    for mut client in &stalled {
        client.write_all(INCR).unwrap();
    }
    eventually(|| proxy.counters().connections == 20);
    let started = Instant::now();
    // Dropping joins them: it would not return if one stayed.
    drop(proxy);
    assert!(started.elapsed() < Duration::from_secs(2));
}

fn pair() -> (Server, Proxy) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    (server, proxy)
}

fn dial(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client
}

fn ask(client: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    client.write_all(request).unwrap();
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    reply.to_vec()
}

/// What still comes, up to the end of the connection.
fn rest(client: &mut TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend(&buffer[..count]),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "not ended");
                return all;
            }
        }
    }
}

fn value(server: &Server) -> u64 {
    let value: Option<u64> = redis::cmd("GET").arg("n").query(&mut server.connection().unwrap()).unwrap();
    value.unwrap_or(0)
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(1));
    }
}
