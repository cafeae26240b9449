//! Everything that is read again on request.

use std::sync::Arc;

use super::PolicyFile;
use crate::listeners::Tls;
use crate::shared::ServerState;
use tollgate_telemetry::audit::{AuditAction, AuditEvent, AuditOutcome};

/// Reads files again, on any thread: a long policy file takes a while, and callers need not wait for it.
#[derive(Clone)]
pub struct Reloader {
    shared: Arc<ServerState>,
    tls: Option<Arc<Tls>>,
    policies: Option<Arc<PolicyFile>>,
}

impl Reloader {
    pub(crate) fn new(shared: Arc<ServerState>, tls: Option<Arc<Tls>>, policies: Option<Arc<PolicyFile>>) -> Self {
        Self { shared, tls, policies }
    }

    pub(crate) fn policies(&self) -> Option<&Arc<PolicyFile>> {
        self.policies.as_ref()
    }

    /// Reads tokens, certificate, key and policy file again, and reopens the file of the audit log. Errors are logged,
    /// and what was in use stays in use.
    pub fn run(&self) {
        self.shared.engine.audit().reopen();
        if let Some(read) = self.shared.access.reload() {
            let detail = read.as_ref().map(|count| format!("{count} tokens")).unwrap_or_default();
            audit_reload(&self.shared, AuditAction::Tokens, &read, &detail);
        }
        if let Some(tls) = &self.tls {
            audit_reload(&self.shared, AuditAction::Certificate, &tls.reload(), "");
        }
        if let Some(policies) = &self.policies {
            policies.reload();
        }
    }
}

/// Reports to the audit log that a file was read again.
pub(crate) fn audit_reload<T, E: std::fmt::Display>(
    shared: &ServerState,
    what: AuditAction,
    read: &Result<T, E>,
    detail: &str,
) {
    let because = read.as_ref().err().map(ToString::to_string);
    let outcome = because.as_deref().map_or(AuditOutcome::Done, AuditOutcome::Failed);
    shared.engine.audit().record(&AuditEvent { outcome, detail, ..AuditEvent::of_server(what, AuditOutcome::Done) });
}
