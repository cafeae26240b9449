//! How a server is to be started.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::clock;
use crate::error::{Error, ErrorContext};
use crate::folder::Folder;
use crate::ports;
use crate::server::Server;

/// Ports tried before giving up; each failure means that somebody took the port in these milliseconds.
const PORTS_TRIED: usize = 8;

/// The program, arguments and environment of a server.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    binary: Option<PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    moveable_clock: bool,
    cluster: bool,
}

impl Builder {
    /// The program to run instead of `redis-server`, e.g. what [`valkey`](crate::valkey) returns.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// An option of the server's configuration; later ones win, e.g. `.option("--appendonly", "yes")`.
    #[must_use]
    pub fn option(self, name: &str, value: &str) -> Self {
        self.args([name, value])
    }

    /// More arguments, as they are.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets [`Server::set_clock_offset`] move the server's clock. Needs libfaketime.
    #[must_use]
    pub fn moveable_clock(mut self) -> Self {
        self.moveable_clock = true;
        self
    }

    /// Starts the server on a free port and waits until it answers.
    pub fn start(self) -> Result<Server, Error> {
        let mut taken = None;
        for _ in 0..PORTS_TRIED {
            let port = ports::free(if self.cluster { &[ports::BUS] } else { &[] })?;
            match Server::launch(self.clone(), port, Folder::new()?) {
                Err(error @ Error::PortTaken(_)) => taken = Some(error),
                answer => return answer,
            }
        }
        Err(taken.unwrap_or_else(|| Error::Unexpected("no port was tried".to_owned())))
    }

    /// A node of a cluster needs a second port for the bus.
    pub fn cluster_node(mut self) -> Self {
        self.cluster = true;
        let own = [
            ("--cluster-enabled", "yes"),
            ("--cluster-node-timeout", "2000"),
            ("--cluster-announce-ip", "127.0.0.1"),
            // Replicas stay with the primary they were given, or tests would depend on chance.
            ("--cluster-allow-replica-migration", "no"),
            // By default a primary waits five seconds for more replicas before it sends its data.
            ("--repl-diskless-sync-delay", "0"),
        ];
        // First, so that the caller's arguments win.
        self.args.splice(0..0, own.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]));
        self
    }

    pub(crate) fn has_moveable_clock(&self) -> bool {
        self.moveable_clock
    }

    pub(crate) fn command(&self, port: u16, folder: &Folder) -> Result<Command, Error> {
        let log = folder.path().join("server.log");
        let log = std::fs::File::options().create(true).append(true).open(log).doing("opening the server's log")?;
        let mut command = Command::new(self.program());
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--dir"]);
        command.arg(folder.path()).args(&self.args);
        if self.moveable_clock {
            command.envs(clock::variables(folder.path())?);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(log.try_clone().doing("opening the server's log")?).stdout(log);
        Ok(command)
    }

    pub(crate) fn program(&self) -> PathBuf {
        let named = || std::env::var_os("TOLLGATE_REDIS_SERVER").map(PathBuf::from);
        self.binary.clone().or_else(named).unwrap_or_else(|| PathBuf::from("redis-server"))
    }
}
