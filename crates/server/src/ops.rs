//! What people who run a server see of it beside its metrics and its log.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::Config;
use tollgate_core::{Policy, Timestamp};
use tollgate_otlp::{Sampler, Span, Traces};

use crate::alerts::{Alerts, Near};
use crate::audit::Audit;
use crate::log::Log;
use crate::settings::{Collector, Settings};
use crate::start_error::StartError;
use crate::usage::Usage;
use crate::watched::Watched;

/// The parts of a server that are there for those who run it.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    pub(crate) audit: Audit,
    pub(crate) alerts: Alerts,
    pub(crate) usage: Usage,
    pub(crate) traces: Option<Traces>,
    log: Arc<Log>,
}

impl Ops {
    pub(crate) fn new(settings: &Settings, log: &Arc<Log>) -> Result<Self, StartError> {
        let audit = Audit::new(settings.audit.clone(), Arc::clone(log));
        let path = || settings.audit.as_ref().map(|file| file.path.clone()).unwrap_or_default();
        let audit = audit.map_err(|error| StartError::Audit(path(), error))?;
        let traces = settings.traces.as_ref().map(|collector| traces(collector, log)).transpose()?;
        let alerts = Alerts::new(Arc::clone(log));
        Ok(Self { audit, alerts, usage: Usage::default(), traces, log: Arc::clone(log) })
    }

    /// Takes what a policy file says beside its policies; the alerts of policies that are no more fall. What is
    /// wrong is an error, and then nothing is changed.
    pub(crate) fn adopt(&self, config: &Config) -> Result<(), String> {
        self.alerts.post_to(config.webhook.as_ref())?;
        let alerts = config.policies.iter().map(|entry| (entry.policy.name(), entry.alerts.as_slice()));
        let alerts: HashMap<&str, &[u8]> = alerts.collect();
        self.alerts.adopt(|name| alerts.get(name).copied().unwrap_or_default());
        Ok(())
    }

    /// What is looked at in the decisions of a policy of the file, of its alerts and its usage; nothing if
    /// there is neither. `policy` is the one that decides: the entry's own, or an override under the same name.
    pub(crate) fn watch(&self, policy: &Policy, alerts: &[u8], usage: bool) -> Option<Arc<Watched>> {
        let alert = self.alerts.of(policy.name(), alerts);
        Watched::new(alert.map(|alert| Near::new(alert, policy)), usage)
    }

    /// Begins the span of a request, if it is traced; `parent` is what its caller says of it.
    #[inline]
    pub(crate) fn trace<'a>(&self, parent: impl FnOnce() -> Option<&'a [u8]>) -> Option<Span> {
        self.traces.as_ref()?.begin(parent())
    }

    /// Ends a span.
    pub(crate) fn traced(&self, span: Span) {
        if let Some(traces) = &self.traces {
            traces.end(span);
        }
    }

    /// What is told in place of a key.
    pub(crate) fn hash(&self, key: &[u8]) -> String {
        self.log.hash(key)
    }

    /// A second has passed by the clock that decides.
    pub(crate) fn second(&self, now: Timestamp) {
        self.audit.second();
        self.alerts.second(now);
    }
}

/// Traces for a collector. That it does not take them is logged, at most once a minute.
fn traces(collector: &Collector, log: &Arc<Log>) -> Result<Traces, StartError> {
    let settings = tollgate_otlp::Settings {
        endpoint: collector.endpoint.clone(),
        service: "tollgate",
        version: env!("CARGO_PKG_VERSION"),
    };
    let log = Arc::clone(log);
    let told = move |trouble: &tollgate_otlp::Trouble| {
        log.warn("traces_failed", &[("spans", &trouble.spans), ("because", &trouble.because)]);
    };
    Traces::start(&settings, Sampler::new(collector.one_of), told).map_err(StartError::Traces)
}
