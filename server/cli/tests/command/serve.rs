//! `tollgate serve` from end to end: the built binary, until a signal ends it.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::support::{json, path, tollgate, tollgate_in};

/// The time after which a test that still waits has failed.
const HANGS: Duration = Duration::from_secs(60);

/// The interval between two looks at something that happens soon.
const TRIES: usize = 10_000;

/// A server process, and its first output.
pub(crate) struct ServeProcess {
    pub(crate) child: Child,
    pub(crate) said: String,
    log: BufReader<ChildStderr>,
}

/// An empty folder in which a server leaves its token.
fn folder(name: &str) -> PathBuf {
    let folder = path(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

impl ServeProcess {
    pub(crate) fn start(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        Self::run(command.arg("serve").args(args), name)
    }

    fn run(command: &mut Command, name: &str) -> Self {
        let mut child = command
            .env("XDG_RUNTIME_DIR", folder(name))
            .env_remove("TOLLGATE_SERVE_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The first output ends with the line of the command itself.
        let mut said = String::new();
        while let Some(line) = lines.next().transpose().unwrap() {
            said = said + &line + "\n";
            if line.starts_with("  tollgate check ") {
                break;
            }
        }
        Self { child, said, log }
    }

    /// Returns the rest of the line that begins with a word.
    pub(crate) fn row(&self, name: &str) -> &str {
        let row = self.said.lines().find_map(|line| line.trim_start().strip_prefix(name));
        row.unwrap_or_else(|| panic!("no {name} in {}", self.said)).trim()
    }

    fn addr(&self) -> SocketAddr {
        self.row("Redis protocol").parse().unwrap()
    }

    pub(crate) fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(self.addr()).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        BufReader::new(stream)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Reads the log up to a line with this word.
    fn logged(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "no {word} in the log");
            if line.contains(word) {
                return line;
            }
        }
    }

    /// Stops the server; returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }
}

/// Kills the server when a test fails.
impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn ask(connection: &mut BufReader<TcpStream>, words: &[&str]) -> String {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    connection.get_mut().write_all(bytes.as_bytes()).unwrap();
    let mut line = String::new();
    connection.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn the_audit_log_goes_on_in_a_new_file_when_the_old_one_was_moved() {
    let place = folder("serve-audit-log");
    let (file, moved) = (place.join("audit"), place.join("audit.1"));
    let args = ["--resp", "127.0.0.1:0", "--http", "off", "--audit", file.to_str().unwrap(), "--audit-keys"];
    let mut server = ServeProcess::start("serve-audit", &args);
    let token = server.row("token").to_owned();
    let reset = |server: &ServeProcess| {
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["AUTH", &token]), "+OK");
        assert_eq!(ask(&mut connection, &["TG.RESET", "user:42", "5/min"]), ":1");
    };
    reset(&server);
    server.logged("audit_reset");
    fs::rename(&file, &moved).unwrap();
    server.signal("-HUP");
    // The signal is handled after a while; until then lines go to the previous file.
    for _ in 0..TRIES {
        if file.exists() {
            break;
        }
        reset(&server);
    }
    assert_eq!(server.end(), Some(0));
    let old = fs::read_to_string(&moved).unwrap();
    assert!(old.contains(r#""what":"start""#) && old.contains(r#""token":"made-at-start""#), "{old}");
    assert!(old.contains(r#""key":"user:42""#) && !old.contains(&token), "{old}");
    assert!(fs::read_to_string(&file).unwrap().contains(r#""what":"stop""#));
}

#[test]
fn a_collector_that_cannot_be_one_is_no_start() {
    let args = ["serve", "--resp", "127.0.0.1:0", "--http", "off", "--otlp", "https://127.0.0.1:4318"];
    let said = tollgate(&args, b"").failed();
    assert!(said.contains("collector: expected http://") && said.contains("hint: --otlp http://"), "{said}");
    let said = tollgate(&["serve", "--otlp-sample", "5"], b"").failed();
    assert!(said.contains("--otlp"), "{said}");
}

#[test]
fn it_says_where_it_is_and_ends_at_a_signal() {
    let server =
        ServeProcess::start("serve-first", &["--resp", "127.0.0.1:0", "--http", "off", "--policy", "login=5/min"]);
    for said in [
        "in memory only:",
        "nothing is kept over a restart",
        "policy           login = 5/min",
        "without a token  check, read, reset, from this machine\n",
        "HTTP             off",
    ] {
        assert!(server.said.contains(said), "{}", server.said);
    }
    let port = server.addr().port();
    assert!(server.said.contains(&format!("  redis-cli -p {port} TG.CHECK user:42 \"100/min\"\n")), "{}", server.said);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["PING"]), "+PONG");
    assert_eq!(ask(&mut connection, &["TG.CHECK", "a", "login"]), "*6");
    // The line to paste, as it was printed, without its quotes.
    let pasted = server.row("tollgate check ").replace('"', "");
    let words: Vec<&str> = ["check"].into_iter().chain(pasted.split(' ')).collect();
    assert_eq!(tollgate(&words, b"").ok(), "user:42 allowed: 99 left, as new in 1min\n");
    // The printed token is the one in the file, which only this user can read, and which is removed at the end.
    let file = path("serve-first").join(format!("tollgate/{port}.token"));
    assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), server.row("token "));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(server.said.contains(&format!("kept in {}, ", file.display())), "{}", server.said);
    assert_eq!(server.end(), Some(0));
    assert!(!file.exists());
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).unwrap();
}

/// The token that the server left allows refunds, and `tollgate refund` finds it.
#[test]
fn a_refund_of_the_same_user_needs_no_more_than_the_command() {
    let server = ServeProcess::start("serve-refund", &["--resp", "127.0.0.1:0", "--http", "off"]);
    let (place, url) = (path("serve-refund"), format!("tollgate://{}", server.addr()));
    let run =
        |args: &[&str], place: &str| tollgate_in(args, b"", &[("TOLLGATE_STORE", &url), ("XDG_RUNTIME_DIR", place)]);
    let own = place.to_str().unwrap();
    let charged = json(&run(&["check", "user:42", "5/h", "--cost", "4", "--json"], own).ok());
    let at = charged["at_us"].to_string();
    let refund = ["refund", "user:42", "5/h", "4", &at];
    assert!(run(&refund, "/nowhere").failed().starts_with("error: NOPERM "));
    assert_eq!(run(&refund, own).ok(), "given back: 4 of 4 to user:42\n");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_line_of_the_tokens_file_without_refund_may_not_refund() {
    let file = folder("serve-refund-tokens").join("tokens");
    let token = |scopes: &str, name: &str| {
        let args = ["token", "--scopes", scopes, "--name", name, "--file", file.to_str().unwrap(), "--json"];
        json(&tollgate(&args, b"").ok())["token"].as_str().unwrap().to_owned()
    };
    let (old, new) = (token("check,read", "old"), token("check,refund", "new"));
    let args = ["--resp", "127.0.0.1:0", "--http", "off", "--tokens", file.to_str().unwrap()];
    let server = ServeProcess::start("serve-refund-file", &args);
    let mut connection = server.connect();
    for (token, answer) in [(old, "-NOPERM expected a token with the scope refund"), (new, ":0")] {
        assert_eq!(ask(&mut connection, &["AUTH", &token]), "+OK");
        let said = ask(&mut connection, &["TG.REFUND", "user:42", "5/h", "1", "1790000000000000"]);
        assert!(said.starts_with(answer), "{said}");
        assert_eq!(said.ends_with("; add refund to the token's scopes"), answer != ":0", "{said}");
    }
}

#[test]
fn requests_before_the_signal_are_answered() {
    let server = ServeProcess::start("serve-end", &["--resp", "0", "--http", "off", "--log", "off"]);
    let mut connection = server.connect();
    let pings = "PING\r\n".repeat(1_000);
    connection.get_mut().write_all(pings.as_bytes()).unwrap();
    assert_eq!(server.end(), Some(0));
    let mut answers = String::new();
    connection.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "+PONG\r\n".repeat(1_000));
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = ServeProcess::start("serve-twice", &["--resp", "0", "--http", "off"]);
    let connection = server.connect();
    let mut stuck = connection.get_ref();
    stuck.set_nonblocking(true).unwrap();
    let text = "x".repeat(10_000);
    let echo = format!("*2\r\n$4\r\nECHO\r\n$10000\r\n{text}\r\n");
    // The server waits for a client that does not read, so only the second signal ends it soon.
    assert!((0..10_000).any(|_| stuck.write_all(echo.as_bytes()).is_err()));
    server.signal("-INT");
    server.logged("info ending");
    server.signal("-INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(2));
    assert!(!path("serve-twice").join(format!("tollgate/{}.token", server.addr().port())).exists());
}

#[test]
fn files_are_read_again_at_a_signal() {
    let file = folder("serve-again-tokens").join("tokens");
    let name = file.to_str().unwrap();
    let add = |who: &str| tollgate(&["token", "--scopes", "check", "--name", who, "--file", name], b"").ok();
    add("first");
    let args = ["--resp", "0", "--http", "off", "--log", "json", "--tokens", name];
    let mut server = ServeProcess::start("serve-again", &args);
    assert!(server.row("tokens").starts_with(&format!("of {name}")), "{}", server.said);
    assert!(!server.said.contains("tg_"), "no token is made where some are given: {}", server.said);
    add("second");
    server.signal("-HUP");
    assert!(server.logged("tokens_read").contains(r#""tokens":"2""#));
    fs::write(&file, "nonsense\n").unwrap();
    server.signal("-HUP");
    assert!(server.logged("tokens_kept").contains("line 1: expected SCOPES SHA256HEX NAME"));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn the_policy_file_is_read_again_and_a_wrong_one_changes_nothing() {
    let file = folder("serve-config-file").join("tollgate.yaml");
    let name = file.to_str().unwrap();
    let write = |text: &str| {
        let beside = file.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&beside, &file).unwrap();
    };
    write("policies: {login: 5/min, api: 100/min}\n");
    let args = ["--resp", "0", "--http", "off", "--policy", "own=1/s", "--config", name];
    let mut server = ServeProcess::start("serve-config", &args);
    assert_eq!(server.row("policy file"), format!("{name}, 2 policies, read again when it changes"));
    let mut connection = server.connect();
    // What is left, the third of six integers.
    let mut remaining = || {
        assert_eq!(ask(&mut connection, &["TG.CHECK", "a", "login"]), "*6");
        let lines = connection.by_ref().lines().take(6).map(Result::unwrap).collect::<Vec<_>>();
        lines[2].clone()
    };
    assert_eq!(remaining(), ":4");
    write("policies: {login: 9/min}\n");
    server.signal("-HUP");
    let said = server.logged("config_changed");
    assert!(said.contains("login: limit 5/min -> 9/min; what was consumed counts on"), "{said}");
    assert_eq!(remaining(), ":7");
    write("policies:\n  login: 9/parsec\n");
    server.signal("-HUP");
    let said = server.logged("config_kept");
    assert!(said.contains("tollgate.yaml:2:12: policies.login: expected a unit"), "{said}");
    assert_eq!(remaining(), ":6");
    assert_eq!(server.end(), Some(0));
    let said = tollgate(&["serve", "--resp", "0", "--http", "off", "--config", name], b"").failed();
    assert!(said.contains("tollgate.yaml:2:12: policies.login: expected a unit"), "{said}");
}

#[test]
fn it_does_not_start_where_others_reach_it_without_tokens_and_tls() {
    let tokens = folder("serve-refused").join("tokens");
    let name = tokens.to_str().unwrap();
    tollgate(&["token", "--scopes", "check", "--name", "a", "--file", name], b"").ok();
    for (args, said) in [
        (&["--resp", "0.0.0.0:0"][..], "--tokens FILE"),
        (&["--http", "[::]:0"], "tollgate token"),
        (&["--resp", "0", "--resp", "192.0.2.1:0"], "--insecure-no-auth"),
        (&["--resp", "0.0.0.0:0", "--tokens", name], "--tls-cert FILE --tls-key FILE"),
        (&["--resp", "0.0.0.0:0", "--insecure-no-auth"], "--plaintext"),
        (&["--resp", "off", "--http", "off"], "expected an address to listen on"),
        (&["--resp", "off", "--resp", "0"], "expected addresses, or off alone"),
        (&["--resp", "0", "--tokens", "/nowhere/tokens"], "cannot read the tokens file"),
        (&["--resp", "0", "--tls-cert", "a", "--tls-key", "b"], "cannot read a"),
        (&["--resp", "0", "--policy", "a=1/s", "--policy", "a=2/s"], "each name once"),
        (&["--resp", "0", "--trusted-proxy", "nobody"], "a network such as 10.0.0.0/8"),
        (&["--resp", "0", "--store", "redis://127.0.0.1:1"], "--lazy starts the server without it"),
        (&["--resp", "0", "--store", "nonsense://u:secret@h"], "store URL: expected"),
    ] {
        let error = tollgate(&[&["serve", "--log", "off"], args].concat(), b"").failed();
        assert!(error.starts_with("error: ") && error.contains(said), "{args:?}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_store_behind_it_decides_and_may_be_away_if_that_is_said() {
    let redis = tollgate_kit::Server::start().unwrap();
    let args = ["--resp", "0", "--http", "off", "--log", "off"];
    let server = ServeProcess::start("serve-store", &[&args[..], &["--store", &redis.url()]].concat());
    assert!(server.row("decided by").contains("which keeps the state"), "{}", server.said);
    assert_eq!(ask(&mut server.connect(), &["TG.CHECK", "user:42", "100/min"]), "*6");
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut redis.connection().unwrap()).unwrap(), 1);
    assert_eq!(server.end(), Some(0));
    let server = ServeProcess::start(
        "serve-lazy",
        &[&args[..], &["--store", "redis://u:secret@127.0.0.1:1", "--lazy"]].concat(),
    );
    assert!(!server.said.contains("secret"), "{}", server.said);
    assert_eq!(ask(&mut server.connect(), &["TG.CHECK", "user:42", "100/min"]), "*6");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn few_open_files_are_few_connections_and_too_few_are_no_start() {
    let run = |files: &str| {
        let text = format!("ulimit -n {files}; exec \"$0\" serve --resp 0 --http off --threads 2");
        let mut command = Command::new("sh");
        command.args(["-c", &text, env!("CARGO_BIN_EXE_tollgate")]);
        command
    };
    let mut server = ServeProcess::run(&mut run("100"), "serve-files");
    assert!(server.row("connections").starts_with("at most "), "{}", server.said);
    assert!(server.logged("few_files").contains("wanted=4096"));
    assert_eq!(server.end(), Some(0));
    let output = run("40").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("ulimit -n"), "{error}");
}

#[test]
fn a_start_without_options_has_no_socket_off_loopback() {
    // The ports may be taken, so they are named; the addresses are those of the default.
    let server = ServeProcess::start("serve-loopback", &["--resp", "0", "--http", "0", "--log", "off"]);
    let process = format!("/proc/{}", server.child.id());
    let links = fs::read_dir(format!("{process}/fd")).unwrap();
    let links = links.filter_map(|file| fs::read_link(file.unwrap().path()).ok()?.to_str().map(str::to_owned));
    let sockets: HashSet<String> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let mut found = 0;
    for (table, inside) in [("tcp", "7F:"), ("tcp6", "00000000000000000000000001000000:")] {
        let text = fs::read_to_string(format!("{process}/net/{table}")).unwrap();
        for row in text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()) {
            if row[3] == "0A" && sockets.contains(row[9]) {
                assert!(row[1].contains(inside), "{table} {}", row[1]);
                found += 1;
            }
        }
    }
    assert_eq!(found, 2, "{}", server.said);
    for other in ["udp", "udp6", "raw", "raw6"] {
        let text = fs::read_to_string(format!("{process}/net/{other}")).unwrap();
        let own = text
            .lines()
            .skip(1)
            .filter(|line| line.split_ascii_whitespace().nth(9).is_some_and(|n| sockets.contains(n)));
        assert_eq!(own.count(), 0, "{other}");
    }
    assert_eq!(server.end(), Some(0));
}

/// Starts four servers on one Redis, kills the Redis, and sends each server more requests than the limit admits.
/// Returns how many they admitted together, and the first output of the first one.
fn admitted_without_the_store(name: &str, more: &[&str]) -> (usize, String) {
    let mut redis = tollgate_kit::Server::start().unwrap();
    let url = redis.url();
    let args = [&["--resp", "0", "--http", "off", "--store", url.as_str()][..], more].concat();
    let mut servers: Vec<ServeProcess> =
        (0..4).map(|place| ServeProcess::start(&format!("serve-{name}-{place}"), &args)).collect();
    redis.kill_hard().unwrap();
    let allowed = |server: &ServeProcess| {
        let mut connection = server.connect();
        let is_allowed = |_: &usize| {
            assert_eq!(ask(&mut connection, &["TG.CHECK", "user:42", "10/h", "SOURCE"]), "*7");
            let mut integers = String::new();
            for _ in 0..6 {
                connection.read_line(&mut integers).unwrap();
            }
            let mut source = String::new();
            connection.read_line(&mut source).unwrap();
            connection.read_line(&mut source).unwrap();
            assert_eq!(source, "$5\r\nlocal\r\n");
            integers.starts_with(":1\r\n")
        };
        (0..20).filter(is_allowed).count()
    };
    let admitted = servers.iter().map(allowed).sum();
    let log = if more.is_empty() { servers[0].logged("store_not_shared") } else { String::new() };
    (admitted, servers[0].said.clone() + &log)
}

#[test]
fn four_servers_without_their_store_admit_no_more_than_one_limit() {
    let (admitted, said) = admitted_without_the_store("shared", &["--instances", "4"]);
    assert_eq!(admitted, 4 * 2, "two of ten each");
    assert!(said.contains("by one of 4 parts of each limit"), "{said}");
}

#[test]
fn a_store_without_a_number_of_servers_is_warned_about() {
    let (admitted, said) = admitted_without_the_store("unshared", &[]);
    assert_eq!(admitted, 40, "as the warning says");
    assert!(said.contains("Warning: several servers") && said.contains("--instances N"), "{said}");
    assert!(said.contains("warn store_not_shared text=\"while the store is away"), "{said}");
    let error = tollgate(&["serve", "--resp", "0", "--http", "off", "--instances", "4"], b"").failed();
    assert!(error.contains("--instances \"4\": expected a store that the servers use: --store URL"), "{error}");
    let error = tollgate(&["serve", "--store", "redis://127.0.0.1:1", "--instances", "0"], b"").failed();
    assert!(error.contains("--instances"), "{error}");
}

#[test]
fn cluster_mode_names_what_clients_reach() {
    let here = ["--resp", "127.0.0.1:0", "--http", "off", "--log", "off"];
    for (option, announced) in
        [(&["--cluster"][..], None), (&["--cluster", "gate.example:7000"], Some("gate.example:7000"))]
    {
        let server = ServeProcess::start("serve-cluster", &[&here, option].concat());
        let place =
            announced.map_or_else(|| "at the address that a client connects to".to_owned(), |at| format!("at {at}"));
        assert!(server.row("cluster mode").ends_with(&place), "{}", server.said);
        let own = server.addr().to_string();
        let mut connection = redis::Client::open(format!("redis://{own}")).unwrap().get_connection().unwrap();
        let nodes: String = redis::cmd("CLUSTER").arg("NODES").query(&mut connection).unwrap();
        assert!(nodes.contains(&format!(" {}@", announced.unwrap_or(&own))), "{nodes}");
        assert_eq!(server.end(), Some(0));
    }
    for wrong in ["gate.example", "0.0.0.0:7379", "gate.example:0"] {
        let run = tollgate(&["serve", "--cluster", wrong], b"");
        assert_eq!(run.code, Some(2));
        assert!(run.err.contains("expected the address that clients reach, with its port"), "{}", run.err);
    }
}
