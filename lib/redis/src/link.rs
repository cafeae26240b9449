//! The link to one server: a queue, a task that sends everything waiting in the queue as one pipeline, and one
//! connection that is opened when it is needed.
//!
//! Laws: there is at most one connection at a time, and it is opened at most five times a second, with jitter. A
//! call that was given up before it was sent is not sent. Nothing here is sent twice; batch.rs defines what is sent
//! again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};
use tokio::time::sleep;

use crate::batch;
use crate::breaker::Breaker;
use crate::call::RedisCall;
use crate::connect::{ConnectionFailure, RedisConnection, open};
use crate::settings::{Packaging, RedisSettings};
use crate::stats::{Counters, add};
use crate::url::{RedisDeployment, RedisNode};
use crate::verdict::{CallFailure, ErrorVerdict, verdict};

/// The maximum number of calls in a pipeline.
const MAX_CALLS: usize = 128;
/// The maximum number of pipelines in flight. With one, a call waits for the answers to all calls before it; with
/// many, pipelines are short. Measured by tests/installed/speed.rs on two cores with a fixed window: 64 callers
/// made 50, 50, 61 and 59 thousand decisions a second with 1, 2, 4 and 8 pipelines, 256 callers 53, 67, 79 and 75.
/// The redis crate's multiplexed connection, with one command a message, made 36 with either number of callers.
const MAX_PIPELINES: usize = 4;
/// The maximum number of waiting calls.
const QUEUE: usize = 4096;
/// The minimum time between two attempts to connect, and between two probes.
const PACE: Duration = Duration::from_millis(200);

/// What all links of a store share.
#[derive(Debug)]
pub(crate) struct LinkContext {
    pub(crate) settings: RedisSettings,
    pub(crate) counters: Counters,
    pub(crate) runtime: Handle,
    /// Notified when a server does not answer, or answers that it is not the right one.
    pub(crate) failures: Notify,
}

/// A link to one server, cheap to clone. Its task ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) core: Arc<LinkCore>,
    queue: mpsc::Sender<Job>,
}

/// One call and the channel for its answer.
pub(crate) struct Job {
    pub(crate) call: Arc<RedisCall>,
    /// Whether ASKING is sent first, because the node does not own the slot yet.
    pub(crate) asking: bool,
    pub(crate) reply: oneshot::Sender<Result<Value, CallFailure>>,
}

pub(crate) struct LinkCore {
    pub(crate) node: RedisNode,
    /// The database; 0 for the one that the URL names.
    db: u8,
    pub(crate) context: Arc<LinkContext>,
    pub(crate) breaker: Breaker,
    state: Mutex<ConnectionState>,
    /// Whether calls are made by FCALL. Under [`Packaging::Auto`] errors of the server may turn this off.
    pub(crate) functions: AtomicBool,
    /// How often the library or scripts were delivered. Delivering them requires the lock `loading`.
    pub(crate) loads: AtomicU64,
    pub(crate) loading: Mutex<()>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<RedisConnection>>,
    /// The time before which no new connection is attempted, and the reason of the last failure.
    pause: Option<(Instant, ConnectionFailure)>,
}

impl Link {
    /// Creates a link to `node` without opening a connection.
    pub(crate) fn new(context: &Arc<LinkContext>, node: RedisNode) -> Self {
        Self::in_database(context, node, 0)
    }

    /// Creates a link to a database of `node`; 0 is the one that the URL names.
    pub(crate) fn in_database(context: &Arc<LinkContext>, node: RedisNode, db: u8) -> Self {
        let core = Arc::new(LinkCore {
            node,
            db,
            context: context.clone(),
            breaker: Breaker::default(),
            state: Mutex::default(),
            functions: AtomicBool::new(matches!(context.settings.packaging, Packaging::Function | Packaging::Auto)),
            loads: AtomicU64::new(0),
            loading: Mutex::new(()),
        });
        let (queue, jobs) = mpsc::channel(QUEUE);
        context.runtime.spawn(pump(core.clone(), jobs));
        Self { core, queue }
    }

    /// Puts a call into the queue; waits while the queue is full.
    pub(crate) async fn post(
        &self,
        call: Arc<RedisCall>,
        asking: bool,
    ) -> oneshot::Receiver<Result<Value, CallFailure>> {
        let (reply, answer) = oneshot::channel();
        let job = Job { call, asking, reply };
        if let Err(mpsc::error::TrySendError::Full(job)) = self.queue.try_send(job) {
            // This fails only if the task has ended. Then the reply channel is closed, which the caller notices.
            let _ = self.queue.send(job).await;
        }
        answer
    }

    /// Counts a failure of the server. The failure that opens the breaker starts the probe.
    pub(crate) fn failed(&self) {
        self.core.context.failures.notify_one();
        if self.core.breaker.failure(Instant::now()) {
            self.core.context.runtime.spawn(probe(Arc::downgrade(&self.core)));
        }
    }
}

async fn pump(core: Arc<LinkCore>, mut jobs: mpsc::Receiver<Job>) {
    let window = Arc::new(Semaphore::new(MAX_PIPELINES));
    while let Some(first) = jobs.recv().await {
        let Ok(permit) = window.clone().acquire_owned().await else { return };
        let mut batch = Vec::with_capacity(jobs.len().min(MAX_CALLS - 1) + 1);
        batch.push(first);
        while batch.len() < MAX_CALLS {
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

/// Probes the server repeatedly until it answers.
async fn probe(core: Weak<LinkCore>) {
    // The first probe comes early, since most failures are short.
    let mut pause = jittered(PACE / 10);
    loop {
        sleep(pause).await;
        let Some(core) = core.upgrade() else { return };
        // A server that rejects the login is reachable; calls get its error message.
        if matches!(core.ping().await, Ok(()) | Err(ConnectionFailure::Refused(_))) {
            core.breaker.close();
            return;
        }
        core.context.failures.notify_one();
        pause = jittered(PACE);
    }
}

impl LinkCore {
    /// Returns the connection; opens it if there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<RedisConnection>, ConnectionFailure> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        match &state.pause {
            Some((until, why)) if Instant::now() < *until => return Err(why.clone()),
            _ => {}
        }
        let until = Instant::now() + jittered(PACE);
        state.connection = None;
        add(&self.context.counters.connections, 1);
        match open(&self.context.settings, &self.node, self.db).await {
            Ok(connection) => {
                state.connection = Some(connection.clone());
                let why = "the connection was lost just after it was opened";
                state.pause = Some((until, ConnectionFailure::Away(why.into())));
                Ok(connection)
            }
            Err(why) => {
                state.pause = Some((until, why.clone()));
                Err(why)
            }
        }
    }

    /// Drops a connection that is lost, does not answer, or leads to the wrong server.
    pub(crate) async fn discard(&self, connection: &Arc<RedisConnection>) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
        }
    }

    /// Drops the current connection because it leads to a server that is no longer the master. A connection that is
    /// just being opened is kept.
    pub(crate) fn leave(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.connection = None;
        }
    }

    /// Sends a pipeline that may safely be sent any number of times.
    pub(crate) async fn query(&self, pipeline: &Pipeline) -> Result<Vec<Value>, ConnectionFailure> {
        let connection = self.connection().await?;
        let answer = connection.send(pipeline, self.context.settings.response).await;
        if answer.is_err() {
            self.discard(&connection).await;
        }
        Ok(answer?)
    }

    /// Checks that the server answers, as a master, and that its cluster works. Commands that the server does not
    /// permit us are not required to succeed. A Tollgate server has no role.
    pub(crate) async fn ping(&self) -> Result<(), ConnectionFailure> {
        let mut pipeline = Pipeline::with_capacity(3);
        pipeline.cmd("PING");
        if !self.context.settings.url.tollgate {
            pipeline.cmd("ROLE");
        }
        if self.context.settings.url.deployment == RedisDeployment::Cluster {
            pipeline.cmd("CLUSTER").arg("INFO");
        }
        for answer in self.query(&pipeline).await? {
            let why = match answer {
                Value::ServerError(error)
                    if matches!(verdict(&error), ErrorVerdict::Wait | ErrorVerdict::Elsewhere) =>
                {
                    error.to_string()
                }
                Value::Array(role) if is_replica(&role) => "the server is a replica".into(),
                Value::BulkString(info) if contains(&info, b"cluster_state:fail") => "the cluster is down".into(),
                _ => continue,
            };
            self.leave();
            return Err(ConnectionFailure::Away(why));
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

/// Returns a random time between three quarters of `span` and `span`, so that clients do not act in step.
pub(crate) fn jittered(span: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0_u8) % 1024;
    span - span * random as u32 / 4096
}
