//! A limiter with a name: its keys, its call, and the answer that its reply gives.

use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;
use tollgate_dialects::{ApiCounterUsage, Dialect, ParsedCall};
use tollgate_kernel::{Cell, Cost, OnError, Source};
use tollgate_memory::{Memory, MemoryPolicy};

use super::Output;
use super::counts::PlugCounter;
use super::error::PlugError;
use super::reply::{PlugAnswer, PlugFailure, PlugReply, default_answer, without_answer};
use super::settings::{PlugKeysFn, PlugRespondFn, check_keys};
use crate::key::KeyError;
use crate::limiter::{CustomLimiter, DecisionFuture};
use crate::log::FailureLog;
use crate::verdict::{CustomDecision, RawReply};

/// A limiter with all its settings.
pub(super) struct PlugLimiter(Arc<PlugCore>);

pub(super) struct PlugCore {
    pub(super) name: Box<str>,
    pub(super) engine: PlugEngine,
    pub(super) headers: Vec<HeaderName>,
    pub(super) opts: Vec<String>,
    pub(super) keys: Arc<PlugKeysFn>,
    pub(super) log: FailureLog,
    pub(super) respond: Option<Arc<PlugRespondFn>>,
    pub(super) on_error: OnError,
    /// Decides while the store fails, if `on_error` is local.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only stores are asked and stood in for"))]
    pub(super) standin: Option<LocalEngine>,
    pub(super) counts: Arc<PlugCounter>,
}

/// The engine that decides: the embedded store, or a script in Redis.
pub(super) enum PlugEngine {
    Memory(Box<LocalEngine>),
    #[cfg(feature = "redis")]
    Redis {
        store: tollgate::redis::Redis,
        script: tollgate::redis::CustomScript,
        one_key: bool,
    },
}

/// A built-in limiter in this process.
pub(super) struct LocalEngine {
    memory: Memory,
    policy: MemoryPolicy,
    /// The call for any key: it depends only on the options.
    call: ParsedCall,
}

impl LocalEngine {
    pub(super) fn new(
        name: &str,
        dialect: &'static Dialect,
        opts: &[String],
        memory: &Memory,
    ) -> Result<Self, PlugError> {
        let args: Vec<&[u8]> = opts.iter().map(String::as_bytes).collect();
        let call = (dialect.parse)(&[b"key"], &args).map_err(|error| PlugError::dialect(name, error))?;
        Ok(Self { memory: memory.clone(), policy: memory.prepare(call.policy())?, call })
    }

    fn run(&self, keys: &[Vec<u8>]) -> Result<Output, PlugFailure> {
        let key = keys.first().ok_or_else(|| KeyError::Setup("expected a key".to_owned()))?;
        let act = |cells: &mut [Cell], t| self.call.run_on(cells, &mut ApiCounterUsage::default(), t);
        let ran = self.memory.act(&self.policy, key, act).map_err(|full| PlugFailure::Script(full.to_string()))?;
        ran.map(|outcome| outcome.reply.into()).map_err(|error| PlugFailure::Script(error.to_string()))
    }
}

impl PlugEngine {
    #[cfg(feature = "redis")]
    pub(super) fn redis(store: &tollgate::redis::Redis, text: String, one_key: bool) -> Self {
        Self::Redis { store: store.clone(), script: tollgate::redis::CustomScript::new(text), one_key }
    }

    /// Returns whether it takes exactly one key.
    fn takes_one_key(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            #[cfg(feature = "redis")]
            Self::Redis { one_key, .. } => *one_key,
        }
    }
}

impl PlugLimiter {
    pub(super) fn new(core: PlugCore) -> Self {
        Self(Arc::new(core))
    }
}

/// This limiter logs and answers its failures itself, so the layer never sees one.
impl CustomLimiter for PlugLimiter {
    fn decide(&self, parts: &Parts, _key: &[u8], _cost: Cost) -> DecisionFuture {
        let core = self.0.clone();
        let now = |custom| -> DecisionFuture { Box::pin(std::future::ready(Ok(custom))) };
        let keys = match core.keys_of(parts) {
            Ok(keys) => keys,
            Err(error) => return now(core.answer(Some(parts), &[], Err(error.into()), Source::Home)),
        };
        match &core.engine {
            PlugEngine::Memory(local) => now(core.answer(Some(parts), &keys, local.run(&keys), Source::Home)),
            #[cfg(feature = "redis")]
            PlugEngine::Redis { store, script, .. } => {
                let (store, script) = (store.clone(), script.clone());
                // Only a response function needs the request's head again.
                let parts = core.respond.is_some().then(|| parts.clone());
                let core = core.clone();
                Box::pin(async move {
                    let ran = store.run_script(&script, &keys, &core.opts).await.map_err(PlugFailure::from);
                    let (ran, source) = core.or_stand_in(&keys, ran);
                    Ok(core.answer(parts.as_ref(), &keys, ran, source))
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

    /// Returns what the script returned, or what stands in for it if the store failed, and who decided.
    #[cfg(feature = "redis")]
    fn or_stand_in(&self, keys: &[Vec<u8>], ran: Result<Output, PlugFailure>) -> (Result<Output, PlugFailure>, Source) {
        match (&self.standin, ran) {
            (Some(standin), Err(failure @ PlugFailure::Store(_))) => {
                self.report(&failure, "this process decides");
                (standin.run(keys), Source::Local)
            }
            (_, ran) => (ran, Source::Home),
        }
    }

    fn answer(
        &self,
        parts: Option<&Parts>,
        keys: &[Vec<u8>],
        result: Result<Output, PlugFailure>,
        source: Source,
    ) -> CustomDecision {
        let mut failed = result.is_err();
        if let Err(failure) = &result {
            self.report_failure(failure);
        }
        let answer = match (&self.respond, parts, &result) {
            (Some(respond), Some(parts), result) => {
                let result = result.as_ref();
                let (limiter, names, opts) = (&*self.name, &*self.headers, &*self.opts);
                respond(&PlugReply { parts, limiter, names, opts, keys, result, on_error: self.on_error })
            }
            (_, _, Ok(output)) => default_answer(&self.headers, output),
            (_, _, Err(_)) => Ok(without_answer(self.on_error)),
        };
        let answer = answer.unwrap_or_else(|failure| {
            failed = true;
            self.report_failure(&failure);
            without_answer(self.on_error)
        });
        let passes = matches!(answer, PlugAnswer::Pass(_));
        let source = match (failed, passes) {
            (false, _) => source,
            (true, true) => Source::Open,
            (true, false) => Source::Closed,
        };
        self.counts.count(source);
        let custom = |headers, raw| CustomDecision { allowed: passes, headers, retry_after: None, source, raw };
        match answer {
            PlugAnswer::Pass(headers) => custom(headers, result.ok().map(|output| Arc::new(output) as RawReply)),
            PlugAnswer::Stop(response) => custom(Vec::new(), Some(Arc::new(response))),
        }
    }

    fn report_failure(&self, failure: &PlugFailure) {
        let deed = if self.on_error == OnError::Deny { "a request is refused" } else { "a request passes" };
        self.report(failure, deed);
    }

    fn report(&self, failure: &PlugFailure, deed: &str) {
        self.log.report(&format!("limiter {} failed, {deed}", self.name), failure);
    }
}
