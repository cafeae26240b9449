//! Traces of a Tollgate server for OpenTelemetry collectors, over OTLP/HTTP in protobuf.
//!
//! | file | what it is |
//! |---|---|
//! | `sampler.rs` | which requests are traced: those whose caller traces them, else one of so many |
//! | `parent.rs` | `traceparent`, as the W3C writes it |
//! | `span.rs` | what is told of a request |
//! | `export.rs` | the thread that sends spans to the collector |
//! | `client.rs` | one request to it |
//!
//! OpenTelemetry's own types stay in here: a server begins spans, adds what it knows and hands them in. It
//! never waits. Spans stand in a bounded queue; what finds no room there, or no collector, is counted.

mod client;
mod export;
mod parent;
mod sampler;
mod span;

use std::fmt;

use export::Exporter;
pub use export::{Counts, Trouble};
use parent::Parent;
pub use sampler::Sampler;
pub use span::{Span, Value};

/// Where spans go, and who sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The collector, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// What the service is called there.
    pub service: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Why there are no traces.
#[derive(Debug)]
#[non_exhaustive]
pub enum TracesError {
    /// The collector's URL: what was expected of it.
    Endpoint(String),
    /// The system gave no thread or runtime.
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

/// The traces of a server. Dropped, it sends what waits, if the collector takes it within a second.
#[derive(Debug)]
pub struct Traces {
    sampler: Sampler,
    exporter: Exporter,
}

impl Traces {
    /// Begins to export. `trouble` is told, at most once a minute, that spans are not taken.
    pub fn start(
        settings: &Settings,
        sampler: Sampler,
        trouble: impl Fn(&Trouble) + Send + 'static,
    ) -> Result<Self, TracesError> {
        Ok(Self { sampler, exporter: Exporter::start(settings, Box::new(trouble))? })
    }

    /// Begins the span of a request, if it is traced. `traceparent` is what its caller says of it.
    #[inline]
    pub fn begin(&self, traceparent: Option<&[u8]>) -> Option<Span> {
        // A caller that traces the request wants to see our part of it. What he does not trace is one of ours.
        let parent = traceparent.and_then(Parent::read).filter(|parent| parent.is_sampled);
        (parent.is_some() || self.sampler.sample()).then(|| Span::begin(parent))
    }

    /// Hands a span in, which ends now.
    pub fn end(&self, span: Span) {
        self.exporter.put(span.end());
    }

    /// What became of spans so far.
    pub fn counts(&self) -> Counts {
        self.exporter.counts()
    }
}
