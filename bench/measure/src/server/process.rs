//! A server that is measured: a child of this process on a free port of the loopback, told to end when it
//! is dropped. Signals go only to a child that was not waited for yet.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::probe::pings;

/// How long a server may take to answer, or to end.
const BOUND: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);
/// Somebody may take a port between the moment it is found free and the server's start.
const PORTS_TRIED: usize = 8;

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct ServerCommand {
    pub(crate) program: PathBuf,
    /// `PORT` in them is replaced, and `FOLDER` by one of its own.
    pub(crate) args: Vec<String>,
    /// A library that is loaded before its own.
    pub(crate) preload: Option<PathBuf>,
}

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Process {
    /// Starts it, and returns when it answers PING and the port is its own.
    pub(crate) fn start(server_command: &ServerCommand) -> Result<Self, Failure> {
        let mut failure: Failure = "no port was tried".into();
        for _ in 0..PORTS_TRIED {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut process = Self::spawn(server_command, port)?;
            match process.wait() {
                Ok(()) => return Ok(process),
                Err(error) if process.log().contains("in use") => failure = error,
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn spawn(server_command: &ServerCommand, port: u16) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("tollgate-bench-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(folder.join("log"))?;
        let mut command = Command::new(&server_command.program);
        let own = folder.display().to_string();
        command.args(
            server_command.args.iter().map(|word| word.replace("PORT", &port.to_string()).replace("FOLDER", &own)),
        );
        // Whatever it keeps for its user is not to replace what that user has.
        for home in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            command.env(home, &folder);
        }
        command.envs(server_command.preload.iter().map(|library| ("LD_PRELOAD", library)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        match command.spawn() {
            Ok(child) => Ok(Self { child, port, folder }),
            Err(error) => {
                fs::remove_dir_all(&folder)?;
                Err(format!("{}: {error}", server_command.program.display()).into())
            }
        }
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status}: {}", self.log()).into());
            }
            let answers = TcpStream::connect(self.addr()).is_ok_and(pings);
            if answers && listens(self.pid(), self.port) {
                return Ok(());
            }
            if started.elapsed() >= BOUND {
                let but = if answers { "another process answers there" } else { "it does not" };
                return Err(format!("waited {BOUND:?} for port {} to answer; {but}: {}", self.port, self.log()).into());
            }
            sleep(PAUSE);
        }
    }

    /// The last lines of what it printed.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(5)).copied().collect::<Vec<_>>().join("\n")
    }

    /// Asks it to end, and ends it if it does not.
    fn end(&mut self) -> Result<(), Failure> {
        if self.child.try_wait()?.is_none() {
            // The shell's own kill: sending a signal from here would take unsafe code.
            Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &self.pid().to_string()]).status()?;
            let told = Instant::now();
            while self.child.try_wait()?.is_none() {
                if told.elapsed() >= BOUND {
                    self.child.kill()?;
                }
                sleep(PAUSE);
            }
        }
        fs::remove_dir_all(&self.folder)?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(failure) = self.end() {
            eprintln!("process {}: {failure}", self.pid());
        }
    }
}

/// Whether the process is the one that listens on the port: one of its open files is that socket.
fn listens(pid: u32, port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let Some(socket) = listener(&sockets, port) else { return false };
    let socket = Path::new(&socket);
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == socket)
}

/// The socket that listens on 127.0.0.1 and this port, as it is called among open files.
fn listener(sockets: &str, port: u16) -> Option<String> {
    let here = format!("0100007F:{port:04X}");
    sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Its number, its address, the other's, its state: 0A listens.
        let is_it = fields.get(1) == Some(&here.as_str()) && fields.get(3) == Some(&"0A");
        is_it.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]"))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_among_the_files_of_its_process() {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listening.local_addr().unwrap().port();
        let us = std::process::id();
        assert!(listens(us, port));
        assert!(!listens(1, port) || us == 1);
        drop(listening);
        assert!(!listens(us, port));
    }
}
