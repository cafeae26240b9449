//! The span of a request: its name, its start and end, and its outcome.

use std::borrow::Cow;
use std::time::{Instant, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData};

use super::parent::TraceParent;

/// The most attributes of a span.
const MAX_ATTRIBUTES: usize = 32;

/// The span of a request in progress.
#[derive(Debug)]
pub struct RequestSpan {
    name: Cow<'static, str>,
    parent: Option<TraceParent>,
    started: SystemTime,
    began: Instant,
    attributes: Vec<KeyValue>,
    failed: Option<Cow<'static, str>>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A truth value.
    Truth(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for AttributeValue {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl RequestSpan {
    pub(crate) fn begin(parent: Option<TraceParent>) -> Self {
        Self {
            name: Cow::Borrowed("request"),
            parent,
            started: SystemTime::now(),
            began: Instant::now(),
            attributes: Vec::new(),
            failed: None,
        }
    }

    /// Sets its name.
    pub fn name(&mut self, name: impl Into<Cow<'static, str>>) {
        self.name = name.into();
    }

    /// Sets an attribute, unless the span already has the most it may have.
    pub fn set(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        if self.attributes.len() < MAX_ATTRIBUTES {
            self.attributes.push(match value.into() {
                AttributeValue::Text(text) => KeyValue::new(name, text),
                AttributeValue::Number(number) => KeyValue::new(name, number),
                AttributeValue::Truth(truth) => KeyValue::new(name, truth),
            });
        }
    }

    /// Marks the request as failed, with the reason.
    pub fn fail(&mut self, because: impl Into<Cow<'static, str>>) {
        self.failed = Some(because.into());
    }

    pub(crate) fn end(self) -> SpanData {
        let ids = RandomIdGenerator::default();
        let trace = self.parent.map_or_else(|| ids.new_trace_id(), |parent| parent.trace);
        SpanData {
            span_context: SpanContext::new(trace, ids.new_span_id(), TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: self.parent.map_or(SpanId::INVALID, |parent| parent.span),
            parent_span_is_remote: self.parent.is_some(),
            span_kind: SpanKind::Server,
            name: self.name,
            start_time: self.started,
            // A clock that is set meanwhile does not change the length of a span.
            end_time: self.started + self.began.elapsed(),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: self.failed.map_or(Status::Unset, Status::error),
            instrumentation_scope: InstrumentationScope::builder("tollgate").build(),
        }
    }
}
