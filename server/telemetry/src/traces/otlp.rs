//! A batch of spans as collectors read it: an `ExportTraceServiceRequest` of OpenTelemetry's protocol, version 1.

use std::time::{SystemTime, UNIX_EPOCH};

use super::TraceSettings;
use super::protobuf::MessageBuffer;
use super::span::{AttributeValue, EndedSpan};

/// The kind of a span that handles a request of a remote caller.
const KIND_SERVER: u64 = 2;
/// The status of a span that failed.
const STATUS_ERROR: u64 = 2;
/// The flags of a span: it is sampled, and whether its parent is remote is known, and it is.
const FLAG_SAMPLED: u32 = 1;
const FLAG_PARENT_KNOWN: u32 = 1 << 8;
const FLAG_PARENT_REMOTE: u32 = 1 << 9;

/// Encodes a batch of spans of one service.
pub(crate) fn encode(settings: &TraceSettings, spans: &[EndedSpan]) -> Vec<u8> {
    let mut request = MessageBuffer::default();
    // resource_spans
    request.message(1, |resource_spans| {
        // resource
        resource_spans.message(1, |resource| {
            attribute(resource, 1, "service.name", &settings.service.into());
            attribute(resource, 1, "service.version", &settings.version.into());
        });
        // scope_spans
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| scope.bytes(1, b"tollgate"));
            for each in spans {
                scope_spans.message(2, |span| write_span(span, each));
            }
        });
    });
    request.into_bytes()
}

fn write_span(span: &mut MessageBuffer, ended: &EndedSpan) {
    let mut flags = FLAG_SAMPLED | FLAG_PARENT_KNOWN;
    span.bytes(1, &ended.trace);
    span.bytes(2, &ended.span);
    if let Some(parent) = &ended.parent {
        span.bytes(4, parent);
        flags |= FLAG_PARENT_REMOTE;
    }
    span.bytes(5, ended.name.as_bytes());
    span.varint(6, KIND_SERVER);
    span.fixed64(7, nanos(ended.started));
    span.fixed64(8, nanos(ended.ended));
    for (name, value) in &ended.attributes {
        attribute(span, 9, name, value);
    }
    if let Some(because) = &ended.failed {
        span.message(15, |status| {
            status.bytes(2, because.as_bytes());
            status.varint(3, STATUS_ERROR);
        });
    }
    span.fixed32(16, flags);
}

fn attribute(to: &mut MessageBuffer, field: u32, name: &str, value: &AttributeValue) {
    to.message(field, |attribute| {
        attribute.bytes(1, name.as_bytes());
        attribute.message(2, |any| match value {
            AttributeValue::Text(text) => any.bytes(1, text.as_bytes()),
            AttributeValue::Truth(truth) => any.varint(2, u64::from(*truth)),
            AttributeValue::Number(number) => any.varint(3, number.cast_unsigned()),
        });
    });
}

/// Returns the nanoseconds since 1970; 0 for a time before.
fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
