//! Programs that nobody here wrote, as they are, against our server: redis-cli, redis-benchmark, redis-py and
//! ioredis, over RESP2 and RESP3.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::clients::{self, program, tollgate};
use crate::install;
use crate::run::{Failure, root};

/// The guide whose commands are run.
const GUIDE: &str = "docs/server.md";

/// Lines of the guide in a language, and the programs they are taken from.
const QUOTED: [(&str, &str); 3] =
    [("python", "docs/clients/server.py"), ("python", "docs/clients/cluster.py"), ("js", "docs/clients/server.mjs")];

/// `cargo xtask outsiders`. The command `tollgate` must be built.
pub(crate) fn outsiders() -> Result<(), Failure> {
    let clients = install::clients()?;
    let server = Server::start(&[])?;
    guide(&server)?;
    redis_cli(&server)?;
    redis_benchmark(&server)?;
    let port = server.port.to_string();
    for name in ["server.py", "server.mjs"] {
        program(&clients, name, &[("TOLLGATE_PORT", &port), ("TOLLGATE_TOKEN", &server.token)])?;
    }
    clusters(&clients)
}

/// Clients in cluster mode, on a server that is a cluster of one node.
fn clusters(clients: &install::Clients) -> Result<(), Failure> {
    let server = Server::start(&["--cluster"])?;
    server.tells(&["-c"], "SET a 1\nGET a\nCLUSTER INFO\n", &["OK\n1\n", "cluster_slots_ok:16384"])?;
    let port = server.port.to_string();
    ["cluster.py", "cluster.mjs"].iter().try_for_each(|name| program(clients, name, &[("TOLLGATE_PORT", &port)]))
}

/// The commands of the guide, on a server that was just started.
fn guide(server: &Server) -> Result<(), Failure> {
    let text = fs::read_to_string(root().join(GUIDE))?;
    clients::quotes(GUIDE, &text, &QUOTED)?;
    let (resp, folder) = (format!("127.0.0.1:{}", server.port), root().join("target/clients/serve"));
    let redis_cli = format!("redis-cli --no-raw -h 127.0.0.1 -p {}", server.port);
    let called = [
        ("redis-cli -p 7379", redis_cli.as_str()),
        ("127.0.0.1:7379", resp.as_str()),
        ("127.0.0.1:7380", server.http.as_str()),
    ];
    let store = format!("tollgate://{resp}");
    let home = folder.display().to_string();
    let steps = clients::read(GUIDE, &text)?;
    for step in &steps {
        step.check(&folder, &redis_cli, &called, &[("TOLLGATE_STORE", &store), ("XDG_RUNTIME_DIR", &home)])?;
    }
    println!("outsiders: {} commands of {GUIDE} print what it says", steps.len());
    if steps.is_empty() { Err(Failure(format!("{GUIDE} has no command"))) } else { Ok(()) }
}

/// Our server, gone when it is dropped.
struct Server {
    child: Child,
    /// What it says, kept open: it may say more.
    said: Lines<BufReader<ChildStdout>>,
    port: u16,
    http: String,
    token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(options: &[&str]) -> Result<Self, Failure> {
        let home = root().join("target/clients/serve");
        fs::create_dir_all(&home)?;
        let mut child = Command::new(tollgate())
            .args(["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "off"])
            .args(options)
            // Where it leaves its token.
            .env("XDG_RUNTIME_DIR", &home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().ok_or_else(|| Failure("no pipe".to_owned()))?;
        let said = BufReader::new(said).lines();
        let mut server = Self { child, said, port: 0, http: String::new(), token: String::new() };
        while let Some(line) = server.said.next().transpose()? {
            if let Some(addr) = line.trim().strip_prefix("Redis protocol ") {
                server.port = addr.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
            } else if let Some(addr) = line.trim().strip_prefix("HTTP ") {
                server.http = addr.trim().to_owned();
            } else if let Some(token) = line.trim().strip_prefix("token ") {
                server.token = token.trim().to_owned();
                break;
            }
        }
        if server.port == 0 || server.token.is_empty() {
            return Err(Failure("tollgate serve does not say where it listens: run it by hand to see why".to_owned()));
        }
        Ok(server)
    }

    /// What a program prints, given the server's place and what it reads.
    fn run(&self, name: &str, args: &[&str], reads: &str) -> Result<String, Failure> {
        let mut child = Command::new(name)
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure(format!("{name}: {error}; cargo xtask install brings it")))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(reads.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
        if !output.status.success() || !complained.trim().is_empty() {
            return Err(Failure(format!("{name} {}: {}\n{said}{complained}", args.join(" "), output.status)));
        }
        Ok(said.into_owned())
    }

    /// Runs a program whose every line is told beforehand.
    fn prints(&self, args: &[&str], reads: &str, expected: &[&str]) -> Result<(), Failure> {
        let said = self.run("redis-cli", args, reads)?;
        let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        if lines == expected {
            return Ok(());
        }
        Err(Failure(format!("redis-cli {}\n--- expected\n{}\n--- found\n{said}", args.join(" "), expected.join("\n"))))
    }

    /// Runs a program that says each of these somewhere.
    fn tells(&self, args: &[&str], reads: &str, expected: &[&str]) -> Result<(), Failure> {
        let said = self.run("redis-cli", args, reads)?;
        match expected.iter().find(|part| !said.contains(**part)) {
            None => Ok(()),
            Some(part) => Err(Failure(format!("redis-cli {}: expected {part:?}, found\n{said}", args.join(" ")))),
        }
    }
}

fn redis_cli(server: &Server) -> Result<(), Failure> {
    server.prints(&["TG.CHECK", "user:42", "100/min"], "", &["1", "1", "99", "0", "60000000", "0"])?;
    server.prints(&["-n", "9", "PING"], "", &["PONG"])?;
    server.prints(&["-3", "--no-raw", "CONFIG", "GET", "save"], "", &["1# \"save\" => \"\""])?;
    server.prints(&["--no-raw", "CONFIG", "GET", "save"], "", &["1) \"save\"", "2) \"\""])?;
    server.prints(
        &["--user", "default", "--pass", &server.token, "--no-auth-warning", "TG.RESET", "user:42", "100/min"],
        "",
        &["1"],
    )?;
    server.tells(&["COMMAND", "DOCS", "TG.CHECK"], "", &["tg.check", "summary", "charges it"])?;
    server.tells(&["-3", "INFO"], "", &["redis_version:", "tollgate_version:", "loading:0", "role:master"])?;
    // Its prompt asks for COMMAND DOCS and makes its help of it.
    server.tells(
        &[],
        "help TG.CHECK\nTG.CHECK user:7 100/min\nNOPE\nHELLO 3\nCLIENT GETNAME\n",
        &["key policy [COST n] [MODE m] [NAME word] [REST|FULL] [SOURCE]", "99\n", "ERR unknown command 'NOPE'"],
    )?;
    // Thousands of commands without waiting for replies.
    let mass = "*3\r\n$8\r\nTG.CHECK\r\n$4\r\nmass\r\n$6\r\n5000/h\r\n".repeat(5_000);
    server.tells(&["--pipe"], &mass, &["errors: 0, replies: 5000"])?;
    server.tells(&["TG.PEEK", "mass", "5000/h"], "", &["0\n0\n0\n"])?;
    println!("outsiders: redis-cli gets what it asks for, in RESP2 and RESP3, at its prompt and in its pipe");
    Ok(())
}

fn redis_benchmark(server: &Server) -> Result<(), Failure> {
    for args in [
        &["-t", "ping,set,get,incr", "-n", "10000", "-c", "20", "-q"][..],
        &["-n", "20000", "-c", "20", "-P", "16", "-r", "1000", "-q", "TG.CHECK", "user:__rand_int__", "100/min"],
        &["-3", "-n", "1000", "-c", "10", "-P", "16", "-q", "TG.CHECK", "benchmark", "1000/h"],
    ] {
        let said = server.run("redis-benchmark", args, "")?;
        let wrong = ["error", "warning", "could not"].iter().any(|word| said.to_lowercase().contains(word));
        if wrong || !said.contains("requests per second") {
            return Err(Failure(format!("redis-benchmark {}:\n{said}", args.join(" "))));
        }
    }
    // Each of its requests was one: a thousand were there, and none is left.
    server.tells(&["TG.PEEK", "benchmark", "1000/h"], "", &["0\n0\n0\n"])?;
    println!("outsiders: redis-benchmark pings and checks, alone and in pipelines");
    Ok(())
}
