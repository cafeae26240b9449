//! What may be done without a token, and where a server listens.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use tollgate_daemon::{Scope, Scopes, Server, ServerSettings, StartError, TokensError};

use crate::listeners::support::{Client, Folder, settings};

const CHECK: &[&str] = &["TG.CHECK", "user:42", "100/min"];
const RESET: &[&str] = &["TG.RESET", "user:42", "100/min"];

/// What a connection without a token is answered to PING, a check and a reset: their first words.
fn answers(settings: ServerSettings) -> [String; 3] {
    let server = Server::start(settings).unwrap();
    let addr = server.resp_addr().unwrap();
    [&["PING"][..], CHECK, RESET].map(|words| {
        let answer = Client::connect(1, addr).ask(words);
        answer.split(' ').next().unwrap_or_default().to_owned()
    })
}

#[test]
fn on_loopback_the_free_scopes_need_no_token() {
    assert_eq!(answers(settings()), ["+PONG", "*6", ":1"]);
    let with = |free| answers(ServerSettings { free, ..settings() });
    assert_eq!(with(Scopes::FREE_OVER_HTTP), ["+PONG", "*6", "-NOPERM"]);
    assert_eq!(with(Scopes::NONE.with(Scope::Reset)), ["+PONG", "-NOPERM", ":1"]);
    assert_eq!(answers(ServerSettings { require_token: true, ..settings() }), ["+PONG", "-NOAUTH", "-NOAUTH"]);
    assert_eq!(answers(ServerSettings { insecure_no_auth: true, ..settings() }), ["+PONG", "*6", ":1"]);
}

#[test]
fn a_token_is_made_where_none_is_given() {
    let token =
        |settings: ServerSettings| Server::start(settings).unwrap().token().map(|token| token.text().to_owned());
    let (one, other) = (token(settings()).unwrap(), token(settings()).unwrap());
    assert!(one != other && one.starts_with("tg_"));
    assert!(token(ServerSettings { require_token: true, ..settings() }).is_some());
    assert!(token(ServerSettings { insecure_no_auth: true, ..settings() }).is_none());
    let folder = Folder::new();
    let tokens = Some(folder.write("tokens", "# nobody\n"));
    assert!(token(ServerSettings { tokens, ..settings() }).is_none());
}

#[test]
fn a_wrong_tokens_file_is_no_start() {
    let folder = Folder::new();
    let start = |tokens| Server::start(ServerSettings { tokens: Some(tokens), ..settings() }).err();
    let found = start(folder.write("tokens", "check nonsense billing\n"));
    assert!(matches!(found, Some(StartError::Tokens(TokensError::Line(_, 1, _)))), "{found:?}");
    let found = start(folder.path("missing"));
    assert!(matches!(found, Some(StartError::Tokens(TokensError::Read(..)))), "{found:?}");
}

#[test]
fn off_loopback_there_is_no_start_without_tokens() {
    let resp = Some((Ipv4Addr::UNSPECIFIED, 0).into());
    let found = Server::start(ServerSettings { resp, ..settings() }).err();
    assert!(matches!(found, Some(StartError::Exposed(_))), "{found:?}");
}

/// Where this process listens, of one of the tables of the system: addresses in its hexadecimal digits.
fn listening(table: &str, own: &HashSet<String>) -> Vec<String> {
    let text = std::fs::read_to_string(table).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    // 0A is the state of those that listen; the tenth field is the number that /proc/self/fd shows.
    rows.filter(|row| row[3] == "0A" && own.contains(row[9])).map(|row| row[1].to_owned()).collect()
}

#[test]
fn a_default_start_has_no_socket_off_loopback() {
    // The default but for the ports, which may be taken; all else that this process has is listed too.
    let default = ServerSettings::default();
    let anywhere = |addr: Option<std::net::SocketAddr>| addr.map(|addr| (addr.ip(), 0).into());
    let server =
        Server::start(ServerSettings { resp: anywhere(default.resp), http: anywhere(default.http), ..default })
            .unwrap();
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let sockets =
        links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned));
    let own: HashSet<String> = sockets.collect();
    let four = listening("/proc/net/tcp", &own);
    let six = listening("/proc/net/tcp6", &own);
    for addr in [server.resp_addr().unwrap(), server.http_addr().unwrap()] {
        assert!(four.contains(&format!("0100007F:{:04X}", addr.port())), "{addr} in {four:?}");
    }
    assert!(four.iter().all(|addr| addr[6..].starts_with("7F:")), "{four:?}");
    assert!(six.iter().all(|addr| addr.starts_with("00000000000000000000000001000000:")), "{six:?}");
}
