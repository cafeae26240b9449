//! The thread that sends spans to the collector in batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::span::EndedSpan;
use super::{TraceSettings, TracesError, otlp};
use crate::post::PostTarget;

/// The most spans that wait to be sent.
pub(crate) const WAITING: usize = 2_048;
/// The most spans in one request to the collector.
const MAX: usize = 512;
/// How long a span waits for others to fill a batch.
const GATHER: Duration = Duration::from_secs(1);
/// The interval at which failures are reported.
const TELL: Duration = Duration::from_secs(60);
/// How long the collector may take to respond.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a shutdown waits for the last spans to be sent.
const LAST: Duration = Duration::from_secs(1);

/// The numbers of spans by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that the collector accepted.
    pub exported: u64,
    /// Spans that it did not accept.
    pub failed: u64,
    /// Spans that found the queue full.
    pub dropped: u64,
}

/// A report that the collector does not accept spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFailure {
    /// The reason.
    pub because: String,
    /// How many spans were not accepted since the last report.
    pub spans: u64,
}

/// [`SpanCounts`] while they grow.
#[derive(Debug, Default)]
struct SpanCounters {
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// The queue that spans are put in, and the thread that sends them.
#[derive(Debug)]
pub(crate) struct Exporter {
    spans: Option<Sender<EndedSpan>>,
    counters: Arc<SpanCounters>,
    done: Mutex<mpsc::Receiver<()>>,
}

/// The function that is called when spans are not accepted.
type ExportFailureHook = Box<dyn Fn(&ExportFailure) + Send>;

impl Exporter {
    pub(crate) fn start(settings: &TraceSettings, on_failure: ExportFailureHook) -> Result<Self, TracesError> {
        let collector = collector(&settings.endpoint)?;
        let (spans, waiting) = channel(WAITING);
        let (ended, done) = mpsc::sync_channel::<()>(1);
        let counters = Arc::<SpanCounters>::default();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(TracesError::System)?;
        let settings = settings.clone();
        let sender = SpanSender {
            collector,
            settings,
            counters: Arc::clone(&counters),
            on_failure,
            reported: None,
            unreported: 0,
        };
        let thread = std::thread::Builder::new().name("tollgate-traces".to_owned());
        thread
            .spawn(move || {
                runtime.block_on(sender.run(waiting));
                // Does not wait for a name lookup in progress.
                runtime.shutdown_background();
                drop(ended);
            })
            .map_err(TracesError::System)?;
        Ok(Self { spans: Some(spans), counters, done: Mutex::new(done) })
    }

    /// Puts a span in the queue, or counts it as dropped.
    pub(crate) fn put(&self, span: EndedSpan) {
        if self.spans.as_ref().is_none_or(|spans| spans.try_send(span).is_err()) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> SpanCounts {
        let SpanCounters { exported, failed, dropped } = &*self.counters;
        let [exported, failed, dropped] = [exported, failed, dropped].map(|count| count.load(Ordering::Relaxed));
        SpanCounts { exported, failed, dropped }
    }
}

/// Waits for a moment until the last spans are sent.
impl Drop for Exporter {
    fn drop(&mut self) {
        self.spans = None;
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = done.recv_timeout(LAST);
    }
}

/// Returns the collector that a URL names.
fn collector(url: &str) -> Result<PostTarget, TracesError> {
    let expected = |what: &str| TracesError::Endpoint(what.to_owned());
    let mut target = PostTarget::parse(url).map_err(|_| expected("a URL such as http://127.0.0.1:4318"))?;
    if target.is_tls {
        return Err(expected(
            "http://, as spoken to a collector on the same machine; one beside the server can speak TLS further on",
        ));
    }
    // The path is the protocol's, unless the URL contains another.
    if target.path == "/" {
        "/v1/traces".clone_into(&mut target.path);
    }
    Ok(target)
}

/// What the thread sends with.
struct SpanSender {
    collector: PostTarget,
    settings: TraceSettings,
    counters: Arc<SpanCounters>,
    on_failure: ExportFailureHook,
    /// The time of the last report.
    reported: Option<Instant>,
    unreported: u64,
}

impl SpanSender {
    async fn run(mut self, mut waiting: Receiver<EndedSpan>) {
        while let Some(first) = waiting.recv().await {
            let mut spans = vec![first];
            // When the queue is closed, the batch is sent without waiting.
            let gather = async {
                while spans.len() < MAX
                    && let Some(span) = waiting.recv().await
                {
                    spans.push(span);
                }
            };
            let _ = tokio::time::timeout(GATHER, gather).await;
            self.send(spans).await;
        }
    }

    async fn send(&mut self, spans: Vec<EndedSpan>) {
        let count = spans.len() as u64;
        match self.post(&spans).await {
            Ok(()) => {
                self.counters.exported.fetch_add(count, Ordering::Relaxed);
            }
            Err(because) => {
                self.counters.failed.fetch_add(count, Ordering::Relaxed);
                self.unreported += count;
                if self.reported.is_none_or(|reported| reported.elapsed() >= TELL) {
                    self.reported = Some(Instant::now());
                    let spans = std::mem::take(&mut self.unreported);
                    (self.on_failure)(&ExportFailure { because, spans });
                }
            }
        }
    }

    /// Posts a batch to the collector. Spans that it does not accept are not sent again: the next ones come soon.
    async fn post(&self, spans: &[EndedSpan]) -> Result<(), String> {
        let body = otlp::encode(&self.settings, spans);
        let posted = async {
            let address = (self.collector.host.as_str(), self.collector.port);
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            self.collector.send(stream, "application/x-protobuf", body).await.map_err(|error| error.to_string())
        };
        let status =
            tokio::time::timeout(WITHIN, posted).await.map_err(|_| format!("no answer within {WITHIN:?}"))??;
        if status.is_success() { Ok(()) } else { Err(format!("status {status}")) }
    }
}
