//! Everything that is read again on request.

use std::sync::Arc;

use super::PolicyFile;
use crate::listeners::Tls;
use crate::shared::Shared;
use tollgate_telemetry::audit::{Event, Outcome, What};

/// Reads files again, on any thread: a long policy file takes a while, and callers need not wait for it.
#[derive(Clone)]
pub struct Reload {
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
    policies: Option<Arc<PolicyFile>>,
}

impl Reload {
    pub(crate) fn new(shared: Arc<Shared>, tls: Option<Arc<Tls>>, policies: Option<Arc<PolicyFile>>) -> Self {
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
            told(&self.shared, What::Tokens, &read, &detail);
        }
        if let Some(tls) = &self.tls {
            told(&self.shared, What::Certificate, &tls.reload(), "");
        }
        if let Some(policies) = &self.policies {
            policies.reload();
        }
    }
}

/// Reports to the audit log that a file was read again.
pub(crate) fn told<T, E: std::fmt::Display>(shared: &Shared, what: What, read: &Result<T, E>, detail: &str) {
    let because = read.as_ref().err().map(ToString::to_string);
    let outcome = because.as_deref().map_or(Outcome::Done, Outcome::Failed);
    shared.engine.audit().tell(&Event { outcome, detail, ..Event::of_server(what, Outcome::Done) });
}
