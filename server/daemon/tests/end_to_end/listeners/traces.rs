//! What a collector sees of requests, over both front-ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tollgate_daemon::{Collector, Server, ServerSettings, StartError};

use crate::listeners::support::{Client, settings};

/// After this, a test that waits has found a mistake.
const HANGS: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector, and the spans it gets.
fn collector() -> (SocketAddr, Receiver<Vec<Span>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (sender, came) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, "first".to_owned());
            while !line.trim_end().is_empty() {
                line.clear();
                stream.read_line(&mut line).unwrap();
                let lower = line.to_ascii_lowercase();
                length = lower.strip_prefix("content-length: ").map_or(length, |rest| rest.trim_end().parse().unwrap());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            let _ = sender.send(scopes.flat_map(|scope| scope.spans).collect());
            let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (addr, came)
}

fn start(addr: SocketAddr, one_of: u64) -> Server {
    let traces = Some(Collector { endpoint: format!("http://{addr}"), one_of });
    let http = Some((Ipv4Addr::LOCALHOST, 0).into());
    Server::start(ServerSettings { traces, http, threads: 1, ..settings() }).unwrap()
}

/// All spans of a server, which ends for it.
fn spans(server: Server, came: &Receiver<Vec<Span>>, count: usize) -> Vec<Span> {
    server.stop();
    let mut spans = Vec::new();
    while spans.len() < count {
        spans.extend(came.recv_timeout(HANGS).unwrap());
    }
    assert_eq!(spans.len(), count, "{spans:?}");
    spans
}

fn attributes(span: &Span) -> HashMap<&str, String> {
    let value = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::BoolValue(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    };
    let pairs =
        span.attributes.iter().map(|pair| (pair.key.as_str(), pair.value.as_ref().unwrap().value.as_ref().unwrap()));
    pairs.map(|(name, any)| (name, value(any))).collect()
}

/// Posts over HTTP; answers the status.
fn post(server: &Server, path: &str, head: &str, body: &str) -> String {
    let mut client = Client::connect(1, server.http_addr().unwrap());
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}Content-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    client.0.get_mut().write_all(text.as_bytes()).unwrap();
    let status = client.line().split(' ').nth(1).unwrap().to_owned();
    let mut rest = String::new();
    client.0.read_to_string(&mut rest).unwrap();
    status
}

#[test]
fn a_request_is_a_span_with_its_policy_and_a_hash_for_its_key() {
    let (addr, came) = collector();
    let server = start(addr, 1);
    let mut client = Client::connect(1, server.resp_addr().unwrap());
    for words in [&["TG.CHECK", "secret:42", "1/min"][..], &["TG.CHECK", "secret:42", "1/min", "FULL"]] {
        let lines: usize = client.ask(words)[1..].parse().unwrap();
        (0..lines).for_each(|_| drop(client.line()));
    }
    assert!(client.ask(&["TG.REFUND", "secret:42", "1/min", "1", "1"]).starts_with("-NOPERM"));
    let traceparent = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    assert_eq!(
        post(&server, "/v1/check", &traceparent, r#"{"key":"secret:42","policy":"1/min","name":"login"}"#),
        "200"
    );
    assert_eq!(post(&server, "/v1/check", "", r#"{"key":"secret:42","secret:43":1}"#), "400");
    let spans = spans(server, &came, 4);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["TG.CHECK", "TG.CHECK", "POST /v1/check", "POST /v1/check"]);
    let told: Vec<HashMap<&str, String>> = spans.iter().map(attributes).collect();
    let get = |place: usize, name: &str| told[place].get(name).map(String::as_str);
    for (place, policy, allowed) in [(0, "1/min", "true"), (1, "1/min", "false"), (2, "login", "true")] {
        assert_eq!(get(place, "tollgate.policy"), Some(policy));
        assert_eq!((get(place, "tollgate.allowed"), get(place, "tollgate.source")), (Some(allowed), Some("home")));
        assert_eq!(get(place, "tollgate.key_hash"), get(0, "tollgate.key_hash"));
    }
    assert_eq!(get(1, "tollgate.limited_by"), Some("1/min"));
    assert_eq!((get(2, "http.response.status_code"), get(3, "http.response.status_code")), (Some("200"), Some("400")));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((hex(&spans[2].trace_id), hex(&spans[2].parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert!(spans[3].parent_span_id.is_empty());
    assert_eq!(spans[3].status.as_ref().unwrap().message, "Bad Request");
    assert!(!format!("{spans:?}").contains("secret"), "a key is told: {spans:?}");
}

#[test]
fn a_call_of_another_limiter_is_a_span_also_in_a_transaction() {
    let (addr, came) = collector();
    let server = start(addr, 1);
    let mut client = Client::connect(1, server.resp_addr().unwrap());
    let call: &[&str] = &["FCALL", "sliding_window", "1", "secret:42", "60000", "1"];
    assert_eq!(client.ask(call), ":0");
    for (words, line) in [(&["MULTI"][..], "+OK"), (call, "+QUEUED"), (&["EXEC"], "*1")] {
        assert_eq!(client.ask(words), line);
    }
    assert_eq!(client.line(), ":1");
    assert_eq!(client.ask(&["SET", "text", "x"]), "+OK");
    assert!(client.ask(&["FCALL", "sliding_window", "1", "text", "60000", "1"]).starts_with("-WRONGTYPE"));
    let spans = spans(server, &came, 3);
    let told: Vec<HashMap<&str, String>> = spans.iter().map(attributes).collect();
    for (place, allowed) in [Some("true"), Some("false"), None].into_iter().enumerate() {
        assert_eq!(
            (spans[place].name.as_str(), told[place]["tollgate.dialect"].as_str()),
            ("sliding_window", "sliding_window")
        );
        assert_eq!(told[place].get("tollgate.allowed").map(String::as_str), allowed);
    }
    assert_eq!(told[0]["tollgate.key_hash"], told[1]["tollgate.key_hash"]);
    assert_eq!(spans[2].status.as_ref().unwrap().message, "WRONGTYPE");
    assert!(!format!("{spans:?}").contains("secret"), "a key is told: {spans:?}");
}

#[test]
fn a_pipeline_is_one_span_and_so_many_requests_have_one() {
    let (addr, came) = collector();
    let server = start(addr, 3);
    let mut client = Client::connect(1, server.resp_addr().unwrap());
    let one = crate::listeners::support::command(&["TG.CHECK", "a", "5/min"]);
    // Seven calls of one, then ten in one: the first, the fourth and the seventh are traced.
    for _ in 0..7 {
        client.0.get_mut().write_all(&one).unwrap();
        (0..7).for_each(|_| drop(client.line()));
    }
    client.0.get_mut().write_all(&one.repeat(10)).unwrap();
    (0..70).for_each(|_| drop(client.line()));
    let spans = spans(server, &came, 3);
    assert!(spans.iter().all(|span| !attributes(span).contains_key("tollgate.batch_size")));
    let (addr, came) = collector();
    let server = start(addr, 1);
    let mut client = Client::connect(1, server.resp_addr().unwrap());
    client.0.get_mut().write_all(&one.repeat(10)).unwrap();
    (0..70).for_each(|_| drop(client.line()));
    let spans = self::spans(server, &came, 1);
    let told = attributes(&spans[0]);
    assert_eq!((told["tollgate.batch_size"].as_str(), told["tollgate.allowed_count"].as_str()), ("10", "5"));
    assert!(!told.contains_key("tollgate.key_hash"));
}

#[test]
fn without_a_collector_requests_are_answered_as_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let server = start(addr, 1);
    let mut client = Client::connect(1, server.resp_addr().unwrap());
    for _ in 0..100 {
        assert_eq!(client.ask(&["TG.CHECK", "a", "1000/min"]), "*6");
        (0..6).for_each(|_| drop(client.line()));
    }
    server.stop();
    let traces = Some(Collector { endpoint: "https://127.0.0.1".to_owned(), one_of: 1 });
    let found = Server::start(ServerSettings { traces, ..settings() }).err();
    assert!(matches!(found, Some(StartError::Traces(_))), "{found:?}");
}
