//! What operators see of a call of a dialect: its counters, a line in the log if it was refused, and its span. Every call is
//! observed here, by whatever command it came and wherever it is decided.

use std::time::Instant;

use tollgate_dialects::ReplyValue;
use tollgate_kernel::Source;
use tollgate_telemetry::audit::AuditOutcome;
use tollgate_telemetry::traces::RequestSpan;

use super::dialects::DialectRequest;
use crate::shared::ServerState;
use tollgate_keyspace::{DialectCall, Fault};

/// A call that is being decided.
pub(super) struct DialectWatch<'a> {
    shared: &'a ServerState,
    request: &'a DialectRequest,
    call: &'a DialectCall,
    began: Instant,
    span: Option<RequestSpan>,
}

impl<'a> DialectWatch<'a> {
    pub(super) fn begin(shared: &'a ServerState, request: &'a DialectRequest) -> Self {
        Self { shared, request, call: &request.call, began: Instant::now(), span: shared.engine.trace(|| None) }
    }

    /// Records the outcome: the first two values of the reply, and who decided; or the error.
    pub(super) fn end(mut self, outcome: Result<([ReplyValue<'_>; 2], Source), &Fault>) {
        let (metrics, dialect) = (&self.shared.metrics.dialects, self.call.dialect);
        metrics.took(dialect, self.began.elapsed());
        self.request.audit(
            self.shared,
            outcome.as_ref().map_or_else(|fault| AuditOutcome::Failed(&fault.text), |_| AuditOutcome::Done),
        );
        // A reset and a call that only looks are not decisions.
        let decided = outcome.map(|(reply, source)| {
            let asks = self.call.may_charge();
            asks.then(|| ((dialect.allows)(reply), source))
        });
        if let Ok(Some((allowed, source))) = decided {
            metrics.decided(dialect, allowed, source);
            let event = if !allowed { Some("refused") } else { (source != Source::Home).then_some("stood_in") };
            event.inspect(|event| self.shared.log.sampled_call(event, source, dialect.name, self.key()));
        }
        if let Some(span) = self.span.take() {
            self.end_span(span, decided);
        }
    }

    fn key(&self) -> &'a [u8] {
        self.call.keys.first().map(Vec::as_slice).unwrap_or_default()
    }

    #[cold]
    fn end_span(&self, mut span: RequestSpan, decided: Result<Option<(bool, Source)>, &Fault>) {
        span.name(self.call.dialect.name);
        span.set("tollgate.dialect", self.call.dialect.name);
        span.set("tollgate.key_hash", self.shared.engine.key_hash(self.key()).as_str());
        match decided {
            Ok(Some((allowed, source))) => {
                span.set("tollgate.allowed", allowed);
                span.set("tollgate.source", source.name());
            }
            Ok(None) => {}
            Err(fault) => span.fail(fault.code.word()),
        }
        self.shared.engine.end_trace(span);
    }
}
