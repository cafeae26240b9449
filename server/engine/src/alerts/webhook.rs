//! The thread that posts alerts. Requests never wait for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_rustls::rustls::ClientConfig;

use super::client::{Failed, Target, post, public_roots};
use super::queue::{Next, Post, Queue};
use tollgate_telemetry::log::Log;

/// How long a receiver may take, and how often and after what pauses a post is retried.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub(super) within: Duration,
    /// The pause before each retry.
    pub(super) pauses: Vec<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { within: Duration::from_secs(5), pauses: vec![Duration::from_secs(1), Duration::from_secs(2)] }
    }
}

/// The queue of posts, and the thread that sends them.
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
            // Does not wait for a name lookup in progress.
            runtime.shutdown_background();
        })?;
        Ok(Self { shared, end, thread: Some(thread) })
    }

    /// Sets the receiver of posts; without one, waiting posts are dropped.
    pub(super) fn aim(&self, target: Option<Target>) {
        let is_none = target.is_none();
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        if is_none {
            let dropped = self.shared.queue().clear();
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Queues a post.
    pub(super) fn post(&self, post: Post) {
        if self.shared.target().is_some() {
            let dropped = self.shared.queue().push(post);
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.shared.came.notify_one();
        }
    }

    /// Returns the numbers of posts that were accepted, failed, and were dropped.
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
