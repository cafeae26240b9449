//! The server of a play: its policies, tokens, data and caps, and how it is started, stopped and asked.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tollgate_daemon::{AccessToken, Scopes};

use super::caller::Caller;
use super::http::{self, Answer};
use crate::serving::{Folder, ServerProcess, StartOutcome};
use crate::{Failure, Report, machine};

/// How long a change of the policy file may take; the server looks every ten seconds if nothing is told.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines of a server that did not start which are told.
const LAST: usize = 3;
const LOOK: Duration = Duration::from_millis(5);
/// How long an answer that is not judged by its time may take.
const ANSWER: Duration = Duration::from_secs(30);

/// The caps that a server is judged by, in MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// `--memory` and `--keys`.
    pub(super) memory: u64,
    /// What buffers and queues may take.
    pub(super) buffers: u64,
}

impl Caps {
    /// What the server may grow by over the idle one, in kilobytes: the sum of its caps and 15 % of it.
    fn growth(self) -> u64 {
        (2 * self.memory + self.buffers) * 1024 * 115 / 100
    }
}

/// The tokens of the roles. Refunds are not needed by any of them.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    file: PathBuf,
    pub(super) honest: String,
    /// The attacker's of scope check, and of scope read.
    pub(super) check: String,
    pub(super) read: String,
    pub(super) operator: String,
}

pub(super) struct Stage {
    pub(super) folder: Folder,
    pub(super) data: Folder,
    pub(super) tokens: Tokens,
    pub(super) caps: Caps,
    /// Variables of the server.
    pub(super) set: Vec<(&'static str, String)>,
    /// Kilobytes of the server before anybody asked.
    idle: u64,
    server: Option<ServerProcess>,
}

impl Tokens {
    fn new(folder: &Folder) -> Result<Self, Failure> {
        let file = folder.at("tokens");
        let token = |scopes: &str, name: &str| -> Result<String, Failure> {
            let scopes: Scopes = scopes.parse()?;
            Ok(AccessToken::add_to(&file, scopes, name)?.0.text().to_owned())
        };
        Ok(Self {
            honest: token("check", "honest")?,
            check: token("check", "attacker-check")?,
            read: token("read", "attacker-read")?,
            operator: token("check,read,reset,admin", "operator")?,
            file: file.clone(),
        })
    }
}

impl Stage {
    /// A server with these policies that is not started yet.
    pub(super) fn new(caps: Caps, policies: &str) -> Result<Self, Failure> {
        let (folder, data) = (Folder::new("attack")?, Folder::new("attack-data")?);
        let tokens = Tokens::new(&folder)?;
        let stage = Self { folder, data, tokens, caps, set: Vec::new(), idle: 0, server: None };
        stage.write(policies)?;
        Ok(stage)
    }

    /// The same, started.
    pub(super) fn started(caps: Caps, policies: &str) -> Result<Self, Failure> {
        let mut stage = Self::new(caps, policies)?;
        stage.begin()?;
        Ok(stage)
    }

    fn words(&self) -> Vec<String> {
        let path = |path: &std::path::Path| path.display().to_string();
        let size = format!("{}M", self.caps.memory);
        [
            &["--http", "127.0.0.1:0", "--free", "check,read", "--memory", &size, "--keys", &size][..],
            &["--tokens", &path(&self.tokens.file), "--config", &path(&self.folder.at("tollgate.yaml"))],
            &["--data", &path(self.data.path())],
        ]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect()
    }

    /// Writes the policy file in one step, so that a server never reads half of it.
    pub(super) fn write(&self, policies: &str) -> Result<(), Failure> {
        let (new, file) = (self.folder.at("tollgate.new"), self.folder.at("tollgate.yaml"));
        fs::write(&new, format!("policies:\n{policies}"))?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        Ok(fs::rename(new, file)?)
    }

    /// Starts the server; answers why not, if it does not start.
    pub(super) fn start(&mut self) -> Result<Result<(), String>, Failure> {
        match StartOutcome::with(&self.words(), &self.set)? {
            StartOutcome::Up(server) => {
                self.idle = match self.idle {
                    0 => machine::memory_of(&server.id().to_string()),
                    idle => idle,
                };
                self.server = Some(server);
                Ok(Ok(()))
            }
            // What it says last is why.
            StartOutcome::Refused { status, said } => {
                let last = &said[said.len().saturating_sub(LAST)..];
                Ok(Err(format!("{status}: {}", last.join(" | "))))
            }
        }
    }

    /// Starts the server, which must start.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.start()?.map_err(|why| Failure(format!("the server did not start, {why}")))
    }

    /// Ends the server as SIGTERM does, or by `kill -9`. A panic is a finding.
    pub(super) fn end(&mut self, report: &mut Report, is_clean: bool) -> Result<(), Failure> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let id = server.id();
        if let Some(panic) = server.panic() {
            report.violated(format!("the server panicked: {panic}"));
        }
        if !server.is_alive() {
            report.violated(format!("the server is gone: {:?}", server.said().last()));
        } else if is_clean {
            let (status, said) = server.end()?;
            report.demand(status.success(), || format!("a clean stop ended with {status}: {:?}", said.last()));
        } else {
            server.kill()?;
        }
        tollgate_kit::clean_clock(id);
        Ok(())
    }

    /// Starts it again; one that does not start is a finding, and so is one that is not ready. Answers whether it is
    /// up.
    pub(super) fn again(&mut self, report: &mut Report, after: &str) -> Result<bool, Failure> {
        if let Err(why) = self.start()? {
            report.violated(format!("what was stopped does not start: after {after}, {why}"));
            return Ok(false);
        }
        let ready = http::ask(self.http()?, &self.tokens.operator, "GET /readyz", "", ANSWER)?;
        report.demand(ready.status == 200, || format!("not ready after {after}: {} {}", ready.status, ready.body));
        Ok(true)
    }

    pub(super) fn server(&self) -> Result<&ServerProcess, Failure> {
        self.server.as_ref().ok_or_else(|| Failure("the server is not up".to_owned()))
    }

    pub(super) fn resp(&self) -> Result<SocketAddr, Failure> {
        Ok(self.server()?.resp)
    }

    pub(super) fn http(&self) -> Result<SocketAddr, Failure> {
        self.server()?.http.ok_or_else(|| Failure("the server has no HTTP".to_owned()))
    }

    pub(super) fn honest(&self) -> Result<Caller, Failure> {
        Ok(Caller::connect(self.resp()?, &self.tokens.honest)?)
    }

    /// The attacker with the scope check.
    pub(super) fn attacker(&self) -> Result<Caller, Failure> {
        Ok(Caller::connect(self.resp()?, &self.tokens.check)?)
    }

    /// The attacker with the scope read.
    pub(super) fn reader(&self) -> Result<Caller, Failure> {
        Ok(Caller::connect(self.resp()?, &self.tokens.read)?)
    }

    pub(super) fn metrics(&self) -> Result<Answer, Failure> {
        Ok(http::ask(self.http()?, &self.tokens.operator, "GET /metrics", "", ANSWER)?)
    }

    /// Posts JSON as a caller of scope check.
    pub(super) fn post(&self, path: &str, json: &str) -> Result<Answer, Failure> {
        Ok(http::ask(self.http()?, &self.tokens.check, &format!("POST {path}"), json, ANSWER)?)
    }

    /// Changes the policies, and waits until the server has them.
    pub(super) fn reload(&self, policies: &str) -> Result<(), Failure> {
        let generation = |stage: &Self| Ok::<_, Failure>(stage.metrics()?.series("tollgate_config_generation"));
        let before = generation(self)?;
        self.write(policies)?;
        self.server()?.signal("HUP")?;
        let until = Instant::now() + PATIENCE;
        while generation(self)? == before {
            if Instant::now() > until {
                let said = self.server()?.said();
                return Err(Failure(format!("a new policy file was not read within {PATIENCE:?}: {:?}", said.last())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Kilobytes that the server has now, and what it has at most: the idle one and its growth.
    pub(super) fn memory(&self) -> Result<(u64, u64), Failure> {
        Ok((machine::memory_of(&self.server()?.id().to_string()), self.idle + self.caps.growth()))
    }

    /// Resident and counted memory must be within the caps.
    pub(super) fn judge_memory(&self, report: &mut Report) -> Result<(), Failure> {
        let ((now, most), idle) = (self.memory()?, self.idle);
        report.demand(now <= most, || over_resident(now, most, idle, self.caps));
        judge_counted(report, &self.metrics()?, self.caps);
        Ok(())
    }

    pub(super) fn idle(&self) -> u64 {
        self.idle
    }
}

/// What is said of a server that has more than it may.
pub(super) fn over_resident(now: u64, most: u64, idle: u64, caps: Caps) -> String {
    format!(
        "resident memory over its bound: {} MiB, of which {} MiB beside the idle server's {} MiB; at most {} MiB with \
         --memory {}M, --keys {}M and {} MiB of buffers",
        now / 1024,
        now.saturating_sub(idle) / 1024,
        idle / 1024,
        most / 1024,
        caps.memory,
        caps.memory,
        caps.buffers
    )
}

/// Bytes that the server counts must be within the caps.
pub(super) fn judge_counted(report: &mut Report, metrics: &Answer, caps: Caps) {
    let cap = (caps.memory << 20) as f64;
    for name in ["tollgate_store_bytes", "tollgate_keyspace_bytes"] {
        let bytes = metrics.series(name).unwrap_or_default();
        report.demand(bytes <= cap, || format!("counted bytes over their cap: {name} {bytes:.0}, at most {cap:.0}"));
    }
}
