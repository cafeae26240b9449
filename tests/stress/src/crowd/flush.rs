//! The third party: somebody who flushes scripts and functions, over and over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{Connection, RedisError};

use crate::Failure;

pub(super) struct Flusher {
    shared: Arc<(AtomicBool, AtomicU64)>,
    thread: JoinHandle<Result<(), RedisError>>,
}

impl Flusher {
    pub(super) fn start(mut connection: Connection, every: Duration) -> Result<Self, Failure> {
        // A busy server may be slow to answer; it is not asked for less.
        connection.set_read_timeout(None)?;
        let shared = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
        let told = shared.clone();
        let thread = std::thread::spawn(move || {
            while !told.0.load(Ordering::Relaxed) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection)?;
                redis::cmd("FUNCTION").arg("FLUSH").exec(&mut connection)?;
                told.1.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(every);
            }
            Ok(())
        });
        Ok(Self { shared, thread })
    }

    /// Flushes so far.
    pub(super) fn count(&self) -> u64 {
        self.shared.1.load(Ordering::Relaxed)
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        self.shared.0.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(done) => Ok(done?),
            Err(_) => Err(Failure("the third party panicked".to_owned())),
        }
    }
}
