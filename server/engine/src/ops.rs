//! The parts of a server for its operators, besides metrics and log.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_config::Config;
use tollgate_kernel::{Policy, Timestamp};
use tollgate_telemetry::audit::{Audit, AuditFile};
use tollgate_telemetry::log::ServerLog;
use tollgate_telemetry::traces::{RequestSpan, Sampler, Traces, TracesError};

use crate::alerts::{Alerts, NearLimitMeter};
use crate::observers::DecisionObservers;
use crate::usage::UsageTracker;

/// The reason why a requested part is not available.
#[derive(Debug)]
pub enum OpsError {
    /// The audit file cannot be opened.
    Audit(PathBuf, io::Error),
    /// Traces cannot be exported.
    Traces(TracesError),
}

/// A collector of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its URL, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Of requests that their callers do not trace, one out of this many is traced; 0 for none.
    pub one_of: u64,
}

/// The parts of a server for its operators.
#[derive(Debug, Default)]
pub struct Ops {
    /// The audit log.
    pub audit: Audit,
    /// The alerts for keys near their limits.
    pub alerts: Alerts,
    /// The usage of keys.
    pub usage: UsageTracker,
    /// The spans of requests, if they are exported.
    pub traces: Option<Traces>,
    log: Arc<ServerLog>,
}

impl Ops {
    /// Opens the audit log and starts exporting traces, if they are requested.
    pub fn new(
        audit: Option<AuditFile>,
        collector: Option<&Collector>,
        log: &Arc<ServerLog>,
    ) -> Result<Self, OpsError> {
        let path = audit.as_ref().map(|file| file.path.clone()).unwrap_or_default();
        let audit = Audit::new(audit, Arc::clone(log)).map_err(|error| OpsError::Audit(path, error))?;
        let traces = collector.map(|collector| traces(collector, log)).transpose().map_err(OpsError::Traces)?;
        let alerts = Alerts::new(Arc::clone(log));
        Ok(Self { audit, alerts, usage: UsageTracker::default(), traces, log: Arc::clone(log) })
    }

    /// Adopts the settings of a policy file besides its policies; the alerts of policies that no longer exist fall. An
    /// invalid setting is an error, and then nothing is changed.
    pub fn adopt(&self, config: &Config) -> Result<(), String> {
        self.alerts.set_webhook(config.webhook.as_ref())?;
        let alerts = config.policies.iter().map(|entry| (entry.policy.name(), entry.alerts.as_slice()));
        let alerts: HashMap<&str, &[u8]> = alerts.collect();
        self.alerts.adopt(|name| alerts.get(name).copied().unwrap_or_default());
        Ok(())
    }

    /// Returns the observer of the decisions of a policy of the file, for its alerts and its usage; `None` if it has
    /// neither. `policy` is the one that decides: the entry's own, or an override under the same name.
    pub fn observers(&self, policy: &Policy, alerts: &[u8], usage: bool) -> Option<Arc<DecisionObservers>> {
        let alert = self.alerts.of(policy.name(), alerts);
        DecisionObservers::new(alert.map(|alert| NearLimitMeter::new(alert, policy)), usage)
    }

    /// Begins the span of a request, if it is traced; `parent` is the caller's trace header.
    #[inline]
    pub fn trace<'a>(&self, parent: impl FnOnce() -> Option<&'a [u8]>) -> Option<RequestSpan> {
        self.traces.as_ref()?.begin(parent())
    }

    /// Ends a span.
    pub fn traced(&self, span: RequestSpan) {
        if let Some(traces) = &self.traces {
            traces.end(span);
        }
    }

    /// Returns the hash that is shown in place of a key.
    pub fn hash(&self, key: &[u8]) -> String {
        self.log.hash(key)
    }

    /// Performs the tasks of every second; `now` is the time by the clock that decides.
    pub fn second(&self, now: Timestamp) {
        self.audit.begin_second();
        self.alerts.second(now);
    }
}

/// Starts traces for a collector. Failures are logged at most once a minute.
fn traces(collector: &Collector, log: &Arc<ServerLog>) -> Result<Traces, TracesError> {
    let settings = tollgate_telemetry::traces::TraceSettings {
        endpoint: collector.endpoint.clone(),
        service: "tollgate",
        version: env!("CARGO_PKG_VERSION"),
    };
    let log = Arc::clone(log);
    let log_failure = move |trouble: &tollgate_telemetry::traces::ExportFailure| {
        log.warn("traces_failed", &[("spans", &trouble.spans), ("because", &trouble.because)]);
    };
    Traces::start(&settings, Sampler::new(collector.one_of), log_failure)
}
