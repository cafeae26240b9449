//! One real server: a child of this process, on a port and in a folder of its own, gone when dropped.
//!
//! Signals go only to a child that was not waited for yet, so its process id cannot be another's by now.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::builder::Builder;
use crate::clock;
use crate::error::{Error, ErrorContext};
use crate::folder::Folder;
use crate::wait::until;

/// How long a server may take to answer after it was started.
const START: Duration = Duration::from_secs(10);
/// How long a reply to an administrator's command may take.
const REPLY: Duration = Duration::from_secs(10);
/// How long one attempt may take where attempts are repeated.
const ATTEMPT: Duration = Duration::from_secs(1);

/// A running `redis-server` (or a server that speaks as it does).
#[derive(Debug)]
pub struct Server {
    recipe: Builder,
    port: u16,
    /// The process last started.
    pid: u32,
    /// It, until it was waited for.
    child: Option<Child>,
    folder: Folder,
}

impl Server {
    /// A server with default options.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// A server with options of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn launch(recipe: Builder, port: u16, folder: Folder) -> Result<Self, Error> {
        if recipe.has_moveable_clock() {
            clock::set(folder.path(), 0)?;
        }
        let mut server = Self { recipe, port, pid: 0, child: None, folder };
        server.spawn()?;
        Ok(server)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Where it listens, for clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The process id of the server last started.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its folder: log, and whatever it was told to write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("server.log")).unwrap_or_default()
    }

    /// A client of it.
    pub fn client(&self) -> Result<redis::Client, Error> {
        redis::Client::open(self.url()).doing(format!("reading {}", self.url()))
    }

    /// A connection to it; a reply that takes ten seconds is an error.
    pub fn connection(&self) -> Result<redis::Connection, Error> {
        self.connect(REPLY)
    }

    /// The same for questions that are asked again.
    pub(crate) fn attempt(&self) -> Result<redis::Connection, Error> {
        self.connect(ATTEMPT)
    }

    /// Whether the child is there: it was started, was not killed, and did not end by itself.
    pub fn is_running(&mut self) -> bool {
        match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => true,
            Some(_) => {
                self.child = None;
                false
            }
            None => false,
        }
    }

    /// Kills it as a crash would: SIGKILL, no goodbye. Nothing happens if it is dead.
    pub fn kill_hard(&mut self) -> Result<(), Error> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().doing(format!("killing process {}", self.pid))?;
        child.wait().doing(format!("waiting for process {} to end", self.pid))?;
        if self.recipe.has_moveable_clock() {
            clock::clean(self.pid);
        }
        Ok(())
    }

    /// Stops the process where it is: connections stay open, new ones are accepted by the system, and
    /// nothing is answered.
    pub fn stop_answering(&mut self) -> Result<(), Error> {
        self.signal("STOP")?;
        let stat = format!("/proc/{}/stat", self.pid);
        until(ATTEMPT, "the process to stop", || {
            // The state follows the name in parentheses; where there is no /proc there is nothing to see.
            let stopped = fs::read_to_string(&stat).map(|text| text.contains(") T "));
            Ok(stopped.unwrap_or(true).then_some(()))
        })
    }

    /// Lets a stopped process go on.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.signal("CONT")
    }

    /// Starts it again on the same port and in the same folder; kills it before if it runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill_hard()?;
        self.spawn()
    }

    /// Moves its clock to so many seconds from the real one, and returns when `TIME` shows it; a server that
    /// is dead has it when it is started again. Only for a server with [`Builder::moveable_clock`].
    pub fn set_clock_offset(&self, seconds: i64) -> Result<(), Error> {
        if !self.recipe.has_moveable_clock() {
            return Err(Error::Unexpected("this server was not built with a moveable clock".to_owned()));
        }
        clock::set(self.folder(), seconds)?;
        if self.child.is_none() {
            return Ok(());
        }
        // A busy Valkey looks at the clock only about twice in a millisecond.
        let mut connection = self.attempt()?;
        until(ATTEMPT, "the server to follow its clock", || Ok(clock::follows(&mut connection, seconds)?.then_some(())))
    }

    fn connect(&self, bound: Duration) -> Result<redis::Connection, Error> {
        let doing = || format!("connecting to port {}", self.port);
        let connection = self.client()?.get_connection_with_timeout(bound).doing(doing())?;
        connection.set_read_timeout(Some(bound)).doing(doing())?;
        connection.set_write_timeout(Some(bound)).doing(doing())?;
        Ok(connection)
    }

    fn spawn(&mut self) -> Result<(), Error> {
        let child = self.recipe.command(self.port, &self.folder)?.spawn();
        let program = self.recipe.program();
        let child = match child {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Missing(format!(
                    "{} is not here: apt-get install redis-server, or set TOLLGATE_REDIS_SERVER to its path",
                    program.display()
                )));
            }
            child => child.doing(format!("starting {}", program.display()))?,
        };
        self.pid = child.id();
        self.child = Some(child);
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Error> {
        let waiting = format!("{} to answer on port {}", self.recipe.program().display(), self.port);
        let answered = until(START, &waiting, || {
            if !self.is_running() {
                return Err(self.why_it_ended());
            }
            match self.who_answers() {
                Ok(pid) if pid == self.pid => Ok(Some(())),
                Ok(_) => Err(Error::PortTaken(self.port)),
                Err(_) => Ok(None),
            }
        });
        if answered.is_err() {
            self.kill_hard()?;
        }
        answered
    }

    /// The process that answers on the port, which may be another's.
    fn who_answers(&self) -> Result<u32, Error> {
        let mut connection = self.attempt()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).doing("asking who answers")?;
        let pid = field(&info, "process_id").and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| Error::Unexpected(format!("INFO names no process: {info}")))?;
        // Refused while the server loads its data.
        let _: String = redis::cmd("PING").query(&mut connection).doing("asking for a sign of life")?;
        Ok(pid)
    }

    fn why_it_ended(&self) -> Error {
        let log = self.log();
        if log.contains("Address already in use") {
            return Error::PortTaken(self.port);
        }
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Error::Unexpected(format!("{} ended: {}", self.recipe.program().display(), last.join("\n")))
    }

    fn signal(&mut self, name: &str) -> Result<(), Error> {
        if !self.is_running() {
            return Err(Error::Unexpected(format!("SIG{name}: the server on port {} is not running", self.port)));
        }
        // The shell's own kill: sending a signal from here would take unsafe code.
        let shell = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &self.pid.to_string()]).status();
        if shell.doing(format!("sending SIG{name}"))?.success() {
            Ok(())
        } else {
            Err(Error::Unexpected(format!("SIG{name} did not reach process {}", self.pid)))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill_hard();
    }
}

/// The value of a line `name:value`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
