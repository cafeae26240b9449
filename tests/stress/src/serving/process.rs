//! The process: `tollgate serve` of the program that the variable `TOLLGATE_BIN` names, else of this one, which
//! is `tollgate` too if its first word says so.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Failure;

/// The word by which this program is `tollgate`.
pub const TOLLGATE: &str = "tollgate";
/// Where `tollgate` is.
const BIN: &str = "TOLLGATE_BIN";
/// How long a server may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(2);
/// The last that a server says of its start in its log.
const LISTENS: &str = " listening ";
/// Lines of a greeting.
const GREETING: usize = 100;
/// Lines of the log that are kept.
const MAX_KEPT: usize = 10_000;

/// A server that is up.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) resp: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
    /// From its start until it said where it listens.
    pub(crate) ready: Duration,
    said: Arc<Mutex<Vec<String>>>,
    /// Ends when standard error is read to its end.
    reading: Receiver<()>,
}

/// What came of a start.
pub(crate) enum StartOutcome {
    Up(ServerProcess),
    /// It ended by itself.
    Refused {
        status: ExitStatus,
        said: Vec<String>,
    },
}

impl ServerProcess {
    /// Starts `tollgate serve` on free ports with these words more.
    pub(crate) fn start(words: &[String], set: &[(&str, String)]) -> Result<Self, Failure> {
        match StartOutcome::new(words, set)? {
            StartOutcome::Up(serving) => Ok(serving),
            StartOutcome::Refused { status, said } => {
                Err(Failure(format!("the server did not start, {status}: {}", said.join(" | "))))
            }
        }
    }

    /// Kills it as by `kill -9`; answers the moment before.
    pub(crate) fn kill(&mut self) -> Result<Instant, Failure> {
        let moment = Instant::now();
        self.child.kill()?;
        self.child.wait()?;
        Ok(moment)
    }

    /// Sends a signal by its name, as `kill` knows it.
    pub(crate) fn signal(&self, name: &str) -> Result<(), Failure> {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(Failure(format!("kill -s {name}: {status}"))) }
    }

    /// Kills it once it has written what it found at its start, which it may do after it answers the first
    /// questions; answers all that it wrote to standard error.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, Failure> {
        let until = Instant::now() + PATIENCE;
        while !self.said().iter().any(|line| line.contains(LISTENS)) && self.is_alive() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        self.kill()?;
        let _ = self.reading.recv_timeout(PATIENCE);
        Ok(self.said())
    }

    /// Asks it to end, and waits.
    pub(crate) fn end(mut self) -> Result<(ExitStatus, Vec<String>), Failure> {
        self.signal("TERM")?;
        let status = wait(&mut self.child)?;
        let _ = self.reading.recv_timeout(PATIENCE);
        Ok((status, self.said()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it wrote to standard error so far.
    pub(crate) fn said(&self) -> Vec<String> {
        lock(&self.said).clone()
    }

    /// The first line that tells of a panic.
    pub(crate) fn panic(&self) -> Option<String> {
        panic_in(&self.said())
    }
}

/// Whoever is left when a campaign ends goes with it.
impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl StartOutcome {
    /// A server on which everybody may do everything.
    pub(crate) fn new(words: &[String], set: &[(&str, String)]) -> Result<Self, Failure> {
        Self::with(&[&["--insecure-no-auth".to_owned()], words].concat(), set)
    }

    /// A server on which callers may do what the words say.
    pub(crate) fn with(words: &[String], set: &[(&str, String)]) -> Result<Self, Failure> {
        let started = Instant::now();
        let mut command = program()?;
        command.args(["serve", "--resp", "127.0.0.1:0"]).args(words);
        command.envs(set.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Failure(format!("tollgate cannot be started: {error}")))?;
        let (sender, lines) = mpsc::channel();
        read(child.stdout.take(), move |line| drop(sender.send(line)));
        let said = Arc::new(Mutex::new(Vec::new()));
        let (kept, (ending, reading)) = (Arc::clone(&said), mpsc::channel::<()>());
        read(child.stderr.take(), move |line| {
            // Gone with this thread.
            let _ending = &ending;
            let mut kept = lock(&kept);
            if kept.len() < MAX_KEPT {
                kept.push(line);
            }
        });
        match greeting(&lines) {
            Some((resp, http)) => {
                Ok(Self::Up(ServerProcess { child, resp, http, ready: started.elapsed(), said, reading }))
            }
            None => {
                let status = wait(&mut child)?;
                let _ = reading.recv_timeout(PATIENCE);
                Ok(Self::Refused { status, said: lock(&said).clone() })
            }
        }
    }
}

/// A line that tells of a panic, if there is one.
pub(crate) fn panic_in(said: &[String]) -> Option<String> {
    said.iter().find(|line| line.contains("panicked at")).cloned()
}

fn program() -> Result<Command, Failure> {
    if let Some(bin) = std::env::var_os(BIN) {
        return Ok(Command::new(bin));
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(TOLLGATE);
    Ok(command)
}

/// Where the server says that it listens; nothing if it ended, or never said it.
fn greeting(lines: &Receiver<String>) -> Option<(SocketAddr, Option<SocketAddr>)> {
    let (mut resp, mut http) = (None, None);
    for _ in 0..GREETING {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let addr = |name: &str| line.trim().strip_prefix(name)?.trim().parse::<SocketAddr>().ok();
                resp = resp.or_else(|| addr("Redis protocol"));
                http = http.or_else(|| addr("HTTP"));
                if line.starts_with("Try:") {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
    resp.map(|resp| (resp, http))
}

/// Waits for the end; one that does not come is made.
fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Err(Failure(format!("a server did not end within {PATIENCE:?}")));
        }
        std::thread::sleep(LOOK);
    }
}

fn read(from: Option<impl Read + Send + 'static>, mut each: impl FnMut(String) + Send + 'static) {
    let Some(from) = from else { return };
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).for_each(&mut each));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
