//! HTTP over a real socket, beside RESP: one server, one state, one page of metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_daemon::{Server, ServerSettings};
use tollgate_kernel::Timestamp;
use tollgate_memory::ManualClock;

fn start() -> (Server, SocketAddr, SocketAddr) {
    let clock = ManualClock::at(Timestamp::new(1_790_000_000_000_000).unwrap());
    let any = Some("127.0.0.1:0".parse().unwrap());
    let settings = ServerSettings { resp: any, http: any, threads: 2, ..ServerSettings::default() };
    let server = Server::start_with_clock(settings, &clock).unwrap();
    let (resp, http) = (server.resp_addr().unwrap(), server.http_addr().unwrap());
    (server, resp, http)
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// The whole answer to a request on a connection of its own.
fn ask(addr: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = connect(addr);
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

/// The replies to inline and array commands, up to QUIT.
fn resp(addr: SocketAddr, commands: &[&[&str]]) -> String {
    let mut stream = connect(addr);
    for command in commands.iter().chain(&[&["QUIT"][..]]) {
        let mut text = format!("*{}\r\n", command.len());
        for word in *command {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(text.as_bytes()).unwrap();
    }
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn both_front_ends_are_of_one_server() {
    let (server, resp_addr, http) = start();
    let told = ask(http, "POST /v1/check", r#"{"key": "user:42", "policy": "3/min"}"#);
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n") && told.contains("\"remaining\":2,"), "{told}");
    let check: &[&str] = &["TG.CHECK", "user:42", "3/min"];
    let told = resp(resp_addr, &[check, check, check, &["TG.PEEK", "user:42", "3/parsec"]]);
    let (decisions, rest) = told.split_at(told.find('-').unwrap());
    assert_eq!(decisions.matches("*6\r\n:1\r\n").count(), 2, "{told}");
    assert_eq!(decisions.matches("*6\r\n:0\r\n").count(), 1, "{told}");
    assert!(rest.starts_with("-ERR policy: column 3"), "{told}");
    let told = ask(http, "POST /v1/check", r#"{"key": "user:42", "policy": "3/min"}"#);
    assert!(told.contains("\"allowed\":false,") && told.contains("\"limited_by\":\"3/min\""), "{told}");
    let parts: &[&[&str]] = &[
        &["CLIENT", "ID"],
        &["CLIENT", "GETNAME"],
        &["COMMAND"],
        &["COMMAND", "COUNT"],
        &["CONFIG", "GET", "maxmemory"],
        &["CLUSTER", "HELP"],
    ];
    resp(resp_addr, parts);
    let metrics = ask(http, "GET /metrics", "");
    for line in [
        "tollgate_decisions_total{policy=\"3/min\",decision=\"allowed\"} 3",
        "tollgate_decisions_total{policy=\"3/min\",decision=\"denied\"} 2",
        "tollgate_denied_total{policy=\"3/min\",limit=\"3/min\"} 2",
        "tollgate_commands_total{front=\"resp\",command=\"tg.check\"} 3",
        "tollgate_commands_total{front=\"resp\",command=\"tg.peek\"} 1",
        "tollgate_commands_total{front=\"resp\",command=\"client\"} 2",
        "tollgate_commands_total{front=\"resp\",command=\"command\"} 2",
        "tollgate_commands_total{front=\"resp\",command=\"config\"} 1",
        "tollgate_commands_total{front=\"resp\",command=\"cluster\"} 1",
        "tollgate_commands_total{front=\"resp\",command=\"quit\"} 2",
        "tollgate_commands_total{front=\"http\",command=\"check\"} 2",
        "tollgate_errors_total{front=\"resp\",code=\"ERR\"} 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}\n{metrics}");
    }
    server.stop();
    assert!(TcpStream::connect(http).is_err(), "nobody listens any more");
}

#[test]
fn a_client_that_stays_is_let_go_at_the_end() {
    let (server, _, http) = start();
    let mut stream = connect(http);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut told = [0; 12];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 200");
    server.stop();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"ok\n"));
}
