//! Policies in the form that the server reads, prepared once and cached. The cache holds at most 1024 policies; any
//! further policy is prepared again for each call.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tollgate_kernel::{Cost, Mode, Policy, Request, StoreError, Timestamp};

use crate::call::{CallArg, RedisCall};
use crate::code::{self, CallKind, LuaScript};
use crate::commands;
use crate::reply::ReplyEnding;
use crate::settings::Packaging;
use crate::slot::state_key;

const MAX: usize = 1024;

/// A policy and its prepared forms.
#[derive(Debug)]
pub(crate) struct RedisPolicy {
    pub(crate) policy: Policy,
    encoding: PolicyEncoding,
    /// The form for the embedded store that stands in.
    pub(crate) local: OnceLock<tollgate_memory::MemoryPolicy>,
}

/// The form that the server reads.
#[derive(Debug)]
enum PolicyEncoding {
    /// For our Lua: numbers, which are read fastest, and the scripts. A function needs no script.
    Lua { compact: Arc<str>, scripts: [OnceLock<Arc<LuaScript>>; 4] },
    /// For commands of the server: text.
    Commands(Arc<str>),
}

/// How detailed the reply to a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyDetail {
    Rest,
    Full,
}

/// One of several parts decided together.
pub(crate) type CallPart<'a> = (Arc<RedisPolicy>, &'a [u8], Cost);

#[derive(Debug)]
pub(crate) struct RedisPolicyCache {
    packaging: Packaging,
    cached: RwLock<HashMap<u64, Vec<Arc<RedisPolicy>>>>,
    hash: RandomState,
}

impl RedisPolicyCache {
    pub(crate) fn new(packaging: Packaging) -> Self {
        Self { packaging, cached: RwLock::default(), hash: RandomState::new() }
    }

    /// Returns what the server's replies end with.
    pub(crate) fn reply_ending(&self) -> ReplyEnding {
        if self.packaging == Packaging::Commands { ReplyEnding::Source } else { ReplyEnding::Integers }
    }

    /// Returns the prepared form of a policy.
    pub(crate) fn get(&self, policy: &Policy) -> Result<Arc<RedisPolicy>, StoreError> {
        let first = policy.limits().first().map(|limit| (limit.count(), limit.period()));
        let hash = self.hash.hash_one((policy.name(), policy.limits().len(), first));
        let find = |cached: &HashMap<u64, Vec<Arc<RedisPolicy>>>| {
            cached.get(&hash)?.iter().find(|prepared| prepared.policy == *policy).cloned()
        };
        if let Some(prepared) = find(&self.cached.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(prepared);
        }
        let prepared = Arc::new(RedisPolicy::new(policy, self.packaging)?);
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        if cached.values().map(Vec::len).sum::<usize>() < MAX {
            cached.entry(hash).or_default().push(prepared.clone());
        }
        Ok(prepared)
    }
}

impl RedisPolicy {
    pub(crate) fn new(policy: &Policy, packaging: Packaging) -> Result<Self, StoreError> {
        let encoding = match packaging {
            Packaging::Commands => PolicyEncoding::Commands(commands::text(policy)?),
            Packaging::Function | Packaging::Script | Packaging::Auto => {
                PolicyEncoding::Lua { compact: code::compact(policy).into(), scripts: [const { OnceLock::new() }; 4] }
            }
        };
        Ok(Self { policy: policy.clone(), encoding, local: OnceLock::new() })
    }

    /// Returns the call that decides.
    pub(crate) fn check(&self, key: &[u8], request: &Request, detail: ReplyDetail) -> RedisCall {
        let mut args = Vec::with_capacity(5);
        if request.cost != Cost::ONE {
            args.extend([CallArg::Word("COST"), CallArg::Number(request.cost.get())]);
        }
        let mode = request.mode.unwrap_or(self.policy.mode());
        if mode != Mode::Binary {
            args.extend([CallArg::Word("MODE"), CallArg::Word(mode.name())]);
        }
        args.push(CallArg::Word(match detail {
            ReplyDetail::Rest => "REST",
            ReplyDetail::Full => "FULL",
        }));
        self.call(if request.peek { CallKind::Peek } else { CallKind::Check }, key, args)
    }

    pub(crate) fn reset(&self, key: &[u8]) -> RedisCall {
        self.call(CallKind::Reset, key, Vec::new())
    }

    pub(crate) fn refund(&self, key: &[u8], units: Cost, at: Timestamp) -> RedisCall {
        self.call(CallKind::Refund, key, vec![CallArg::Number(units.get()), CallArg::Number(at.get())])
    }

    /// Returns the call that decides several parts together; all parts have the same form.
    pub(crate) fn all(parts: &[CallPart<'_>]) -> RedisCall {
        if parts.iter().any(|(prepared, ..)| matches!(prepared.encoding, PolicyEncoding::Commands(_))) {
            let parts = parts.iter().map(|(prepared, key, cost)| (prepared.command_key(key), *cost));
            return commands::all(parts);
        }
        let keys = parts.iter().map(|(prepared, key, _)| prepared.state_key(key)).collect();
        let args =
            parts.iter().flat_map(|(prepared, _, cost)| [CallArg::Text(prepared.text()), CallArg::Number(cost.get())]);
        let policies: Vec<&Policy> = parts.iter().map(|(prepared, ..)| &prepared.policy).collect();
        RedisCall::new(
            Some(code::function(CallKind::All)),
            code::script(CallKind::All, &policies),
            keys,
            args.collect(),
        )
    }

    pub(crate) fn state_key(&self, key: &[u8]) -> Vec<u8> {
        state_key(key, self.policy.name())
    }

    /// Returns the policy as the server reads it.
    fn text(&self) -> Arc<str> {
        match &self.encoding {
            PolicyEncoding::Lua { compact: text, .. } | PolicyEncoding::Commands(text) => text.clone(),
        }
    }

    fn command_key<'a>(&'a self, key: &'a [u8]) -> commands::CommandKey<'a> {
        commands::CommandKey { key, text: self.text(), name: self.policy.name() }
    }

    /// Returns a call about `key`, with `args` after the policy.
    fn call(&self, kind: CallKind, key: &[u8], args: Vec<CallArg>) -> RedisCall {
        let PolicyEncoding::Lua { compact, scripts } = &self.encoding else {
            return commands::call(kind, &self.command_key(key), args);
        };
        let index = match kind {
            CallKind::Check | CallKind::All => 0,
            CallKind::Peek => 1,
            CallKind::Reset => 2,
            CallKind::Refund => 3,
        };
        let script = scripts[index].get_or_init(|| code::script(kind, &[&self.policy]));
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(CallArg::Text(compact.clone()));
        all.extend(args);
        RedisCall::new(Some(code::function(kind)), script.clone(), vec![self.state_key(key)], all)
    }
}
