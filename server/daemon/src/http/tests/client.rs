//! A client, and a server for it.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tollgate_config::Config;
use tollgate_kernel::{Policy, Timestamp};
use tollgate_memory::{DEFAULT_CAP, ManualClock, Memory};

use crate::access::{AccessControl, AccessToken, FreeAccess, Scope, Scopes, Tokens};
use crate::http::shared::HttpLimits;
use crate::http::{HttpState, serve};
use crate::resp::clients::Clients;
use crate::resp::commands::ScriptRegistry;
use crate::shared::ServerState;
use tollgate_engine::{Engine, Home, RecoveredState};
use tollgate_keyspace::Keyspace;
use tollgate_telemetry::log::ServerLog;

/// The time at which the clock of a test stands.
pub(super) const START: u64 = 1_790_000_000_000_000;

/// A server, its clock, and its tokens by scope.
pub(super) struct HttpTestServer {
    pub(super) shared: Arc<ServerState>,
    pub(super) clock: ManualClock,
    pub(super) tokens: Vec<(&'static str, AccessToken)>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) peer: SocketAddr,
}

/// What differs from the default server of a test.
#[derive(Default)]
pub(super) struct HttpTestOptions {
    pub(super) limits: Option<HttpLimits>,
    pub(super) home: Option<Home>,
    pub(super) policies: Vec<Policy>,
    pub(super) config: Config,
    pub(super) trusted: &'static [&'static str],
    pub(super) hosts: &'static [&'static str],
    pub(super) peer: Option<&'static str>,
}

/// Returns the default server of a test.
pub(super) fn tested() -> HttpTestServer {
    tested_with(HttpTestOptions::default())
}

pub(super) fn tested_with(with: HttpTestOptions) -> HttpTestServer {
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let home = with.home.unwrap_or_else(|| {
        Home::embedded(Memory::with_clock(DEFAULT_CAP, Box::new(clock.clone())), Box::new(clock.clone()))
    });
    let scopes = ["check", "read", "refund", "reset", "admin", "script", "check,read,refund,reset,admin"];
    let tokens = scopes.map(|scopes| (scopes, AccessToken::make().unwrap()));
    let known = known(&tokens);
    let log = Arc::new(ServerLog::default());
    let (stop, stopping) = watch::channel(false);
    let hosts = with.hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut front = HttpState::new(hosts, tollgate_http::Proxies::new(with.trusted).unwrap());
    if let Some(limits) = with.limits {
        front.limits = limits;
    }
    let (by, keys) = (Box::new(clock.clone()), Keyspace::new(1 << 20));
    let metrics = Arc::<crate::metrics::Metrics>::default();
    let engine = Engine::new(home, with.policies, by, Arc::clone(&log), keys);
    engine.begin(with.config, RecoveredState::default()).unwrap();
    let shared = ServerState {
        engine: Arc::new(engine),
        access: AccessControl::new(
            FreeAccess::Loopback(Scopes::FREE),
            Vec::new(),
            known,
            None,
            Box::new(clock.clone()),
            Arc::clone(&log),
        ),
        clients: Clients::new(tollgate_kernel::Clock::now(&clock)),
        cluster: None,
        http: front,
        buffers: Arc::clone(&metrics.buffers),
        metrics,
        log,
        scripts: ScriptRegistry::default(),
        next_id: 1.into(),
        leaving: stopping.clone(),
        stopping,
    };
    let peer = with.peer.unwrap_or("127.0.0.1:50000").parse().unwrap();
    HttpTestServer { shared: Arc::new(shared), clock, tokens: tokens.into(), stop, peer }
}

/// Returns the tokens as a server reads them from a file.
fn known(tokens: &[(&str, AccessToken)]) -> Tokens {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("tollgate-http-{}-{number}", std::process::id()));
    let lines = tokens.iter().map(|(scopes, token)| {
        let all = scopes.split(',').map(|scope| Scope::from_name(scope).unwrap()).fold(Scopes::NONE, Scopes::with);
        token.line(all, &scopes.replace(',', "-"))
    });
    let mut options = std::fs::OpenOptions::new();
    let mut written = options.write(true).create_new(true).mode(0o600).open(&file).unwrap();
    written.write_all(lines.collect::<Vec<_>>().join("\n").as_bytes()).unwrap();
    let known = Tokens::read(&file);
    std::fs::remove_file(&file).unwrap();
    known.unwrap()
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct HttpTestResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl HttpTestResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Asserts that the answer is a problem with its own status; returns the detail.
    pub(super) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(problem["type"].is_string() && problem["title"].is_string(), "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    }
}

/// Returns a request in bytes.
pub(super) fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if method == "POST" {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    (text + "\r\n" + body).into_bytes()
}

impl HttpTestServer {
    /// Returns a connection that is being served.
    pub(super) fn connect(&self) -> DuplexStream {
        self.connect_with(64 << 10)
    }

    /// Returns the same, with at most that number of bytes in transit.
    pub(super) fn connect_with(&self, bytes: usize) -> DuplexStream {
        let (client, server) = tokio::io::duplex(bytes);
        let local = "127.0.0.1:7380".parse().unwrap();
        tokio::spawn(serve(Arc::clone(&self.shared), server, self.peer, local));
        client
    }

    /// Returns the answer to bytes on a connection of their own.
    pub(super) async fn raw(&self, bytes: &[u8]) -> HttpTestResponse {
        let mut stream = self.connect();
        // The server may refuse it before it has read all of it.
        let _ = stream.write_all(bytes).await;
        let is_head = bytes.starts_with(b"HEAD ");
        read(&mut stream, is_head).await.expect("an answer")
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpTestResponse {
        self.raw(&request(method, target, headers, body)).await
    }

    pub(super) async fn get(&self, target: &str) -> HttpTestResponse {
        self.ask("GET", target, &[], "").await
    }

    pub(super) async fn post(&self, target: &str, body: &str) -> HttpTestResponse {
        self.ask("POST", target, &[("Content-Type", "application/json")], body).await
    }

    pub(super) fn bearer(&self, scopes: &str) -> String {
        let token = self.tokens.iter().find(|(other, _)| *other == scopes).unwrap();
        format!("Bearer {}", token.1.text())
    }

    pub(super) async fn post_as(&self, scopes: &str, target: &str, body: &str) -> HttpTestResponse {
        let bearer = self.bearer(scopes);
        self.ask("POST", target, &[("Content-Type", "application/json"), ("Authorization", &bearer)], body).await
    }
}

/// Reads one answer; `None` if the connection ends before it.
pub(super) async fn read(stream: &mut DuplexStream, is_head: bool) -> Option<HttpTestResponse> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).unwrap();
    let mut lines = text.trim_end().split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line:?}")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut told = HttpTestResponse { status, headers, body: Vec::new() };
    let length: usize = told.header("content-length").map_or(0, |length| length.parse().unwrap());
    if !is_head {
        told.body = vec![0; length];
        stream.read_exact(&mut told.body).await.ok()?;
    }
    Some(told)
}

/// Reads the head of an answer; returns the length of its body.
pub(super) async fn read_head(stream: &mut DuplexStream) -> usize {
    let head = read(stream, true).await.expect("an answer");
    head.header("content-length").and_then(|length| length.parse().ok()).expect("a length")
}
