//! Every command times no token, the wrong scopes, the right scope: nothing is done without its scope. The
//! commands are those of the table, so new ones are seen to without a line here.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Scope, Scopes};
use crate::desk::Home;
use crate::resp;
use crate::resp::commands::table::{Command, every};
use crate::resp::session::Session;
use crate::shared::Shared;

/// Commands that anybody may give, since they change nothing but their own connection. Whatever else has no
/// scope is a mistake.
const ANYBODY: &[&str] =
    &["PING", "ECHO", "QUIT", "HELLO", "AUTH", "RESET", "SELECT", "CLIENT", "COMMAND", "READONLY", "READWRITE"];

/// The command with as few arguments as it takes.
fn call(command: &Command) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.arity.abs());
    // The key, then a policy, then numbers: the commands of our own do what they are asked with these.
    let arguments = ["user:42", "100/min", "1", "1790000000000000"].into_iter().cycle();
    for argument in command.name.split('|').chain(arguments).take(command.arity.unsigned_abs() as usize) {
        bytes += &format!("${}\r\n{argument}\r\n", argument.len());
    }
    bytes.into_bytes()
}

/// What the connection of these scopes answers to a command.
async fn answer(shared: &std::sync::Arc<Shared>, scopes: Scopes, command: &Command) -> String {
    let addr: SocketAddr = "127.0.0.1:7379".parse().unwrap();
    let session = Session::new(1, addr, addr, scopes);
    let (mut client, server) = tokio::io::duplex(64 << 10);
    client.write_all(&call(command)).await.unwrap();
    client.shutdown().await.unwrap();
    resp::serve(std::sync::Arc::clone(shared), server, session).await;
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    // An EXEC that may not be given gives its transaction up, and says why behind that.
    String::from_utf8_lossy(&bytes).replace("-EXECABORT Transaction discarded because of: ", "-")
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn commands_without_a_scope_are_those_that_change_nothing() {
    for command in every().filter(|command| command.scope.is_none()) {
        let name = command.name.split('|').next().unwrap();
        // Parts have scopes of their own; a command of parts alone is there for its HELP.
        let helps = command.word() == "HELP" || command.parts.iter().any(|part| part.word() == "HELP");
        assert!(ANYBODY.contains(&name) || helps, "{} needs a scope, or is harmless and named here", command.name);
    }
}

#[test]
fn without_a_token_or_with_the_wrong_scopes_every_command_is_refused_and_changes_nothing() {
    run(async {
        let shared = Shared::for_test();
        let Home::Embedded(memory) = &shared.desk.home else { panic!("the embedded store") };
        for command in every() {
            let Some(scope) = command.scope else { continue };
            let said = answer(&shared, Scopes::NONE, command).await;
            assert!(said.starts_with("-NOAUTH "), "{}: {said}", command.name);
            let others = Scope::ALL.into_iter().filter(|other| *other != scope);
            let wrong = others.fold(Scopes::NONE, Scopes::with);
            let said = answer(&shared, wrong, command).await;
            let expected = format!("-NOPERM expected a token with the scope {}", scope.name());
            assert!(said.starts_with(&expected), "{}: {said}", command.name);
            assert_eq!(memory.stats().keys, 0, "{} changed something", command.name);
        }
    });
}

#[test]
fn with_the_right_scope_alone_no_command_is_refused_for_it() {
    run(async {
        let shared = Shared::for_test();
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
        let shared = Shared::for_test();
        let Home::Embedded(memory) = &shared.desk.home else { panic!("the embedded store") };
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
            assert_eq!(memory.stats().keys, 0, "{} changed something", command.name);
        }
    });
}
