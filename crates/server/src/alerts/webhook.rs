//! The thread that posts alerts. Nobody waits for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_rustls::rustls::ClientConfig;

use super::client::{Failed, Target, post, public_roots};
use super::queue::{Next, Post, Queue};
use crate::log::Log;

/// How long a receiver may take, and how often and after how long it is tried again.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) within: Duration,
    /// The pause before each try after the first.
    pub(super) pauses: Vec<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { within: Duration::from_secs(5), pauses: vec![Duration::from_secs(1), Duration::from_secs(2)] }
    }
}

/// Where posts are handed in.
#[derive(Debug)]
pub(super) struct Poster {
    shared: Arc<Shared>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    target: Mutex<Option<Target>>,
    came: Notify,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    log: Arc<Log>,
}

impl Poster {
    pub(super) fn start(target: Target, log: Arc<Log>) -> io::Result<Self> {
        let tls = public_roots().map_err(|error| io::Error::other(error.to_string()))?;
        Self::start_with(target, log, Pace::default(), tls)
    }

    pub(super) fn start_with(target: Target, log: Arc<Log>, pace: Pace, tls: Arc<ClientConfig>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            target: Mutex::new(Some(target)),
            came: Notify::new(),
            sent: AtomicU64::default(),
            failed: AtomicU64::default(),
            dropped: AtomicU64::default(),
            log,
        });
        let (end, mut ended) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let posting = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("tollgate-webhook".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = posting.run(&pace, &tls) => {}
                    _ = ended.wait_for(|ended| *ended) => {}
                }
            });
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { shared, end, thread: Some(thread) })
    }

    /// Where posts go from now on; those that wait go nowhere if there is no target.
    pub(super) fn aim(&self, target: Option<Target>) {
        let is_none = target.is_none();
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        if is_none {
            let dropped = self.shared.queue().clear();
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Hands a post in.
    pub(super) fn post(&self, post: Post) {
        if self.shared.target().is_some() {
            let dropped = self.shared.queue().push(post);
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.shared.came.notify_one();
        }
    }

    /// Posts that were taken, failed, and were dropped.
    pub(super) fn counts(&self) -> [u64; 3] {
        let Shared { sent, failed, dropped, .. } = &*self.shared;
        [sent, failed, dropped].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Poster {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn target(&self) -> Option<Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(&self, pace: &Pace, tls: &Arc<ClientConfig>) {
        loop {
            let next = self.queue().next(Instant::now());
            match next {
                Next::Post(post) => self.deliver(&post, pace, tls).await,
                Next::Wait(span) => {
                    let _ = tokio::time::timeout(span, self.came.notified()).await;
                }
                Next::Nothing => self.came.notified().await,
            }
        }
    }

    async fn deliver(&self, alert: &Post, pace: &Pace, tls: &Arc<ClientConfig>) {
        let mut pauses = pace.pauses.iter();
        loop {
            let Some(target) = self.target() else { return };
            let because = match post(&target, &alert.body, tls, pace.within).await {
                Ok(()) => {
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(Failed::Later(because)) => match pauses.next() {
                    Some(pause) => {
                        tokio::time::sleep(*pause).await;
                        continue;
                    }
                    None => because,
                },
                Err(Failed::Never(because)) => because,
            };
            self.failed.fetch_add(1, Ordering::Relaxed);
            return self.log.warn("webhook_failed", &[("policy", &alert.policy), ("because", &because)]);
        }
    }
}
