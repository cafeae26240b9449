//! Who reset, flushed and reloaded something: each kind of event of a real server, with right tokens, wrong
//! ones and none.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tollgate_daemon::{AccessToken, AuditFile, Scopes, Server, ServerSettings, StartError, TlsFiles};

use crate::listeners::support::{Client, Folder, settings};

const RESET: &[&str] = &["TG.RESET", "user:42", "100/min"];

/// A server with an audit log, and the tokens `resetter` and `checker`.
struct AuditedServer {
    folder: Folder,
    server: Server,
    resetter: AccessToken,
    checker: AccessToken,
}

impl AuditedServer {
    fn start(with: impl FnOnce(&Folder, ServerSettings) -> ServerSettings) -> Self {
        let folder = Folder::new();
        let tokens = folder.path("tokens");
        let (resetter, _) = AccessToken::add_to(&tokens, Scopes::ALL, "resetter").unwrap();
        let (checker, _) = AccessToken::add_to(&tokens, Scopes::FREE_OVER_HTTP, "checker").unwrap();
        let audit = Some(AuditFile { path: folder.path("audit"), keys: true });
        let http = Some((std::net::Ipv4Addr::LOCALHOST, 0).into());
        // Resets need a token, so that there are attempts to refuse.
        let free = Scopes::FREE_OVER_HTTP;
        let settings = ServerSettings { tokens: Some(tokens), audit, http, free, ..settings() };
        let server = Server::start(with(&folder, settings)).unwrap();
        Self { folder, server, resetter, checker }
    }

    fn file(&self) -> PathBuf {
        self.folder.path("audit")
    }

    fn client(&self, token: Option<&AccessToken>) -> Client<std::net::TcpStream> {
        let mut client = Client::connect(1, self.server.resp_addr().unwrap());
        if let Some(token) = token {
            assert_eq!(client.ask(&["AUTH", token.text()]), "+OK");
        }
        client
    }

    /// The status of a reset over HTTP.
    fn post(&self, token: Option<&str>, forwarded: &str) -> String {
        let mut client = Client::connect(1, self.server.http_addr().unwrap());
        let body = r#"{"key":"user:42","policy":"100/min"}"#;
        let login = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let text = format!(
            "POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{login}{forwarded}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        std::io::Write::write_all(client.0.get_mut(), text.as_bytes()).unwrap();
        client.line().split(' ').nth(1).unwrap().to_owned()
    }

    /// Ends the server; answers what the file holds then.
    fn lines(self) -> Vec<Value> {
        let Self { folder, server, .. } = self;
        server.stop();
        read(&folder.path("audit"))
    }
}

fn read(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// What, who, the token's name, and the outcome.
fn told(line: &Value) -> [&str; 4] {
    ["what", "who", "token", "outcome"].map(|field| line[field].as_str().unwrap_or_default())
}

#[test]
fn a_reset_names_its_token_and_where_it_came_from() {
    let audited = AuditedServer::start(|_, settings| settings);
    let mut client = audited.client(Some(&audited.resetter));
    let peer = client.0.get_ref().local_addr().unwrap().to_string();
    assert_eq!(client.ask(RESET), ":1");
    // In a transaction, too.
    assert_eq!(client.ask(&["MULTI"]), "+OK");
    assert_eq!(client.ask(RESET), "+QUEUED");
    assert_eq!((client.ask(&["EXEC"]), client.line()), ("*1".to_owned(), ":1".to_owned()));
    // By the function that clients of Redis call.
    assert_eq!(client.ask(&["FCALL", "tollgate_reset", "1", "tg:{user:42}", "100/min"]), ":1");
    assert_eq!(audited.post(Some(audited.resetter.text()), ""), "200");
    // Who says RESET is nobody again.
    assert_eq!(client.ask(&["RESET"]), "+RESET");
    assert!(client.ask(RESET).starts_with("-NOPERM"));
    let lines = audited.lines();
    let done = ["reset", "token", "resetter", "done"];
    let refused = ["reset", "loopback without a token", "", "refused"];
    let server = |what| [what, "the server", "", "done"];
    let expected = [server("start"), done, done, done, done, refused, server("stop")];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    for line in &lines[1..=3] {
        assert_eq!((&line["front"], &line["peer"]), (&"resp".into(), &peer.as_str().into()), "{line}");
    }
    for line in &lines[1..=4] {
        assert_eq!((&line["key"], &line["policy"]), (&"user:42".into(), &"100/min".into()), "{line}");
    }
    assert_eq!(lines[4]["front"], "http");
    assert!(lines[5]["because"].as_str().unwrap().contains("the scope reset"), "{}", lines[5]);
}

#[test]
fn attempts_that_are_refused_name_who_tried() {
    let audited = AuditedServer::start(|_, settings| settings);
    let mut checker = audited.client(Some(&audited.checker));
    assert!(checker.ask(RESET).starts_with("-NOPERM"));
    assert!(checker.ask(&["FLUSHALL"]).starts_with("-NOPERM"));
    assert!(checker.ask(&["FCALL", "tollgate_reset", "1", "k", "1/s"]).starts_with("-NOPERM"));
    assert!(checker.ask(&["AUTH", "tg_wrong"]).starts_with("-WRONGPASS"));
    // A wrong command is no attempt.
    assert!(checker.ask(&["TG.RESET", "user:42"]).starts_with("-ERR"));
    assert_eq!(audited.post(Some(audited.checker.text()), ""), "403");
    assert_eq!(audited.post(Some("tg_wrong"), ""), "401");
    assert_eq!(audited.post(None, ""), "401");
    let checked = |what| [what, "token", "checker", "refused"];
    let lines = audited.lines();
    let expected = [
        checked("reset"),
        checked("flush"),
        checked("reset"),
        checked("reset"),
        ["reset", "a token that is not known", "", "refused"],
        ["reset", "loopback without a token", "", "refused"],
    ];
    assert_eq!(lines[1..lines.len() - 1].iter().map(told).collect::<Vec<_>>(), expected);
    let text = serde_json::to_string(&lines).unwrap();
    assert!(!text.contains("tg_"), "no token is told: {text}");
}

#[test]
fn flushes_and_the_keys_of_limiters_are_told_and_plain_keys_are_not() {
    let audited = AuditedServer::start(|_, settings| settings);
    let mut client = audited.client(Some(&audited.resetter));
    client.ask(&["CL.THROTTLE", "limiter", "5", "10", "60"]);
    (0..5).for_each(|_| drop(client.line()));
    assert_eq!(client.ask(&["SET", "plain", "1"]), "+OK");
    assert_eq!(client.ask(&["DEL", "plain"]), ":1");
    assert_eq!(client.ask(&["DEL", "limiter"]), ":1");
    assert_eq!(client.ask(&["SELECT", "3"]), "+OK");
    assert_eq!(client.ask(&["FLUSHDB"]), "+OK");
    assert_eq!(client.ask(&["FLUSHALL", "ASYNC"]), "+OK");
    let lines = audited.lines();
    let told: Vec<[&str; 2]> = lines
        .iter()
        .map(|line| ["what", "detail"].map(|field| line[field].as_str().unwrap()))
        .skip(1)
        .take(3)
        .collect();
    assert_eq!(told, [["reset", "DEL in database 0"], ["flush", "database 3"], ["flush", "database 3"]]);
    assert_eq!(lines[1]["key"], "limiter");
}

#[test]
fn a_count_below_zero_is_told_when_it_was_done_or_failed_or_refused() {
    let audited = AuditedServer::start(|_, settings| settings);
    let reset = ["FCALL", "slot_window", "1", "k", "-1", "ns", "[[1,5,1]]", "100", "1"];
    let mut client = audited.client(Some(&audited.resetter));
    assert_eq!(client.ask(&reset), ":0");
    assert_eq!(client.ask(&["SET", "ns:{k}", "mine"]), "+OK");
    assert!(client.ask(&reset).starts_with("-WRONGTYPE"));
    assert!(audited.client(Some(&audited.checker)).ask(&reset).starts_with("-NOPERM"));
    let lines = audited.lines();
    let told = lines.iter().filter(|line| line["detail"] == "slot_window in database 0");
    let outcomes: Vec<&str> = told.map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["done", "failed", "refused"]);
}

#[test]
fn a_trusted_proxy_tells_who_its_client_is() {
    for (trusted, client) in [(true, Some("203.0.113.9")), (false, None)] {
        let audited = AuditedServer::start(|_, settings| {
            let trusted = trusted.then(|| tollgate_daemon::trusted_proxy("127.0.0.1").unwrap());
            ServerSettings { trusted_proxies: trusted.into_iter().collect(), ..settings }
        });
        let forwarded = "X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n";
        assert_eq!(audited.post(Some(audited.resetter.text()), forwarded), "200");
        let lines = audited.lines();
        assert_eq!(lines[1]["client"].as_str(), client, "{}", lines[1]);
        assert!(lines[1]["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
}

#[test]
fn reloads_are_told_right_and_wrong_ones() {
    let audited = AuditedServer::start(|folder, settings| {
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let (cert, key) = (folder.write("cert", &cert.pem()), folder.write("key", &key.serialize_pem()));
        ServerSettings { tls: Some(TlsFiles { cert, key }), ..settings }
    });
    audited.server.reload();
    audited.folder.write("tokens", "nonsense\n");
    audited.folder.write("key", "nonsense\n");
    audited.server.reload();
    let lines = audited.lines();
    let expected = [
        ["tokens_read", "the server", "", "done"],
        ["certificate_read", "the server", "", "done"],
        ["tokens_read", "the server", "", "failed"],
        ["certificate_read", "the server", "", "failed"],
    ];
    assert_eq!(lines[1..lines.len() - 1].iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(lines[1]["detail"], "2 tokens");
    assert!(lines[3]["because"].as_str().unwrap().contains("line 1"), "{}", lines[3]);
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let audited = AuditedServer::start(|_, settings| settings);
    let mut client = audited.client(Some(&audited.resetter));
    assert_eq!(client.ask(RESET), ":1");
    let moved = audited.folder.path("audit.1");
    fs::rename(audited.file(), &moved).unwrap();
    audited.server.reload();
    assert_eq!(client.ask(RESET), ":1");
    let AuditedServer { folder, server, .. } = audited;
    server.stop();
    let (before, lines) = (read(&moved), read(&folder.path("audit")));
    let whats = |lines: &[Value]| lines.iter().map(|line| told(line)[0].to_owned()).collect::<Vec<_>>();
    let all = [whats(&before), whats(&lines)].concat();
    assert_eq!(all, ["start", "reset", "tokens_read", "reset", "stop"], "nothing is lost, nothing twice");
    assert!(whats(&lines).ends_with(&["reset".to_owned(), "stop".to_owned()]), "{lines:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_no_start() {
    let folder = Folder::new();
    let path = folder.path("missing/audit");
    let found = Server::start(ServerSettings { audit: Some(AuditFile { path, keys: false }), ..settings() }).err();
    assert!(matches!(found, Some(StartError::Audit(..))), "{found:?}");
}
