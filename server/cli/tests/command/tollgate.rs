//! `tollgate check`, `peek`, `reset` and `refund` on a Tollgate server, which needs no `--store` if it runs at the
//! default address of this machine.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tollgate_cli::token_file::TokenFolder;
use tollgate_daemon::{Scopes, Server, ServerSettings};

use crate::support::{CommandResult, json, tollgate, tollgate_in};

struct Store(Server);

impl Store {
    fn start() -> Self {
        Self::with_free(Scopes::FREE)
    }

    /// Starts a server where these scopes need no token.
    fn with_free(free: Scopes) -> Self {
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let settings = ServerSettings { resp: Some(any), http: None, threads: 1, free, ..ServerSettings::default() };
        Self(Server::start(settings).unwrap())
    }

    fn port(&self) -> u16 {
        self.0.resp_addr().unwrap().port()
    }

    fn url(&self) -> String {
        format!("tollgate://127.0.0.1:{}", self.port())
    }

    fn run(&self, args: &[&str]) -> CommandResult {
        tollgate_in(args, b"", &[("TOLLGATE_STORE", &self.url())])
    }
}

/// A runtime directory of one test.
fn runtime(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("runtime-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_key_is_decided_and_given_back_and_explained() {
    let store = Store::start();
    assert_eq!(store.run(&["check", "user:42", "2/min"]).ok(), "user:42 allowed: 1 left, as new in 1min\n");
    let second = json(&store.run(&["check", "user:42", "2/min", "--json"]).ok());
    assert_eq!((&second["source"], &second["remaining"]), (&"home".into(), &0.into()));
    assert!(store.run(&["check", "user:42", "2/min"]).ended(1).starts_with("user:42 denied: 0 left, retry after 5"));
    assert!(store.run(&["peek", "user:42", "2/min", "--name", "login"]).ok().contains("2 left"), "another policy");
    let out = store.run(&["explain", "2/min", "--key", "user:42"]).ok();
    assert!(out.contains("\nnow, asked for 1 unit:\nuser:42 would be denied"), "{out}");
    let at = second["at_us"].to_string();
    let error = store.run(&["refund", "user:42", "2/min", "1", &at]).failed();
    assert!(error.starts_with("error: NOPERM expected a token with the scope refund"), "{error}");
    assert!(error.contains("add refund to the token's scopes\nhint: name a token"), "{error}");
    let token = store.0.token().unwrap().text();
    let shown = [("TOLLGATE_STORE", &*store.url()), ("TOLLGATE_TOKEN", token)];
    let refunded = tollgate_in(&["refund", "user:42", "2/min", "1", &at], b"", &shown).ok();
    assert_eq!(refunded, "given back: 1 of 1 to user:42\n");
    assert!(store.run(&["peek", "user:42", "2/min"]).ok().starts_with("user:42 would be allowed: 1 left"));
    let named = tollgate(&["peek", "user:42", "2/min", "--store", &store.url()], b"").ok();
    assert!(named.contains("1 left"), "{named}");
}

#[test]
fn a_reset_that_needs_a_token_says_how_to_name_one() {
    let store = Store::with_free(Scopes::FREE_OVER_HTTP);
    let error = store.run(&["reset", "user:42", "2/min"]).failed();
    assert!(error.starts_with("error: NOPERM ") && error.contains("hint: name a token"), "{error}");
}

#[test]
fn without_the_server_the_hint_says_how_to_start_one() {
    for command in [&["check", "k", "1/s"][..], &["peek", "k", "1/s"], &["reset", "k", "1/s"]] {
        let error = tollgate_in(command, b"", &[("TOLLGATE_STORE", "tollgate://127.0.0.1:1")]).failed();
        assert_eq!(
            error,
            "error: 127.0.0.1:1 cannot be reached: Connection refused\n\
             hint: start one: tollgate serve; or name another: --store redis://…\n"
        );
    }
}

#[test]
fn a_token_that_is_not_the_servers_is_told_if_named_and_left_out_if_found() {
    let store = Store::start();
    let ask = |variables: &[(&str, &str)]| tollgate_in(&["check", "k", "9/h", "--store", &store.url()], b"", variables);
    let error = ask(&[("TOLLGATE_TOKEN", "sesame")]).failed();
    assert!(error.contains("refused AUTH") && !error.contains("sesame"), "{error}");
    let url = format!("tollgate://sesame@127.0.0.1:{}", store.port());
    let error = tollgate(&["check", "k", "9/h", "--store", &url], b"").failed();
    assert!(error.contains("refused AUTH") && !error.contains("sesame"), "{error}");

    let runtime = runtime("found");
    let path = TokenFolder::at(runtime.join("tollgate")).write(store.port(), "sesame").unwrap();
    let place = [("XDG_RUNTIME_DIR", runtime.to_str().unwrap())];
    assert!(ask(&place).ok().starts_with("k allowed: 8 left"), "it is of a server that has gone");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let error = ask(&place).failed();
    assert!(error.contains("expected mode 600") && error.contains("TOLLGATE_TOKEN"), "{error}");
}

#[test]
fn commands_about_redis_say_that_this_is_none() {
    let store = Store::start();
    for command in [&["redis", "doctor"][..], &["redis", "install"]] {
        let error = tollgate(&[command, &[&store.url()]].concat(), b"").failed();
        assert!(error.starts_with("error: expected a Redis or Valkey, found tollgate://127.0.0.1:"), "{error}");
        assert!(error.contains("a Tollgate server\nhint: name the Redis or Valkey itself"), "{error}");
    }
}
