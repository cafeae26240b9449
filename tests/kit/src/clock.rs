//! A server whose clock can be moved while it runs, by libfaketime.
//!
//! What makes a running server follow: the offset is in a file (`FAKETIME_TIMESTAMP_FILE`), and the file
//! is read at every look at the clock (`FAKETIME_NO_CACHE`; otherwise every ten seconds). The monotonic
//! clock stays real, as it does when somebody sets the clock of a machine: the server's timers go on.
//!
//! glibc is preloaded beside libfaketime so that its `malloc` is used. Debian's Redis is linked to
//! jemalloc, which reads the clock when it starts; libfaketime allocates when it starts; each waits for
//! the other and the server hangs. Memory statistics of such a server mean nothing, and it is slower
//! (some 90,000 commands a second).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, ErrorContext};

const FILE: &str = "clock";

/// The variables that give a server the clock in its folder; any program that reads the clock by its C library
/// follows them.
pub fn variables(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let preload = format!("{}:libc.so.6", library()?.display());
    let file = folder.join(FILE).display().to_string();
    let set = [
        ("LD_PRELOAD", preload.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    Ok(set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

/// Sets how far the clock of the server in this folder is from the real one.
pub fn set(folder: &Path, seconds: i64) -> Result<(), Error> {
    // Renamed into place, since the server may read at any moment and must not see half a number.
    let (new, file) = (folder.join("clock.new"), folder.join(FILE));
    fs::write(&new, format!("{seconds:+}\n")).doing("writing the clock's offset")?;
    fs::rename(new, file).doing("setting the clock's offset")
}

/// Whether a server's clock is so many seconds from ours, to half a second.
pub(crate) fn follows(connection: &mut redis::Connection, seconds: i64) -> Result<bool, Error> {
    let (whole, micros): (i64, i64) = redis::cmd("TIME").query(connection).doing("asking for the time")?;
    let real = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros() as i64;
    Ok((whole * 1_000_000 + micros - real - seconds * 1_000_000).abs() < 500_000)
}

/// Removes what libfaketime leaves in shared memory when its process is killed.
pub fn clean(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

fn library() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os("TOLLGATE_FAKETIME") {
        return Ok(PathBuf::from(path));
    }
    let machine = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    let places = [machine.as_str(), "/usr/lib64/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1"];
    places.iter().map(PathBuf::from).find(|path| path.exists()).ok_or_else(|| {
        Error::Missing(
            "libfaketime moves a server's clock and is not here: apt-get install libfaketime, \
             or set TOLLGATE_FAKETIME to libfaketime.so.1"
                .to_owned(),
        )
    })
}
