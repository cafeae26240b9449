//! The span of a request: its name, its start and end, and its outcome.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Instant, SystemTime};

use super::parent::{SpanId, TraceId, TraceParent};

/// The most attributes of a span.
const MAX_ATTRIBUTES: usize = 32;

/// The span of a request in progress.
#[derive(Debug)]
pub struct RequestSpan {
    name: Cow<'static, str>,
    parent: Option<TraceParent>,
    started: SystemTime,
    began: Instant,
    attributes: Vec<(&'static str, AttributeValue)>,
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
            self.attributes.push((name, value.into()));
        }
    }

    /// Marks the request as failed, with the reason.
    pub fn fail(&mut self, because: impl Into<Cow<'static, str>>) {
        self.failed = Some(because.into());
    }

    pub(crate) fn end(self) -> EndedSpan {
        EndedSpan {
            trace: self.parent.map_or_else(random_id, |parent| parent.trace),
            span: random_id(),
            parent: self.parent.map(|parent| parent.span),
            name: self.name,
            started: self.started,
            // A clock that is set meanwhile does not change the length of a span.
            ended: self.started + self.began.elapsed(),
            attributes: self.attributes,
            failed: self.failed,
        }
    }
}

/// The span of a request that has ended.
#[derive(Debug)]
pub(crate) struct EndedSpan {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    /// The span of the caller.
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) started: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
    /// The reason why the request failed, if it did.
    pub(crate) failed: Option<Cow<'static, str>>,
}

/// Returns a random identifier, which is not all zeros: that would be none.
fn random_id<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    while id == [0; N] {
        // Identifiers need to be distinct, not secret: without a source of randomness the keys of a new hasher do.
        if getrandom::fill(&mut id).is_err() {
            id.chunks_mut(8).for_each(|part| {
                let word = RandomState::new().build_hasher().finish().to_ne_bytes();
                part.copy_from_slice(&word[..part.len()]);
            });
        }
    }
    id
}
