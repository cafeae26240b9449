//! Traces of a Tollgate server for OpenTelemetry collectors, over OTLP/HTTP in protobuf.
//!
//! | file | what it is |
//! |---|---|
//! | `sampler.rs` | which requests are traced: those whose caller traces them, otherwise one out of N |
//! | `parent.rs` | `traceparent`, as the W3C defines it |
//! | `span.rs` | the span of a request |
//! | `export.rs` | the thread that sends spans to the collector |
//! | `otlp.rs` | a batch of spans as a collector reads it |
//! | `protobuf.rs` | the wire format of its messages |
//!
//! A server begins spans, sets their attributes and ends them. It never waits. Spans wait in a bounded queue; those that find it full, or that the collector does not accept, are
//! counted.

mod export;
mod otlp;
mod parent;
mod protobuf;
mod sampler;
mod span;

use std::fmt;

use export::Exporter;
pub use export::{ExportFailure, SpanCounts};
use parent::TraceParent;
pub use sampler::Sampler;
pub use span::{AttributeValue, RequestSpan};

/// The collector that spans are sent to, and the service that sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// The name of the service.
    pub service: &'static str,
    /// The version of the service.
    pub version: &'static str,
}

/// The reason why traces cannot be exported.
#[derive(Debug)]
#[non_exhaustive]
pub enum TracesError {
    /// The collector's URL is invalid: what was expected.
    Endpoint(String),
    /// The system could not start a thread or a runtime.
    System(std::io::Error),
}

impl fmt::Display for TracesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(expected) => write!(f, "collector: expected {expected}"),
            Self::System(error) => write!(f, "cannot export traces: {error}"),
        }
    }
}

impl std::error::Error for TracesError {}

/// The traces of a server. When dropped, it waits up to a second for the remaining spans to be sent.
#[derive(Debug)]
pub struct Traces {
    sampler: Sampler,
    exporter: Exporter,
}

impl Traces {
    /// Starts exporting. `on_failure` is called, at most once a minute, when spans are not accepted.
    pub fn start(
        settings: &TraceSettings,
        sampler: Sampler,
        on_failure: impl Fn(&ExportFailure) + Send + 'static,
    ) -> Result<Self, TracesError> {
        Ok(Self { sampler, exporter: Exporter::start(settings, Box::new(on_failure))? })
    }

    /// Begins the span of a request, if it is traced. `traceparent` is the header that its caller sent.
    #[inline]
    pub fn begin(&self, traceparent: Option<&[u8]>) -> Option<RequestSpan> {
        // A caller that traces the request wants to see our part of it. Other requests are sampled by our own rate.
        let parent = traceparent.and_then(TraceParent::parse).filter(|parent| parent.is_sampled);
        (parent.is_some() || self.sampler.sample()).then(|| RequestSpan::begin(parent))
    }

    /// Ends a span now and queues it for export.
    pub fn end(&self, span: RequestSpan) {
        self.exporter.put(span.end());
    }

    /// Returns the numbers of spans by outcome so far.
    pub fn counts(&self) -> SpanCounts {
        self.exporter.counts()
    }
}
