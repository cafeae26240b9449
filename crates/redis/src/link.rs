//! The way to one server: a queue, a task that takes whatever waits in it and sends it as one pipeline, and
//! one connection that is opened when it is needed.
//!
//! Laws: at most one connection at a time, opened at most five times a second, with jitter; a call that was
//! given up before it was sent is not sent; nothing here is sent twice (batch.rs says what is sent again).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};
use tokio::time::sleep;

use crate::batch;
use crate::breaker::Breaker;
use crate::call::Call;
use crate::connect::{Closed, Live, open};
use crate::settings::{Packaging, Settings};
use crate::stats::{Counters, add};
use crate::url::{Form, Node};
use crate::verdict::{Trouble, Verdict, verdict};

/// The most calls of a pipeline.
const MOST_CALLS: usize = 128;
/// The most pipelines under way. With one, a call waits for the answers to all before it; with many,
/// pipelines are short. Measured by tests/speed.rs on two cores with a fixed window: 64 callers made 50, 50,
/// 61 and 59 thousand decisions a second with 1, 2, 4 and 8 pipelines, 256 callers 53, 67, 79 and 75; the
/// redis crate's multiplexed connection, one command a message, 36 with either.
const MOST_PIPELINES: usize = 4;
/// The most calls that wait.
const QUEUE: usize = 4096;
/// The least time between two attempts to connect, and between two probes.
const PACE: Duration = Duration::from_millis(200);

/// What all links of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    pub(crate) runtime: Handle,
    /// Told when a server does not answer, or answers that it is not the right one.
    pub(crate) trouble: Notify,
}

/// A link, cheap to clone. Its task ends with the last clone.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) core: Arc<Core>,
    queue: mpsc::Sender<Job>,
}

/// One call and who waits for its answer.
pub(crate) struct Job {
    pub(crate) call: Arc<Call>,
    /// Whether the node has to be told that we know it does not own the slot yet.
    pub(crate) asking: bool,
    pub(crate) reply: oneshot::Sender<Result<Value, Trouble>>,
}

pub(crate) struct Core {
    pub(crate) node: Node,
    pub(crate) shared: Arc<Shared>,
    pub(crate) breaker: Breaker,
    way: Mutex<Way>,
    /// Whether calls are made by FCALL; under [`Packaging::Auto`] the server's errors may turn it off.
    pub(crate) functions: AtomicBool,
    /// How often the library or scripts were brought; who holds the lock may bring them.
    pub(crate) loads: AtomicU64,
    pub(crate) loading: Mutex<()>,
}

#[derive(Default)]
struct Way {
    live: Option<Arc<Live>>,
    /// Not to be tried again before, and why it failed.
    pause: Option<(Instant, Closed)>,
}

impl Link {
    /// A link to `node`. Nothing is opened yet.
    pub(crate) fn new(shared: &Arc<Shared>, node: Node) -> Self {
        let core = Arc::new(Core {
            node,
            shared: shared.clone(),
            breaker: Breaker::default(),
            way: Mutex::default(),
            functions: AtomicBool::new(matches!(shared.settings.packaging, Packaging::Function | Packaging::Auto)),
            loads: AtomicU64::new(0),
            loading: Mutex::new(()),
        });
        let (queue, jobs) = mpsc::channel(QUEUE);
        shared.runtime.spawn(pump(core.clone(), jobs));
        Self { core, queue }
    }

    /// Puts a call into the queue, waiting for room if there is none.
    pub(crate) async fn post(&self, call: Arc<Call>, asking: bool) -> oneshot::Receiver<Result<Value, Trouble>> {
        let (reply, answer) = oneshot::channel();
        let job = Job { call, asking, reply };
        if let Err(mpsc::error::TrySendError::Full(job)) = self.queue.try_send(job) {
            // It fails only if the task has ended; then the answer says so, by never coming.
            let _ = self.queue.send(job).await;
        }
        answer
    }

    /// Counts a failure of the server; the one that opens the breaker starts the probe.
    pub(crate) fn failed(&self) {
        self.core.shared.trouble.notify_one();
        if self.core.breaker.failure(Instant::now()) {
            self.core.shared.runtime.spawn(probe(Arc::downgrade(&self.core)));
        }
    }
}

async fn pump(core: Arc<Core>, mut jobs: mpsc::Receiver<Job>) {
    let window = Arc::new(Semaphore::new(MOST_PIPELINES));
    while let Some(first) = jobs.recv().await {
        let Ok(permit) = window.clone().acquire_owned().await else { return };
        let mut batch = Vec::with_capacity(jobs.len().min(MOST_CALLS - 1) + 1);
        batch.push(first);
        while batch.len() < MOST_CALLS {
            let Ok(job) = jobs.try_recv() else { break };
            batch.push(job);
        }
        let core = core.clone();
        tokio::spawn(async move {
            batch::run(&core, batch).await;
            drop(permit);
        });
    }
}

/// Asks the server now and then until it answers.
async fn probe(core: Weak<Core>) {
    // The first time at once: most failures are short.
    let mut pause = jittered(PACE / 10);
    loop {
        sleep(pause).await;
        let Some(core) = core.upgrade() else { return };
        // A server that does not let us in is there, and says so to those who ask.
        if matches!(core.ping().await, Ok(()) | Err(Closed::Refused(_))) {
            core.breaker.close();
            return;
        }
        core.shared.trouble.notify_one();
        pause = jittered(PACE);
    }
}

impl Core {
    /// The connection, opened if there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<Live>, Closed> {
        let mut way = self.way.lock().await;
        if let Some(live) = way.live.as_ref().filter(|live| live.is_open()) {
            return Ok(live.clone());
        }
        match &way.pause {
            Some((until, why)) if Instant::now() < *until => return Err(why.clone()),
            _ => {}
        }
        let until = Instant::now() + jittered(PACE);
        way.live = None;
        add(&self.shared.counters.connections, 1);
        match open(&self.shared.settings, &self.node).await {
            Ok(live) => {
                way.live = Some(live.clone());
                let why = "the connection was lost just after it was opened";
                way.pause = Some((until, Closed::Away(why.into())));
                Ok(live)
            }
            Err(why) => {
                way.pause = Some((until, why.clone()));
                Err(why)
            }
        }
    }

    /// Gives up a connection that is lost, silent, or leads to the wrong server.
    pub(crate) async fn discard(&self, live: &Arc<Live>) {
        let mut way = self.way.lock().await;
        if way.live.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            way.live = None;
        }
    }

    /// Gives up the connection, whichever it is: it leads to a server that is no master any more. If one is
    /// being opened right now, that one is looked at first.
    pub(crate) fn leave(&self) {
        if let Ok(mut way) = self.way.try_lock() {
            way.live = None;
        }
    }

    /// Sends a pipeline that may be sent any number of times.
    pub(crate) async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Closed> {
        let live = self.connection().await?;
        let answer = live.send(pipeline, self.shared.settings.response).await;
        if answer.is_err() {
            self.discard(&live).await;
        }
        Ok(answer?)
    }

    /// Whether the server answers, as a master, in a cluster that works. What it does not let us ask, it
    /// need not answer. A Tollgate server has no role.
    pub(crate) async fn ping(&self) -> Result<(), Closed> {
        let mut pipeline = Pipeline::with_capacity(3);
        pipeline.cmd("PING");
        if !self.shared.settings.place.tollgate {
            pipeline.cmd("ROLE");
        }
        if self.shared.settings.place.form == Form::Cluster {
            pipeline.cmd("CLUSTER").arg("INFO");
        }
        for answer in self.ask(&pipeline).await? {
            let why = match answer {
                Value::ServerError(error) if matches!(verdict(&error), Verdict::Wait | Verdict::Elsewhere) => {
                    error.to_string()
                }
                Value::Array(role) if is_replica(&role) => "the server is a replica".into(),
                Value::BulkString(info) if contains(&info, b"cluster_state:fail") => "the cluster is down".into(),
                _ => continue,
            };
            self.leave();
            return Err(Closed::Away(why));
        }
        Ok(())
    }

    pub(crate) fn calls_functions(&self) -> bool {
        self.functions.load(Ordering::Relaxed)
    }
}

fn is_replica(role: &[Value]) -> bool {
    matches!(role.first(), Some(Value::BulkString(word)) if word == b"slave")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Between three quarters of `span` and all of it, so that clients do not come in step.
pub(crate) fn jittered(span: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0_u8) % 1024;
    span - span * random as u32 / 4096
}
