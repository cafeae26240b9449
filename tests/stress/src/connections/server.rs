//! The server as its parent sees it: `tollgate serve` if the variable `TOLLGATE_BIN` says where `tollgate` is and
//! the caps are those it has, else this program, started again with the word `serve`.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::identity::Identity;
use super::program::Program;
use super::{Caps, serve};
use crate::{Failure, machine};

/// Where `tollgate` is.
const BIN: &str = "TOLLGATE_BIN";
/// What it takes if nothing else is said; the command has no words for anything else.
const INSTALLED: Caps = Caps { connections: 4_096, reserved: 512, prefix: 256, handshake: 10 };
/// How long a server may take to start.
const STARTING: Duration = Duration::from_secs(60);
/// Lines of a greeting.
const LINES: usize = 100;

pub(super) struct Server {
    program: Mutex<Program>,
    id: u32,
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
    told: &'static str,
}

impl Server {
    pub(super) fn start(caps: Caps, identity: &Identity, is_tls: bool) -> Result<Self, Failure> {
        let files = &identity.files;
        let (command, told) = match std::env::var_os(BIN) {
            Some(bin) if caps == INSTALLED => {
                let mut command = Command::new(bin);
                command.args(["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "off"]);
                command.arg("--tokens").arg(&files.tokens);
                if is_tls {
                    command.arg("--tls-cert").arg(&files.cert).arg("--tls-key").arg(&files.key);
                }
                (command, "tollgate serve, as installed")
            }
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("serve").args(serve::words(caps, files, is_tls));
                (command, "the server's library in a process of its own")
            }
        };
        let mut program = Program::start("server", command)?;
        let (mut resp, mut http) = (None, None);
        for _ in 0..LINES {
            let Some(line) = program.line(STARTING)? else { break };
            let addr = |name: &str| line.trim().strip_prefix(name)?.trim().parse::<SocketAddr>().ok();
            resp = resp.or_else(|| addr("Redis protocol"));
            http = http.or_else(|| addr("HTTP"));
            if line.starts_with("Try:") {
                break;
            }
        }
        let (Some(resp), Some(http)) = (resp, http) else {
            return Err(Failure("the server did not say where it listens".to_owned()));
        };
        Ok(Self { id: program.id(), program: Mutex::new(program), resp, http, told })
    }

    /// What it is.
    pub(super) fn told(&self) -> &'static str {
        self.told
    }

    /// Files it has open.
    pub(super) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id)).map_or(0, Iterator::count)
    }

    /// Memory it has in use, in kilobytes.
    pub(super) fn memory(&self) -> u64 {
        machine::memory_of(&self.id.to_string())
    }

    /// Time that its threads have worked.
    pub(super) fn worked(&self) -> Duration {
        machine::worked(self.id)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.program().is_alive()
    }

    pub(super) fn panics(&self) -> u64 {
        self.program().panics()
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
