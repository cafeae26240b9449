//! The thread that posts alerts. Requests never wait for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_rustls::rustls::ClientConfig;

use super::client::{PostError, post, public_roots};
use super::queue::{PostQueue, PostQueueStep, WebhookPost};
use tollgate_telemetry::log::ServerLog;
use tollgate_telemetry::post::PostTarget;

/// How long a receiver may take, and how often and after what pauses a post is retried.
#[derive(Clone, Debug)]
pub(super) struct PostTiming {
    pub(super) within: Duration,
    /// The pause before each retry.
    pub(super) pauses: Vec<Duration>,
}

impl Default for PostTiming {
    fn default() -> Self {
        Self { within: Duration::from_secs(5), pauses: vec![Duration::from_secs(1), Duration::from_secs(2)] }
    }
}

/// The queue of posts, and the thread that sends them.
#[derive(Debug)]
pub(super) struct Poster {
    shared: Arc<PosterState>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct PosterState {
    queue: Mutex<PostQueue>,
    target: Mutex<Option<PostTarget>>,
    wake: Notify,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    log: Arc<ServerLog>,
}

impl Poster {
    pub(super) fn start(target: PostTarget, log: Arc<ServerLog>) -> io::Result<Self> {
        let tls = public_roots().map_err(|error| io::Error::other(error.to_string()))?;
        Self::start_with(target, log, PostTiming::default(), tls)
    }

    pub(super) fn start_with(
        target: PostTarget,
        log: Arc<ServerLog>,
        timing: PostTiming,
        tls: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let shared = Arc::new(PosterState {
            queue: Mutex::default(),
            target: Mutex::new(Some(target)),
            wake: Notify::new(),
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
                    () = posting.run(&timing, &tls) => {}
                    _ = ended.wait_for(|ended| *ended) => {}
                }
            });
            // Does not wait for a name lookup in progress.
            runtime.shutdown_background();
        })?;
        Ok(Self { shared, end, thread: Some(thread) })
    }

    /// Sets the receiver of posts; without one, waiting posts are dropped.
    pub(super) fn set_target(&self, target: Option<PostTarget>) {
        let is_none = target.is_none();
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        if is_none {
            let dropped = self.shared.queue().clear();
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Queues a post.
    pub(super) fn post(&self, post: WebhookPost) {
        if self.shared.target().is_some() {
            let dropped = self.shared.queue().push(post);
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
            self.shared.wake.notify_one();
        }
    }

    /// Returns the numbers of posts that were accepted, failed, and were dropped.
    pub(super) fn counts(&self) -> [u64; 3] {
        let PosterState { sent, failed, dropped, .. } = &*self.shared;
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

impl PosterState {
    fn queue(&self) -> std::sync::MutexGuard<'_, PostQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn target(&self) -> Option<PostTarget> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(&self, timing: &PostTiming, tls: &Arc<ClientConfig>) {
        loop {
            let next = self.queue().next(Instant::now());
            match next {
                PostQueueStep::Post(post) => self.deliver(&post, timing, tls).await,
                PostQueueStep::Wait(span) => {
                    let _ = tokio::time::timeout(span, self.wake.notified()).await;
                }
                PostQueueStep::Nothing => self.wake.notified().await,
            }
        }
    }

    async fn deliver(&self, alert: &WebhookPost, timing: &PostTiming, tls: &Arc<ClientConfig>) {
        let mut pauses = timing.pauses.iter();
        loop {
            let Some(target) = self.target() else { return };
            let because = match post(&target, &alert.body, tls, timing.within).await {
                Ok(()) => {
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(PostError::Later(because)) => match pauses.next() {
                    Some(pause) => {
                        tokio::time::sleep(*pause).await;
                        continue;
                    }
                    None => because,
                },
                Err(PostError::Never(because)) => because,
            };
            self.failed.fetch_add(1, Ordering::Relaxed);
            return self.log.warn("webhook_failed", &[("policy", &alert.policy), ("because", &because)]);
        }
    }
}
