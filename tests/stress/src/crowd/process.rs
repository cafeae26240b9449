//! A process of the crowd as its parent sees it: this program, started again with the word `work`.
//!
//! It says `ready`, waits for a line, works, and answers a line of figures and then its events, eight bytes
//! each.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tollgate_kernel::Timestamp;

use super::round::Round;
use super::work::{FIGURES, unpack};
use crate::Failure;

/// How long a process may take to open its connections.
const OPENING: Duration = Duration::from_secs(60);

pub(super) struct Process {
    child: Child,
    told: ChildStdin,
    answers: Option<BufReader<ChildStdout>>,
}

/// What a process did.
pub(super) struct ProcessFigures {
    pub(super) elsewhere: u64,
    pub(super) errors: u64,
    pub(super) panics: u64,
    pub(super) reloads: u64,
    pub(super) connections: u64,
    pub(super) events: Vec<(Timestamp, bool)>,
}

impl Process {
    pub(super) fn start(round: &Round) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("work").args(round.words()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (told, answers) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let told = told.ok_or_else(|| Failure("a process of the crowd has no standard input".to_owned()))?;
        Ok(Self { child, told, answers })
    }

    pub(super) fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let line = self.ask(OPENING, |answers| {
            let mut line = String::new();
            answers.read_line(&mut line).map(|_| line)
        })?;
        if line.trim() == "ready" { Ok(()) } else { Err(Failure(format!("a process of the crowd said {line:?}"))) }
    }

    pub(super) fn go(&mut self) -> Result<(), Failure> {
        Ok(writeln!(self.told, "go")?)
    }

    pub(super) fn finish(mut self, within: Duration) -> Result<ProcessFigures, Failure> {
        let (line, bytes) = self.ask(within, |answers| {
            let (mut line, mut bytes) = (String::new(), Vec::new());
            answers.read_line(&mut line)?;
            answers.read_to_end(&mut bytes)?;
            Ok((line, bytes))
        })?;
        let figures: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let status = self.child.wait()?;
        let [elsewhere, errors, panics, reloads, connections] = <[u64; FIGURES]>::try_from(figures)
            .map_err(|_| Failure(format!("a process of the crowd ended with {status} and said {line:?}")))?;
        let events = bytes.chunks_exact(8).map(|chunk| unpack(chunk.try_into().unwrap_or_default())).collect();
        Ok(ProcessFigures { elsewhere, errors, panics, reloads, connections, events })
    }

    /// Reads in a thread of its own, so that a process that hangs cannot make its parent hang.
    fn ask<T: Send + 'static>(
        &mut self,
        within: Duration,
        read: impl FnOnce(&mut BufReader<ChildStdout>) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(mut answers) = self.answers.take() else {
            return Err(Failure("a process of the crowd does not answer any more".to_owned()));
        };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let read = read(&mut answers);
            let _ = sender.send((read, answers));
        });
        let (read, answers) = receiver
            .recv_timeout(within)
            .map_err(|_| Failure(format!("a process of the crowd did not answer within {within:?}")))?;
        self.answers = Some(answers);
        Ok(read?)
    }
}

/// Whoever is left when a campaign fails goes with it.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
