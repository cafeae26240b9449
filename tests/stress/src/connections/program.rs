//! A process with lines in and out, read by threads of their own, so that one that hangs makes nobody hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::Failure;

pub(super) struct Program {
    name: &'static str,
    child: Child,
    told: Option<ChildStdin>,
    lines: Receiver<String>,
    panics: Arc<AtomicU64>,
}

impl Program {
    pub(super) fn start(name: &'static str, mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|error| Failure(format!("the {name} cannot be started: {error}")))?;
        let (sender, lines) = mpsc::channel();
        read(child.stdout.take(), move |line| drop(sender.send(line)));
        let panics = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&panics);
        read(child.stderr.take(), move |line| {
            seen.fetch_add(u64::from(line.contains("panicked at")), Ordering::Relaxed);
            let _ = writeln!(std::io::stderr(), "{name}: {line}");
        });
        Ok(Self { name, told: child.stdin.take(), child, lines, panics })
    }

    /// The next line; nothing if none came in time.
    pub(super) fn line(&mut self, within: Duration) -> Result<Option<String>, Failure> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                Err(Failure(format!("the {} ended too early: {status}", self.name)))
            }
        }
    }

    /// Says that it should end.
    pub(super) fn end(&mut self) {
        self.told = None;
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Panics that it told of.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

/// Whoever is left when a campaign ends goes with it.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(from: Option<impl Read + Send + 'static>, mut each: impl FnMut(String) + Send + 'static) {
    let Some(from) = from else { return };
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).for_each(&mut each));
}
