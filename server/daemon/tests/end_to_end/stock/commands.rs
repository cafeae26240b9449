//! What stock clients say when they connect: answered as a redis-server answers it.

use std::net::SocketAddr;

use tollgate_daemon::Server;
use tollgate_random::Rng;

use crate::stock::wire::{ConnectionEnd, Reply, ask, command, start};

/// Whether our reply is the other: the same, an error that says more, or a greeting of another server.
pub(crate) fn agrees(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Reply::Error(ours), Reply::Error(theirs)) => ours.starts_with(theirs.trim_end()),
        (Reply::Many(sign, ours), Reply::Many(their_sign, theirs))
            if sign == their_sign && ours.len() == theirs.len() =>
        {
            let greets = ours.first() == Some(&Reply::Bulk("server".to_owned()));
            let mut both = ours.iter().zip(theirs).enumerate();
            both.all(|(place, (ours, theirs))| (greets && [1, 3, 7].contains(&place)) || agrees(ours, theirs))
        }
        _ => ours == theirs,
    }
}

#[track_caller]
fn compare(ours: SocketAddr, theirs: SocketAddr, commands: &[&str]) {
    // A transaction that is open at the end is given up.
    let pipeline: Vec<u8> = commands.iter().chain(&["RESET"]).flat_map(|text| command(&words(text))).collect();
    let (our, their) = (ask(ours, &[&pipeline]), ask(theirs, &[&pipeline]));
    let same = our.closed == their.closed
        && our.replies.len() == their.replies.len()
        && our.replies.iter().zip(&their.replies).all(|(ours, theirs)| agrees(ours, theirs));
    assert!(same, "{commands:?}\n  ours   {our:?}\n  theirs {their:?}");
}

/// Words between spaces; `''` is an empty one and `_` a space in one.
fn words(text: &str) -> Vec<&str> {
    text.split(' ')
        .map(|word| {
            if word == "''" {
                ""
            } else if word == "_" {
                "a b"
            } else {
                word
            }
        })
        .collect()
}

/// Commands that both know, and mistakes that both answer.
#[rustfmt::skip]
const BOTH: &[&str] = &[
    "PING", "ping hello", "PING a b", "ECHO hello", "ECHO", "ECHO a b", "NOPE", "NOPE a b", "''", "TIME x", "ROLE", "ROLE x",
    "SELECT 0", "SELECT 9", "SELECT 15", "SELECT 16", "SELECT -1", "SELECT x", "SELECT 01", "SELECT +1", "SELECT ''", "SELECT",
    "CLIENT", "CLIENT NOPE", "CLIENT ID x", "CLIENT GETNAME", "client getname", "CLIENT SETNAME bob", "CLIENT SETNAME _",
    "CLIENT SETNAME ''", "CLIENT SETNAME", "CLIENT REPLY ON", "CLIENT REPLY x", "CLIENT NO-EVICT on", "CLIENT NO-EVICT x",
    "CLIENT TRACKING off", "CLIENT TRACKING x", "CLIENT GETREDIR", "CLIENT LIST ID", "CLIENT LIST ID 99999", "CLIENT LIST x",
    "HELLO", "HELLO 2", "HELLO 3", "HELLO 4", "HELLO x", "HELLO 03", "HELLO 2 NOPE", "HELLO 3 SETNAME", "HELLO 3 AUTH a",
    "HELLO 3 SETNAME eve", "HELLO 3 SETNAME _", "hello 2 setname joe", "AUTH", "AUTH a b c", "RESET", "RESET x",
    "MULTI", "MULTI", "MULTI x", "EXEC", "EXEC", "EXEC x", "DISCARD", "DISCARD x",
    "CONFIG", "CONFIG NOPE", "CONFIG GET", "CONFIG GET save", "config get appendonly", "CONFIG GET APPENDONL[Y]", "CONFIG GET databases nope",
    "CONFIG GET data[ab]ases", "CONFIG GET nope",
    "CLUSTER", "CLUSTER NOPE", "CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER MYID", "CLUSTER INFO x",
    "CLUSTER KEYSLOT a", "READONLY", "READWRITE", "ASKING", "READONLY x",
    "COMMAND NOPE", "COMMAND COUNT x", "COMMAND DOCS nope", "COMMAND INFO nope nope", "COMMAND GETKEYS NOPE a",
    "COMMAND GETKEYS PING x", "COMMAND GETKEYS", "COMMAND LIST x", "COMMAND LIST FILTERBY x y", "COMMAND LIST FILTERBY MODULE x",
    "INFO nope", "INFO cluster",
];

#[test]
fn every_command_that_both_know_is_answered_alike() {
    let (ours, theirs) = (start(), tollgate_kit::Server::start().unwrap());
    let ours = ours.resp_addr().unwrap();
    for text in BOTH {
        for before in ["HELLO 2", "HELLO 3", "CLIENT SETNAME bob"] {
            compare(ours, theirs.addr(), &[before, text, "CLIENT GETNAME"]);
            compare(ours, theirs.addr(), &[before, "MULTI", text, "EXEC", "CLIENT GETNAME"]);
        }
    }
    for end in [&["QUIT", "PING"][..], &["QUIT x"], &["MULTI", "PING", "QUIT", "EXEC"]] {
        compare(ours, theirs.addr(), end);
    }
}

#[test]
fn random_conversations_are_answered_alike() {
    let (ours, theirs) = (start(), tollgate_kit::Server::start().unwrap());
    let mut rng = Rng::new(5);
    for _ in 0..2_000 {
        let commands: Vec<&str> = (0..=rng.below(12)).map(|_| rng.pick(BOTH)).collect();
        compare(ours.resp_addr().unwrap(), theirs.addr(), &commands);
    }
}

/// What a server answers to a pipeline.
fn said(server: &Server, commands: &[&[&str]]) -> Vec<Reply> {
    let pipeline: Vec<u8> = commands.iter().flat_map(|words| command(words)).collect();
    let ConnectionEnd { replies, closed } = ask(server.resp_addr().unwrap(), &[&pipeline]);
    assert!(!closed);
    replies
}

fn text(reply: &Reply) -> &str {
    match reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) | Reply::Verbatim(text) => text,
        other => panic!("expected text, found {other:?}"),
    }
}

#[test]
fn a_client_says_who_it_is_and_sees_only_itself() {
    let server = start();
    let other = std::net::TcpStream::connect(server.resp_addr().unwrap()).unwrap();
    let replies = said(
        &server,
        &[
            &["CLIENT", "SETINFO", "LIB-NAME", "redis-py"],
            &["client", "setinfo", "lib-ver", "8.1.0"],
            &["CLIENT", "SETINFO", "LIB-NAME", "a b"],
            &["CLIENT", "SETINFO", "LIB-AGE", "1"],
            &["CLIENT", "SETNAME", "worker-1"],
            &["SELECT", "9"],
            &["CLIENT", "LIST"],
            &["CLIENT", "INFO"],
            &["CLIENT", "KILL", "ID", "1"],
            &["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"],
            &["CLIENT", "SETNAME", &"x".repeat(257)],
            &["CLIENT", "ID"],
        ],
    );
    let line = text(&replies[6]);
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in [" name=worker-1 ", " db=9 ", " lib-name=redis-py ", " lib-ver=8.1.0", " resp=2 ", "id="] {
        assert!(line.contains(part), "{part:?} in {line}");
    }
    assert_eq!(replies[6], replies[7]);
    assert!(text(&replies[2]).starts_with("ERR lib-name and lib-ver cannot contain"));
    assert_eq!(text(&replies[3]), "ERR Unrecognized option 'LIB-AGE'");
    assert!(text(&replies[8]).starts_with("NOPERM "));
    assert!(text(&replies[9]).starts_with("ERR "));
    assert!(text(&replies[10]).contains("at most 256 bytes, found 257"));
    assert!(matches!(replies[11], Reply::Int(id) if id > 0 && line.starts_with(&format!("id={id} "))));
    drop(other);
}

#[test]
fn info_tells_what_tools_look_for() {
    let server = start();
    let replies =
        said(&server, &[&["INFO"], &["INFO", "replication", "SERVER"], &["HELLO", "3"], &["INFO", "cluster"]]);
    let all = text(&replies[0]);
    for line in ["loading:0", "role:master", "redis_mode:standalone", "cluster_enabled:0", "connected_clients:1"] {
        assert!(all.lines().any(|found| found == line), "{line} in {all}");
    }
    for start in ["redis_version:7.", "tollgate_version:", "uptime_in_seconds:", "used_memory:", "process_id:"] {
        assert!(all.lines().any(|found| found.starts_with(start)), "{start} in {all}");
    }
    assert!(text(&replies[1]).starts_with("# Server\r\n") && !text(&replies[1]).contains("# Memory"));
    assert_eq!(replies[3], Reply::Verbatim("txt:# Cluster\r\ncluster_enabled:0\r\n".to_owned()));
}

#[test]
fn commands_are_described_as_modules_describe_theirs() {
    let server = start();
    let replies = said(
        &server,
        &[
            &["COMMAND", "COUNT"],
            &["COMMAND"],
            &["COMMAND", "INFO", "tg.check", "client|id", "nope"],
            &["COMMAND", "GETKEYS", "TG.CHECK", "user:42", "100/min", "COST", "2"],
            &["COMMAND", "LIST", "FILTERBY", "PATTERN", "tg.*"],
            &["HELLO", "3"],
            &["COMMAND", "DOCS", "TG.CHECK"],
            &["CLIENT", "HELP"],
        ],
    );
    let (Reply::Int(count), Reply::Many(b'*', all)) = (&replies[0], &replies[1]) else { panic!("{replies:?}") };
    assert_eq!(*count as usize, all.len());
    let Reply::Many(b'*', found) = &replies[2] else { panic!("{replies:?}") };
    let Reply::Many(b'*', check) = &found[0] else { panic!("{found:?}") };
    assert_eq!((text(&check[0]), &check[1], &check[3], check.len()), ("tg.check", &Reply::Int(-3), &Reply::Int(1), 10));
    let Reply::Many(b'*', id) = &found[1] else { panic!("{found:?}") };
    assert_eq!((text(&id[0]), &found[2]), ("client|id", &Reply::Nil(b'$')));
    assert_eq!(replies[3], Reply::Many(b'*', vec![Reply::Bulk("user:42".to_owned())]));
    let Reply::Many(b'*', names) = &replies[4] else { panic!("{replies:?}") };
    assert_eq!(names.len(), 7);
    let Reply::Many(b'%', docs) = &replies[6] else { panic!("{replies:?}") };
    let Reply::Many(b'%', check) = &docs[1] else { panic!("{docs:?}") };
    assert_eq!((text(&docs[0]), text(&check[0])), ("tg.check", "summary"));
    let Reply::Many(b'*', lines) = &replies[7] else { panic!("{replies:?}") };
    assert!(lines.iter().any(|line| text(line).starts_with("CLIENT SETNAME name")), "{lines:?}");
}

#[test]
fn tokens_are_asked_for_in_the_words_of_redis() {
    let server = start();
    let replies = said(
        &server,
        &[
            &["AUTH", "nope"],
            &["AUTH", "someone", "nope"],
            &["HELLO", "3", "AUTH", "default", "nope", "SETNAME", "x"],
            &["CLIENT", "GETNAME"],
            &["TG.REFUND", "k", "1/s", "1", "1"],
        ],
    );
    for reply in &replies[..3] {
        assert!(text(reply).starts_with("WRONGPASS "), "{reply:?}");
    }
    // Nothing of a HELLO is done that is wrong in part: the protocol is the old one too.
    assert_eq!(replies[3], Reply::Nil(b'$'));
    assert!(text(&replies[4]).starts_with("NOPERM expected a token with the scope refund"));
}

#[test]
fn a_token_is_shown_by_auth_or_hello_and_put_away_by_reset() {
    let server = start();
    let token = server.token().expect("made at the start").text().to_owned();
    let other = std::net::TcpStream::connect(server.resp_addr().unwrap()).unwrap();
    let refund: &[&str] = &["TG.REFUND", "k", "1/s", "1", "1"];
    for (login, done) in [
        (&["AUTH", &token][..], "OK"),
        (&["AUTH", "default", &token], "OK"),
        (&["HELLO", "2", "AUTH", "default", &token, "SETNAME", "admin"], ""),
    ] {
        let replies = said(&server, &[login, refund, &["CLIENT", "LIST"], &["RESET"], refund]);
        assert!(done.is_empty() || replies[0] == Reply::Simple(done.to_owned()), "{replies:?}");
        assert_eq!(replies[1], Reply::Int(0));
        // Who administrates sees all connections: this one, and one that was there before.
        assert!(text(&replies[2]).lines().count() >= 2, "{replies:?}");
        assert_eq!(replies[3], Reply::Simple("RESET".to_owned()));
        assert!(text(&replies[4]).starts_with("NOPERM "), "{replies:?}");
    }
    drop(other);
}
