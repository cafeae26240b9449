//! The log of the server: one line for each event, on standard error.
//!
//! | file | what it is |
//! |---|---|
//! | `line.rs` | a line, as text or as JSON |
//! | `mod.rs` | the log, its limits, and the thread that writes it |
//!
//! A caller that can cause log lines could fill a disk or block a thread that waits for the log. So each event has a
//! limited number of lines a second, lines are written by a thread of their own, and those left out are counted. A line
//! never contains a token, and keys are hashed with a secret of the process.

mod line;

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use line::line;
pub use line::{json, micros, moment};
use tollgate_kernel::{Decision, Limit, Source};

/// The most lines of one event in a second.
const LINES: u64 = 20;
/// The most lines that wait to be written.
const WAITING: usize = 256;
/// How long a shutdown waits for the last lines to be written: a reader may have stopped reading.
const LAST: Duration = Duration::from_secs(1);

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `TIME LEVEL EVENT name=value …`
    Text,
    /// One JSON document for each line.
    Json,
    /// No lines are written.
    #[default]
    Off,
}

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something happened as it should.
    Info,
    /// Something needs attention.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// The fields of a line besides its event.
pub type LogFields<'a> = &'a [(&'static str, &'a dyn Display)];

/// The log of a server.
#[derive(Debug, Default)]
pub struct ServerLog {
    format: LogFormat,
    queue: Option<LogQueue>,
    events: Mutex<HashMap<&'static str, EventLineCounts>>,
    /// Whether a refusal may still be written in this second.
    refusal: AtomicBool,
    refusals_left_out: AtomicU64,
    secret: RandomState,
}

/// The queue of lines, and the signal that the thread that writes them has ended.
#[derive(Debug)]
struct LogQueue {
    lines: Option<SyncSender<String>>,
    done: Mutex<Receiver<()>>,
}

/// The lines of one event in this second.
#[derive(Debug, Default)]
struct EventLineCounts {
    written: u64,
    left_out: u64,
}

impl ServerLog {
    /// Returns a log on standard error.
    pub fn new(format: LogFormat) -> io::Result<Self> {
        if format == LogFormat::Off {
            return Ok(Self::default());
        }
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (ended, done) = sync_channel::<()>(1);
        std::thread::Builder::new().name("tollgate-log".to_owned()).spawn(move || {
            for line in waiting {
                // stderr failed; there is nowhere left to report it.
                let _ = io::stderr().lock().write_all(line.as_bytes());
            }
            drop(ended);
        })?;
        Ok(Self::to(format, LogQueue { lines: Some(lines), done: Mutex::new(done) }))
    }

    fn to(format: LogFormat, queue: LogQueue) -> Self {
        Self { format, queue: Some(queue), refusal: AtomicBool::new(true), ..Self::default() }
    }

    /// Returns a log whose lines are sent to a channel instead of standard error.
    pub fn to_channel(format: LogFormat) -> (Self, Receiver<String>) {
        let (lines, read) = sync_channel(WAITING);
        let (_, done) = sync_channel(1);
        (Self::to(format, LogQueue { lines: Some(lines), done: Mutex::new(done) }), read)
    }

    /// Logs an event as information.
    pub fn info(&self, event: &'static str, fields: LogFields<'_>) {
        self.write(LogLevel::Info, event, fields);
    }

    /// Logs an event as a warning.
    pub fn warn(&self, event: &'static str, fields: LogFields<'_>) {
        self.write(LogLevel::Warn, event, fields);
    }

    /// Logs an event as an error.
    pub fn error(&self, event: &'static str, fields: LogFields<'_>) {
        self.write(LogLevel::Error, event, fields);
    }

    /// Writes a line, unless its event has used up its lines of this second.
    pub fn write(&self, level: LogLevel, event: &'static str, fields: LogFields<'_>) {
        let Some(lines) = self.queue.as_ref().and_then(|queue| queue.lines.as_ref()) else { return };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = events.entry(event).or_default();
        if counts.written >= LINES {
            counts.left_out += 1;
            return;
        }
        let line = line(self.format, SystemTime::now(), level.name(), event, fields);
        match lines.try_send(line) {
            Ok(()) => counts.written += 1,
            Err(_) => counts.left_out += 1,
        }
    }

    /// Returns the hash that stands for a key in a line; it is the same for the lifetime of the process.
    pub fn hash(&self, key: &[u8]) -> String {
        format!("{:08x}", self.secret.hash_one(key) as u32)
    }

    /// Logs a refusal, or a decision that was made in place of the home: the first of each second is written, the
    /// others are counted. It is called for every refused request, so one that is left out costs a single addition.
    pub fn sampled(&self, event: &'static str, decision: &Decision, policy: &str, limit: Option<&Limit>, key: &[u8]) {
        let Some(left_out) = self.sample() else { return };
        let limit = limit.map(Limit::name).unwrap_or_default();
        let key = self.hash(key);
        let fields: LogFields<'_> = &[
            ("policy", &policy),
            ("limit", &limit),
            ("source", &decision.source.name()),
            ("key_hash", &key),
            ("left_out_before", &left_out),
        ];
        self.info(event, fields);
    }

    /// Logs a call of a dialect as [`ServerLog::sampled`] logs a decision under a policy.
    pub fn sampled_call(&self, event: &'static str, source: Source, dialect: &'static str, key: &[u8]) {
        let Some(left_out) = self.sample() else { return };
        let key = self.hash(key);
        let fields: LogFields<'_> =
            &[("dialect", &dialect), ("source", &source.name()), ("key_hash", &key), ("left_out_before", &left_out)];
        self.info(event, fields);
    }

    /// Returns how many samples were left out if one may be written now, and otherwise counts one more.
    fn sample(&self) -> Option<u64> {
        self.queue.as_ref()?;
        if !self.refusal.load(Ordering::Relaxed) || !self.refusal.swap(false, Ordering::Relaxed) {
            self.refusals_left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.refusals_left_out.swap(0, Ordering::Relaxed))
    }

    /// Begins a new second: events may be written again, and the number of lines left out is reported.
    pub fn begin_second(&self) {
        self.refusal.store(true, Ordering::Relaxed);
        let Some(lines) = self.queue.as_ref().and_then(|queue| queue.lines.as_ref()) else { return };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for (event, counts) in events.iter_mut() {
            counts.written = 0;
            if counts.left_out == 0 {
                continue;
            }
            let fields: LogFields<'_> = &[("of", event), ("lines", &counts.left_out)];
            if lines.try_send(line(self.format, SystemTime::now(), "warn", "left_out", fields)).is_ok() {
                counts.left_out = 0;
            }
        }
    }
}

/// Waits until the last lines are written, unless the reader has stopped.
impl Drop for LogQueue {
    fn drop(&mut self) {
        self.lines = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = done.recv_timeout(LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what was written, without the times.
    fn written(lines: &Receiver<String>) -> Vec<String> {
        lines.try_iter().map(|line| line.split_once(' ').unwrap().1.trim_end().to_owned()).collect()
    }

    #[test]
    fn an_event_has_so_many_lines_a_second_and_the_rest_is_counted() {
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        for number in 0..LINES + 7 {
            log.warn("noise", &[("number", &number)]);
        }
        log.info("other", &[]);
        let seen = written(&lines);
        assert_eq!(seen.len() as u64, LINES + 1);
        assert_eq!((seen[0].as_str(), seen[LINES as usize].as_str()), ("warn noise number=0", "info other"));
        log.begin_second();
        log.warn("noise", &[("number", &"again")]);
        assert_eq!(written(&lines), ["warn left_out of=noise lines=7", "warn noise number=again"]);
    }

    fn refused() -> Decision {
        let policy: tollgate_kernel::Policy = "1/s".parse().unwrap();
        let two = tollgate_kernel::Request::cost(tollgate_kernel::Cost::new(2).unwrap());
        tollgate_kernel::KeyState::default().decide(&policy, tollgate_kernel::Timestamp::default(), &two)
    }

    #[test]
    fn one_refusal_a_second_with_a_hash_for_the_key() {
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        let policy: tollgate_kernel::Policy = "5/min".parse().unwrap();
        let limit = &policy.limits()[0];
        for _ in 0..5 {
            log.sampled("refused", &refused(), "login", Some(limit), b"user:42");
        }
        log.begin_second();
        log.sampled("refused", &refused(), "login", Some(limit), b"user:42");
        let seen = written(&lines);
        assert_eq!(seen.len(), 2, "{seen:?}");
        let (first, before) = seen[0].rsplit_once(' ').unwrap();
        assert_eq!(before, "left_out_before=0");
        assert_eq!(seen[1], format!("{first} left_out_before=4"), "one key, one hash");
        let hash = first.strip_prefix("info refused policy=login limit=5/min source=home key_hash=").unwrap();
        assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
        let (other, _read) = ServerLog::to_channel(LogFormat::Text);
        assert_ne!(other.secret.hash_one(b"user:42"), log.secret.hash_one(b"user:42"), "another process");
    }

    #[test]
    fn calls_of_dialects_share_the_one_line_a_second() {
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        for _ in 0..3 {
            log.sampled_call("refused", Source::Home, "fixed_window", b"client:1");
            log.sampled("refused", &refused(), "login", None, b"user:42");
        }
        log.begin_second();
        log.sampled_call("stood_in", Source::Local, "rolling", b"client:1");
        let hash = log.hash(b"client:1");
        let line = |rest: &str| format!("info {rest}").replace("HASH", &hash);
        assert_eq!(
            written(&lines),
            [
                line("refused dialect=fixed_window source=home key_hash=HASH left_out_before=0"),
                line("stood_in dialect=rolling source=local key_hash=HASH left_out_before=5"),
            ]
        );
    }

    #[test]
    fn a_reader_that_stopped_reading_stops_nobody() {
        let (log, lines) = ServerLog::to_channel(LogFormat::Text);
        for _ in 0..WAITING {
            log.begin_second();
            log.info("tick", &[]);
        }
        log.info("tick", &[("left", &"out")]);
        assert_eq!(written(&lines).len(), WAITING);
        log.begin_second();
        assert_eq!(written(&lines), ["warn left_out of=tick lines=1"]);
    }

    #[test]
    fn a_log_that_is_off_says_nothing() {
        let log = ServerLog::new(LogFormat::Off).unwrap();
        log.error("event", &[]);
        log.sampled("refused", &refused(), "a", None, b"c");
        assert!(log.events.lock().unwrap().is_empty());
    }
}
