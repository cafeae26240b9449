//! Every command with no token, with the wrong scopes and with the right scope: nothing is done without its scope. The
//! commands are those of the table, so new ones are covered without a line here.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Scope, Scopes};
use crate::resp;
use crate::resp::commands::table::{RespCommand, every};
use crate::resp::session::Session;
use crate::shared::ServerState;

/// Commands that need no scope, since they change nothing but their own connection. Any other command without a scope
/// is a mistake.
const ANYBODY: &[&str] = &[
    "PING",
    "ECHO",
    "QUIT",
    "HELLO",
    "AUTH",
    "RESET",
    "SELECT",
    "CLIENT",
    "COMMAND",
    "READONLY",
    "READWRITE",
    "ASKING",
];

/// Returns the command with as few arguments as it takes.
fn call(command: &RespCommand) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.arity.abs());
    // The key, then a policy, then numbers: Tollgate's own commands accept these.
    let arguments = ["user:42", "100/min", "1", "1790000000000000"].into_iter().cycle();
    for argument in command.name.split('|').chain(arguments).take(command.arity.unsigned_abs() as usize) {
        bytes += &format!("${}\r\n{argument}\r\n", argument.len());
    }
    bytes.into_bytes()
}

/// Returns the answer to a command on a connection with these scopes.
async fn answer(shared: &std::sync::Arc<ServerState>, scopes: Scopes, command: &RespCommand) -> String {
    answer_bytes(shared, scopes, &call(command)).await
}

/// Returns the answer to the bytes of commands on a connection with these scopes.
async fn answer_bytes(shared: &std::sync::Arc<ServerState>, scopes: Scopes, calls: &[u8]) -> String {
    let addr: SocketAddr = "127.0.0.1:7379".parse().unwrap();
    let session = Session::new(1, addr, addr, scopes);
    let (mut client, server) = tokio::io::duplex(1 << 20);
    client.write_all(calls).await.unwrap();
    client.shutdown().await.unwrap();
    resp::serve(std::sync::Arc::clone(shared), server, session).await;
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    // An EXEC that is not allowed discards its transaction and appends the reason.
    String::from_utf8_lossy(&bytes).replace("-EXECABORT Transaction discarded because of: ", "-")
}

/// Returns a command as a client writes it.
fn written(words: &[&str]) -> Vec<u8> {
    let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), parts.collect::<String>()).into_bytes()
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn commands_without_a_scope_are_those_that_change_nothing() {
    for command in every().filter(|command| command.scope.is_none()) {
        let name = command.name.split('|').next().unwrap();
        // Subcommands have scopes of their own; a command that consists of subcommands alone exists for its HELP.
        let helps = command.word() == "HELP" || command.parts.iter().any(|part| part.word() == "HELP");
        assert!(ANYBODY.contains(&name) || helps, "{} needs a scope, or is harmless and named here", command.name);
    }
}

#[test]
fn without_a_token_or_with_the_wrong_scopes_every_command_is_refused_and_changes_nothing() {
    run(async {
        let shared = ServerState::for_test();
        let stats = || shared.engine.home_stats().embedded().unwrap();
        for command in every() {
            let Some(scope) = command.scope else { continue };
            let said = answer(&shared, Scopes::NONE, command).await;
            assert!(said.starts_with("-NOAUTH "), "{}: {said}", command.name);
            let others = Scope::ALL.into_iter().filter(|other| *other != scope);
            let wrong = others.fold(Scopes::NONE, Scopes::with);
            let said = answer(&shared, wrong, command).await;
            let expected = format!("-NOPERM expected a token with the scope {}", scope.name());
            assert!(said.starts_with(&expected), "{}: {said}", command.name);
            assert_eq!(stats().keys, 0, "{} changed something", command.name);
        }
    });
}

#[test]
fn with_the_right_scope_alone_no_command_is_refused_for_it() {
    run(async {
        let shared = ServerState::for_test();
        for command in every() {
            let scopes = command.scope.map_or(Scopes::NONE, |scope| Scopes::NONE.with(scope));
            let said = answer(&shared, scopes, command).await;
            let refused = ["-NOAUTH ", "-NOPERM "].iter().any(|word| said.starts_with(word));
            assert!(!refused && !said.is_empty(), "{}: {said:?}", command.name);
        }
    });
}

#[test]
fn in_a_transaction_every_command_needs_its_scope_too() {
    run(async {
        let shared = ServerState::for_test();
        let stats = || shared.engine.home_stats().embedded().unwrap();
        for command in every().filter(|command| command.scope.is_some_and(|scope| scope != Scope::Check)) {
            let addr: SocketAddr = "127.0.0.1:7379".parse().unwrap();
            let session = Session::new(1, addr, addr, Scopes::NONE.with(Scope::Check));
            let (mut client, server) = tokio::io::duplex(64 << 10);
            let calls = [&b"*1\r\n$5\r\nMULTI\r\n"[..], &call(command), b"*1\r\n$4\r\nEXEC\r\n"].concat();
            client.write_all(&calls).await.unwrap();
            client.shutdown().await.unwrap();
            resp::serve(std::sync::Arc::clone(&shared), server, session).await;
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).await.unwrap();
            let said = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = said.lines().collect();
            assert!(lines[0] == "+OK" && lines[1].starts_with("-NOPERM "), "{}: {said}", command.name);
            assert!(lines[2].starts_with("-EXECABORT "), "{}: {said}", command.name);
            assert_eq!(stats().keys, 0, "{} changed something", command.name);
        }
    });
}

#[test]
fn scripts_that_are_not_known_are_run_with_the_scope_script_alone_and_only_by_a_store() {
    run(async {
        let calls: [&[&str]; 5] = [
            &["EVAL", "return 1", "0"],
            &["EVAL_RO", "return 1", "0"],
            &["SCRIPT", "LOAD", "return 1"],
            &["FUNCTION", "LOAD", "#!lua name=x"],
            &["FCALL", "x", "0"],
        ];
        let embedded = ServerState::for_test();
        let redis = tollgate_redis::Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
        let stored = ServerState::for_test_on(tollgate_engine::Home::redis(redis));
        for call in calls.map(written) {
            let said = answer_bytes(&embedded, Scopes::ALL, &call).await;
            assert!(said.starts_with("-ERR ") && said.contains("with serve --store redis://"), "{said}");
            for scopes in [Scopes::WITHOUT_SCRIPT, Scopes::FREE] {
                let said = answer_bytes(&stored, scopes, &call).await;
                assert!(said.starts_with("-ERR ") && said.contains("with the scope script: tollgate token"), "{said}");
            }
            // The store is asked, and is away.
            let said = answer_bytes(&stored, Scopes::ALL, &call).await;
            assert!(said.starts_with("-UNAVAILABLE "), "{said}");
        }
    });
}

/// Returns every way to give back three units of `u` under `5/h`: the command, and Tollgate's own function and script,
/// which its Redis clients call.
fn refunds(at: &str) -> Vec<Vec<u8>> {
    let script = tollgate_redis::lua::whole_script("tollgate_refund").unwrap();
    let versioned = tollgate_redis::lua::LuaNaming::Versioned.function("tollgate_refund");
    let function = |name| written(&["FCALL", name, "1", "tg:{u}", "5/h", "3", at]);
    let calls = [
        written(&["TG.REFUND", "u", "5/h", "3", at]),
        function("tollgate_refund"),
        function(&versioned),
        written(&["EVAL", &script.text, "1", "tg:{u}", "5/h", "3", at]),
        [written(&["SCRIPT", "LOAD", &script.text]), written(&["EVALSHA", &script.sha, "1", "tg:{u}", "5/h", "3", at])]
            .concat(),
    ];
    let together = |call: &Vec<u8>| [&written(&["MULTI"])[..], call, &written(&["EXEC"])].concat();
    calls.iter().cloned().chain(calls.iter().map(together)).collect()
}

#[test]
fn no_way_to_give_back_is_open_without_the_scope_refund() {
    run(async {
        let without = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Refund).fold(Scopes::NONE, Scopes::with);
        let with = Scopes::NONE.with(Scope::Check).with(Scope::Refund);
        for place in 0..refunds("0").len() {
            let shared = ServerState::for_test();
            let check = written(&["TG.CHECK", "u", "5/h", "COST", "4", "REST"]);
            let charged = answer_bytes(&shared, without, &check).await;
            let at = charged.trim_end().rsplit(':').next().unwrap().to_owned();
            let (call, left) = (refunds(&at).swap_remove(place), written(&["TG.PEEK", "u", "5/h"]));
            for scopes in [without, Scopes::FREE] {
                let said = answer_bytes(&shared, scopes, &call).await;
                let expected = "NOPERM expected a token with the scope refund";
                assert!(said.contains(expected) && said.contains("; add refund to the token's scopes"), "{said}");
                let peeked = answer_bytes(&shared, scopes, &left).await;
                assert!(peeked.starts_with("*6\r\n:1\r\n:1\r\n:1\r\n"), "{place} gave back: {peeked}");
            }
            let said = answer_bytes(&shared, with, &call).await;
            assert!(said.ends_with(":3\r\n"), "{place}: {said}");
            let peeked = answer_bytes(&shared, with, &left).await;
            assert!(peeked.starts_with("*6\r\n:1\r\n:1\r\n:4\r\n"), "{place}: {peeked}");
        }
    });
}
