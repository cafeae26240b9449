//! Somebody who listens on a port and resets every connection: closed with bytes unread, a socket answers
//! with RST.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use crate::Failure;

/// How long a client may take to send something.
const FIRST_BYTE: Duration = Duration::from_millis(50);

pub(super) struct Resetter {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resetter {
    pub(super) fn start(at: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => {
                        let _ = client.set_nonblocking(false);
                        let _ = client.set_read_timeout(Some(FIRST_BYTE));
                        // Seen, not read.
                        let _ = client.peek(&mut [0]);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
                    Err(_) => return,
                }
            }
        });
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for Resetter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
