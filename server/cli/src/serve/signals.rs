//! Signals: SIGHUP reads files again, SIGTERM and SIGINT stop the server, and a second one ends it at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tollgate_daemon::Server;

use crate::FAILED;

/// The signals that the server handles.
pub(crate) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the signal that stops the server; SIGHUP reads the files again.
    pub(crate) async fn wait_for_stop(&mut self, server: &Server) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    // Not in this runtime, which may serve a store: a long policy file takes a while.
                    let reload = server.reloader();
                    let _ = tokio::task::spawn_blocking(move || reload.run()).await;
                }
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
            }
        }
    }

    /// Waits for the end of the server, or for a second signal, which ends the process at once; returns the exit code.
    pub(crate) async fn wait_for_end(&mut self, ended: JoinHandle<()>) -> u8 {
        tokio::select! {
            ended = ended => if ended.is_ok() { 0 } else { FAILED },
            _ = self.terminate.recv() => at_once(),
            _ = self.interrupt.recv() => at_once(),
        }
    }
}

/// Exits, since returning would wait for the thread in which the server ends.
fn at_once() -> u8 {
    std::process::exit(i32::from(FAILED))
}
