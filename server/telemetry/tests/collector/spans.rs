//! Spans as a collector gets them: a real receiver on loopback that decodes what was posted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span as Seen;
use prost::Message;
use tollgate_telemetry::traces::{ExportFailure, Sampler, SpanCounts, TraceSettings, Traces, TracesError};

/// The time after which a test that still waits has failed.
const HANGS: Duration = Duration::from_secs(30);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector: its address, and what was posted to it, as path and document.
fn collector(status: &'static str) -> (SocketAddr, Receiver<(String, ExportTraceServiceRequest)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (sender, came) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut path, mut length, mut kind) = (String::new(), 0, String::new());
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim_end().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                } else if let Some(rest) = line.strip_prefix("post ") {
                    path = rest.split(' ').next().unwrap().to_owned();
                } else if let Some(rest) = line.strip_prefix("content-length: ") {
                    length = rest.parse().unwrap();
                } else if let Some(rest) = line.strip_prefix("content-type: ") {
                    kind = rest.to_owned();
                }
            }
            assert_eq!(kind, "application/x-protobuf");
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let _ = sender.send((path, ExportTraceServiceRequest::decode(body.as_slice()).unwrap()));
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    (addr, came)
}

fn traces(addr: SocketAddr, one_of: u64) -> (Traces, Receiver<ExportFailure>) {
    let settings = TraceSettings { endpoint: format!("http://{addr}"), service: "tollgate", version: "1.2.3" };
    let (told, trouble) = channel();
    let traces = Traces::start(&settings, Sampler::new(one_of), move |trouble| drop(told.send(trouble.clone())));
    (traces.unwrap(), trouble)
}

fn attribute<'a>(span: &'a Seen, name: &str) -> Option<&'a Any> {
    span.attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_collector_sees_names_parents_and_attributes() {
    let (addr, came) = collector("200 OK");
    let (traces, _) = traces(addr, 1);
    let parent = format!("00-{TRACE}-{SPAN}-01");
    for (name, parent) in [("POST /v1/check", Some(parent.as_bytes())), ("TG.CHECK", None)] {
        let mut span = traces.begin(parent).unwrap();
        span.name(name);
        span.set("tollgate.policy", "100/min");
        span.set("tollgate.allowed", true);
        span.set("tollgate.batch_size", 64usize);
        traces.end(span);
    }
    let mut span = traces.begin(None).unwrap();
    span.fail("the store did not answer");
    traces.end(span);
    drop(traces);
    let (path, request) = came.recv_timeout(HANGS).unwrap();
    assert_eq!(path, "/v1/traces");
    let [resource] = request.resource_spans.as_slice() else { panic!("{request:?}") };
    let named = |name: &str| {
        let of = &resource.resource.as_ref().unwrap().attributes;
        of.iter().find(|attribute| attribute.key == name).unwrap().value.clone().unwrap().value.unwrap()
    };
    assert_eq!(named("service.name"), Any::StringValue("tollgate".to_owned()));
    assert_eq!(named("service.version"), Any::StringValue("1.2.3".to_owned()));
    let spans: Vec<&Seen> = resource.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
    let [child, root, failed] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(
        (child.name.as_str(), hex(&child.trace_id), hex(&child.parent_span_id)),
        ("POST /v1/check", TRACE.to_owned(), SPAN.to_owned())
    );
    assert_eq!((root.name.as_str(), root.parent_span_id.is_empty()), ("TG.CHECK", true));
    assert!(root.trace_id.len() == 16 && hex(&root.trace_id) != TRACE && root.span_id.len() == 8);
    assert_ne!(root.span_id, child.span_id);
    for span in [child, root] {
        assert_eq!(attribute(span, "tollgate.policy"), Some(&Any::StringValue("100/min".to_owned())));
        assert_eq!(attribute(span, "tollgate.allowed"), Some(&Any::BoolValue(true)));
        assert_eq!(attribute(span, "tollgate.batch_size"), Some(&Any::IntValue(64)));
        assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano);
        assert!(span.status.as_ref().is_none_or(|status| status.code == 0));
    }
    assert_eq!(failed.status.as_ref().unwrap().message, "the store did not answer");
}

#[test]
fn sampling_is_exact_and_a_caller_that_traces_is_followed() {
    let (addr, came) = collector("200 OK");
    let (traces, _) = traces(addr, 100);
    let sampled = format!("00-{TRACE}-{SPAN}-01");
    let not = format!("00-{TRACE}-{SPAN}-00");
    let begun = |parent: Option<&[u8]>, times: usize| (0..times).filter_map(|_| traces.begin(parent)).count();
    assert_eq!(begun(None, 1_000), 10);
    // Requests that callers trace do not count for our own sampling: they are all traced, and so is one of a hundred
    // others, as before.
    assert_eq!(begun(Some(sampled.as_bytes()), 50), 50);
    assert_eq!(begun(Some(not.as_bytes()), 200), 2);
    assert_eq!(begun(Some(b"nonsense"), 100), 1);
    // A request that only we sample is a trace of its own.
    let (mut ours, mut tries) = (None, 0);
    while ours.is_none() && tries < 1_000 {
        (ours, tries) = (traces.begin(Some(not.as_bytes())), tries + 1);
    }
    traces.end(ours.unwrap());
    drop(traces);
    let (_, request) = came.recv_timeout(HANGS).unwrap();
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert!(span.parent_span_id.is_empty() && hex(&span.trace_id) != TRACE);
}

#[test]
fn a_collector_that_is_gone_is_told_once_and_spans_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let (traces, trouble) = traces(addr, 1);
    traces.end(traces.begin(None).unwrap());
    let told = trouble.recv_timeout(HANGS).unwrap();
    assert_eq!(told.spans, 1);
    assert!(!told.because.is_empty());
    // The next ones fail too, and no further report is made within the minute.
    for _ in 0..10 {
        traces.end(traces.begin(None).unwrap());
    }
    assert_eq!(traces.counts().dropped, 0);
    drop(traces);
    assert!(trouble.try_recv().is_err());
}

#[test]
fn an_answer_that_is_no_yes_is_trouble_too() {
    for status in ["500 No", "400 No", "302 There"] {
        let (addr, came) = collector(status);
        let (traces, trouble) = traces(addr, 1);
        traces.end(traces.begin(None).unwrap());
        let told = trouble.recv_timeout(HANGS).unwrap();
        assert_eq!(told.spans, 1, "{status}");
        let _ = came.recv_timeout(HANGS).unwrap();
        assert_eq!(traces.counts(), SpanCounts { exported: 0, failed: 1, dropped: 0 });
    }
}

#[test]
fn a_collector_that_does_not_answer_holds_nobody_up() {
    // It accepts the connection and does not respond.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (traces, _) = traces(listener.local_addr().unwrap(), 1);
    let most = 10_000;
    for _ in 0..most {
        traces.end(traces.begin(None).unwrap());
    }
    let counts = traces.counts();
    // One request is on its way, 2,048 wait, and the others found no room.
    assert!(counts.dropped >= most - 2_048 - 2 * 512 && counts.exported == 0, "{counts:?}");
}

#[test]
fn urls_that_are_none_say_what_was_expected() {
    for endpoint in
        ["", "127.0.0.1:4318", "https://127.0.0.1:4318", "http://", "http://a:b@host", "ftp://host", "http://a b"]
    {
        let settings = TraceSettings { endpoint: endpoint.to_owned(), service: "tollgate", version: "1" };
        let error = Traces::start(&settings, Sampler::new(1), |_| {}).unwrap_err();
        assert!(matches!(error, TracesError::Endpoint(_)) && error.to_string().contains("expected"), "{error}");
    }
}
