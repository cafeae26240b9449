//! A limiter that decides: its keys, the call, and what its reply means for the request.

use std::sync::Arc;

use http::header::HeaderName;
use http::request::Parts;
use tollgate_dialects::{Call, Usage};
use tollgate_kernel::{Cost, Source};
use tollgate_memory::{Memory, Prepared};
use tracing::Level;

use super::Output;
use super::named::{Keys, Responding, checked};
use super::said::{Answer, Failure, Said, usual};
use crate::key::KeyError;
use crate::limiter::{Decide, Deciding};
use crate::log::Log;
use crate::verdict::{Custom, Raw};

/// A limiter with all its settings.
pub(super) struct Asked(Arc<Inner>);

struct Inner {
    name: Box<str>,
    engine: Engine,
    headers: Vec<HeaderName>,
    opts: Vec<String>,
    keys: Arc<Keys>,
    log: Log,
    respond: Option<Arc<Responding>>,
}

/// What decides.
pub(super) enum Engine {
    Memory {
        memory: Memory,
        policy: Prepared,
        /// The call for any key: it depends only on the options.
        call: Arc<Call>,
    },
    #[cfg(feature = "redis")]
    Redis { store: tollgate::redis::Redis, script: tollgate::redis::Custom, one_key: bool },
}

impl Engine {
    #[cfg(feature = "redis")]
    pub(super) fn redis(store: &tollgate::redis::Redis, text: String, one_key: bool) -> Self {
        Self::Redis { store: store.clone(), script: tollgate::redis::Custom::new(text), one_key }
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

impl Asked {
    pub(super) fn new(
        name: Box<str>,
        engine: Engine,
        headers: Vec<HeaderName>,
        opts: Vec<String>,
        keys: Arc<Keys>,
        log: Option<Option<Level>>,
        respond: Option<Arc<Responding>>,
    ) -> Self {
        let log = log.map_or_else(Log::default, Log::at);
        Self(Arc::new(Inner { name, engine, headers, opts, keys, log, respond }))
    }
}

/// This limiter logs and answers its failures itself, so the layer never sees one.
impl Decide for Asked {
    fn decide(&self, parts: &Parts, _key: &[u8], _cost: Cost) -> Deciding {
        let inner = self.0.clone();
        let now = |custom| -> Deciding { Box::pin(std::future::ready(Ok(custom))) };
        let keys = match inner.keys_of(parts) {
            Ok(keys) => keys,
            Err(error) => return now(inner.answer(Some(parts), &[], Err(error.into()))),
        };
        match &inner.engine {
            Engine::Memory { memory, policy, call } => {
                let run =
                    |key: &Vec<u8>| memory.act(policy, key, |cells, t| call.run_on(cells, &mut Usage::default(), t));
                let ran = keys.first().map(run).ok_or_else(|| KeyError::Setup("expected a key".to_owned()).into());
                let told = ran.and_then(|ran| {
                    let ran = ran.map_err(|full| Failure::Script(full.to_string()))?;
                    ran.map_err(|error| Failure::Script(error.to_string()))
                });
                now(inner.answer(Some(parts), &keys, told.map(|outcome| outcome.reply.into())))
            }
            #[cfg(feature = "redis")]
            Engine::Redis { store, script, .. } => {
                let (store, script) = (store.clone(), script.clone());
                // Only a response function needs the request's head again.
                let parts = inner.respond.is_some().then(|| parts.clone());
                let inner = inner.clone();
                Box::pin(async move {
                    let ran = store.run_script(&script, &keys, &inner.opts).await;
                    Ok(inner.answer(parts.as_ref(), &keys, ran.map_err(Failure::from)))
                })
            }
        }
    }
}

impl Inner {
    fn keys_of(&self, parts: &Parts) -> Result<Vec<Vec<u8>>, KeyError> {
        let keys = checked((self.keys)(parts)?)?;
        if self.engine.takes_one_key() && keys.len() != 1 {
            return Err(KeyError::Setup(format!("expected 1 key, found {}", keys.len())));
        }
        Ok(keys)
    }

    fn answer(&self, parts: Option<&Parts>, keys: &[Vec<u8>], result: Result<Output, Failure>) -> Custom {
        if let Err(failure) = &result {
            self.tell(failure);
        }
        let answer = match (&self.respond, parts, &result) {
            (Some(respond), Some(parts), result) => {
                let result = result.as_ref();
                let (limiter, names, opts) = (&*self.name, &*self.headers, &*self.opts);
                respond(&Said { parts, limiter, names, opts, keys, result })
            }
            (_, _, Ok(output)) => usual(&self.headers, output),
            (_, _, Err(_)) => Ok(Answer::Pass(Vec::new())),
        };
        let answer = answer.unwrap_or_else(|failure| {
            self.tell(&failure);
            Answer::Pass(Vec::new())
        });
        let custom = |allowed, headers, raw| Custom { allowed, headers, retry_after: None, source: Source::Home, raw };
        match answer {
            Answer::Pass(headers) => custom(true, headers, result.ok().map(|output| Arc::new(output) as Raw)),
            Answer::Stop(response) => custom(false, Vec::new(), Some(Arc::new(response))),
        }
    }

    fn tell(&self, failure: &Failure) {
        self.log.tell(&format!("limiter {} failed, a request passes", self.name), failure);
    }
}
