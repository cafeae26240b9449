//! Where alerts are reported: the log, the counters, and a webhook if there is one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_config::Webhook;

use super::client::parse_url;
use super::queue::WebhookPost;
use super::webhook::Poster;
use tollgate_telemetry::log::{ServerLog, json, micros};

/// Reports alerts to the log and the webhook.
#[derive(Debug, Default)]
pub(super) struct AlertReporter {
    log: Arc<ServerLog>,
    poster: Mutex<Option<Arc<Poster>>>,
}

impl AlertReporter {
    pub(super) fn new(log: Arc<ServerLog>) -> Self {
        Self { log, poster: Mutex::default() }
    }

    /// Reports that a level was raised by a key.
    #[cold]
    pub(super) fn raised(&self, policy: &Arc<str>, percent: u8, key: &[u8], remaining: i64, count: i64) {
        let hash = self.log.hash(key);
        self.log.warn(
            "near_limit",
            &[
                ("policy", policy),
                ("percent", &percent),
                ("state", &"raised"),
                ("key_hash", &hash),
                ("remaining", &remaining),
                ("count", &count),
            ],
        );
        self.post(policy, percent, "raised", &format!("{},\"remaining\":{remaining},\"count\":{count}", json(&hash)));
    }

    /// Reports that a level fell.
    pub(super) fn fell(&self, policy: &Arc<str>, percent: u8) {
        self.log.info("near_limit", &[("policy", policy), ("percent", &percent), ("state", &"fell")]);
        self.post(policy, percent, "fell", "null,\"remaining\":null,\"count\":null");
    }

    fn post(&self, policy: &Arc<str>, percent: u8, state: &str, of_key: &str) {
        let Some(poster) = self.poster() else { return };
        let now = SystemTime::now();
        let at_us = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let body = format!(
            "{{\"policy\":{},\"percent\":{percent},\"state\":\"{state}\",\"at\":{},\"at_us\":{at_us},\
             \"key_hash\":{of_key}}}",
            json(policy),
            json(&micros(now)),
        );
        poster.post(WebhookPost { policy: Arc::clone(policy), body });
    }

    pub(super) fn set_webhook(&self, webhook: Option<&Webhook>) -> Result<(), String> {
        let target = webhook.map(|webhook| parse_url(&webhook.url)).transpose()?;
        let mut poster = self.poster.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*poster, target) {
            (None, None) => {}
            (Some(poster), target) => poster.set_target(target),
            (None, Some(target)) => {
                let started = Poster::start(target, Arc::clone(&self.log)).map_err(|error| error.to_string())?;
                *poster = Some(Arc::new(started));
            }
        }
        Ok(())
    }

    pub(super) fn posts(&self) -> [u64; 3] {
        self.poster().map_or([0; 3], |poster| poster.counts())
    }

    fn poster(&self) -> Option<Arc<Poster>> {
        self.poster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
