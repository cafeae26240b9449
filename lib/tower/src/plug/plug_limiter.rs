//! A limiter with a name: its keys, its call, and the answer that its reply gives.

use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;
use tollgate_dialects::{ApiCounterUsage, ParsedCall};
use tollgate_kernel::{Cost, Source};
use tollgate_memory::{Memory, MemoryPolicy};
use tracing::Level;

use super::Output;
use super::reply::{PlugAnswer, PlugFailure, PlugReply, default_answer};
use super::settings::{PlugKeysFn, PlugRespondFn, check_keys};
use crate::key::KeyError;
use crate::limiter::{CustomLimiter, DecisionFuture};
use crate::log::FailureLog;
use crate::verdict::{CustomDecision, RawReply};

/// A limiter with all its settings.
pub(super) struct PlugLimiter(Arc<PlugCore>);

struct PlugCore {
    name: Box<str>,
    engine: PlugEngine,
    headers: Vec<HeaderName>,
    opts: Vec<String>,
    keys: Arc<PlugKeysFn>,
    log: FailureLog,
    respond: Option<Arc<PlugRespondFn>>,
}

/// The engine that decides: the embedded store, or a script in Redis.
pub(super) enum PlugEngine {
    Memory {
        memory: Memory,
        policy: MemoryPolicy,
        /// The call for any key: it depends only on the options.
        call: Arc<ParsedCall>,
    },
    #[cfg(feature = "redis")]
    Redis { store: tollgate::redis::Redis, script: tollgate::redis::CustomScript, one_key: bool },
}

impl PlugEngine {
    #[cfg(feature = "redis")]
    pub(super) fn redis(store: &tollgate::redis::Redis, text: String, one_key: bool) -> Self {
        Self::Redis { store: store.clone(), script: tollgate::redis::CustomScript::new(text), one_key }
    }

    /// Returns whether it takes exactly one key.
    fn takes_one_key(&self) -> bool {
        match self {
            Self::Memory { .. } => true,
            #[cfg(feature = "redis")]
            Self::Redis { one_key, .. } => *one_key,
        }
    }
}

impl PlugLimiter {
    pub(super) fn new(
        name: Box<str>,
        engine: PlugEngine,
        headers: Vec<HeaderName>,
        opts: Vec<String>,
        keys: Arc<PlugKeysFn>,
        log: Option<Option<Level>>,
        respond: Option<Arc<PlugRespondFn>>,
    ) -> Self {
        let log = log.map_or_else(FailureLog::default, FailureLog::at);
        Self(Arc::new(PlugCore { name, engine, headers, opts, keys, log, respond }))
    }
}

/// This limiter logs and answers its failures itself, so the layer never sees one.
impl CustomLimiter for PlugLimiter {
    fn decide(&self, parts: &Parts, _key: &[u8], _cost: Cost) -> DecisionFuture {
        let core = self.0.clone();
        let now = |custom| -> DecisionFuture { Box::pin(std::future::ready(Ok(custom))) };
        let keys = match core.keys_of(parts) {
            Ok(keys) => keys,
            Err(error) => return now(core.answer(Some(parts), &[], Err(error.into()))),
        };
        match &core.engine {
            PlugEngine::Memory { memory, policy, call } => {
                let run = |key: &Vec<u8>| {
                    memory.act(policy, key, |cells, t| call.run_on(cells, &mut ApiCounterUsage::default(), t))
                };
                let ran = keys.first().map(run).ok_or_else(|| KeyError::Setup("expected a key".to_owned()).into());
                let outcome = ran.and_then(|ran| {
                    let ran = ran.map_err(|full| PlugFailure::Script(full.to_string()))?;
                    ran.map_err(|error| PlugFailure::Script(error.to_string()))
                });
                now(core.answer(Some(parts), &keys, outcome.map(|outcome| outcome.reply.into())))
            }
            #[cfg(feature = "redis")]
            PlugEngine::Redis { store, script, .. } => {
                let (store, script) = (store.clone(), script.clone());
                // Only a response function needs the request's head again.
                let parts = core.respond.is_some().then(|| parts.clone());
                let core = core.clone();
                Box::pin(async move {
                    let ran = store.run_script(&script, &keys, &core.opts).await;
                    Ok(core.answer(parts.as_ref(), &keys, ran.map_err(PlugFailure::from)))
                })
            }
        }
    }
}

impl PlugCore {
    fn keys_of(&self, parts: &Parts) -> Result<Vec<Vec<u8>>, KeyError> {
        let keys = check_keys((self.keys)(parts)?)?;
        if self.engine.takes_one_key() && keys.len() != 1 {
            return Err(KeyError::Setup(format!("expected 1 key, found {}", keys.len())));
        }
        Ok(keys)
    }

    fn answer(&self, parts: Option<&Parts>, keys: &[Vec<u8>], result: Result<Output, PlugFailure>) -> CustomDecision {
        if let Err(failure) = &result {
            self.report(failure);
        }
        let answer = match (&self.respond, parts, &result) {
            (Some(respond), Some(parts), result) => {
                let result = result.as_ref();
                let (limiter, names, opts) = (&*self.name, &*self.headers, &*self.opts);
                respond(&PlugReply { parts, limiter, names, opts, keys, result })
            }
            (_, _, Ok(output)) => default_answer(&self.headers, output),
            (_, _, Err(_)) => Ok(PlugAnswer::Pass(Vec::new())),
        };
        let answer = answer.unwrap_or_else(|failure| {
            self.report(&failure);
            PlugAnswer::Pass(Vec::new())
        });
        let custom =
            |allowed, headers, raw| CustomDecision { allowed, headers, retry_after: None, source: Source::Home, raw };
        match answer {
            PlugAnswer::Pass(headers) => custom(true, headers, result.ok().map(|output| Arc::new(output) as RawReply)),
            PlugAnswer::Stop(response) => custom(false, Vec::new(), Some(Arc::new(response))),
        }
    }

    fn report(&self, failure: &PlugFailure) {
        self.log.report(&format!("limiter {} failed, a request passes", self.name), failure);
    }
}
