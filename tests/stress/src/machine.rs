//! Memory, files and connections of processes, panics in this one, and single commands to a server.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_kit::{Error, Server};

use crate::Failure;
use crate::report::Report;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts panics of all threads and tasks from now on; they are shown as before.
pub(crate) fn watch_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        shown(info);
    }));
}

/// A panic is a broken promise.
pub(crate) fn judge_panics(report: &mut Report) {
    let panics = PANICS.swap(0, Ordering::Relaxed);
    report.demand(panics == 0, || format!("{panics} panics"));
}

/// The memory that this process has in use, in kilobytes.
pub(crate) fn memory() -> u64 {
    memory_of("self")
}

/// The same of a process by its id.
pub(crate) fn memory_of(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The time that all threads of a process have worked, by the system's ticks of a hundredth of a second.
pub(crate) fn worked(process: u32) -> Duration {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything: the state is the third field, these the 14th and 15th.
    let behind = line.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: u64 = behind.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// The memory that the system has in use for all connections of the machine, in kilobytes.
pub(crate) fn memory_of_connections() -> u64 {
    let table = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let mut words = line.split_whitespace();
    // Counted in pages.
    let pages = words.find(|word| *word == "mem").and_then(|_| words.next()?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4
}

/// How many files a process may have open; nothing if it may have any number, or the system does not tell.
pub(crate) fn open_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The connections to a port of this machine, open or being opened; those that are being closed do not count.
pub(crate) fn connections_to(port: u16) -> usize {
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    let peer = format!(":{port:04X}");
    // Number, local address, remote address, state: 01 is established, 02 is being opened.
    let counts = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        words.next().is_some_and(|remote| remote.ends_with(&peer))
            && words.next().is_some_and(|state| state == "01" || state == "02")
    };
    table.lines().filter(counts).count()
}

/// A value of INFO.
pub(crate) fn info(server: &Server, section: &str, name: &str) -> Result<u64, Failure> {
    let text: String = redis::cmd("INFO").arg(section).query(&mut server.connection()?)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| Failure(format!("INFO {section} names no {name}")))
}

/// No key may live for ever. `scan` shows every key; answers how many there are.
pub(crate) fn judge_lives(
    report: &mut Report,
    scan: impl FnOnce(&mut dyn FnMut(&[u8], i64)) -> Result<usize, Error>,
) -> Result<usize, Failure> {
    let mut immortal = Vec::new();
    let keys = scan(&mut |key, left| {
        if left == -1 {
            immortal.push(String::from_utf8_lossy(key).into_owned());
        }
    })?;
    report.demand(immortal.is_empty(), || {
        format!("{} of {keys} keys without TTL, for example {:?}", immortal.len(), immortal.first())
    });
    Ok(keys)
}
