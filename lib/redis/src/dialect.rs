//! Calls of dialects on the keys of their callers: by the function or script of the dialect, or, for one without Lua, as
//! a request under its policy. The state is at the key itself, where other clients of the convention find it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use tollgate_dialects::{DIALECTS, Dialect, Output};
use tollgate_kernel::{Decision, Detail, Policy, Request, Source, StoreError};

use crate::call::{CallArg, RedisCall};
use crate::custom::output;
use crate::lua::{self, LuaNaming, LuaScript};
use crate::prepared::ReplyDetail;
use crate::reply;
use crate::slot::slot;
use crate::store::Redis;

/// The function and the script of a dialect.
type DialectCode = (String, Arc<LuaScript>);

/// Returns the code of a dialect, `None` if it has no Lua.
fn code(dialect: &Dialect) -> Option<&'static DialectCode> {
    static CODES: LazyLock<HashMap<&'static str, DialectCode>> = LazyLock::new(|| {
        let code = |dialect: &Dialect| {
            let script = Arc::new(lua::dialect_script(dialect.name)?);
            Some((dialect.name, (LuaNaming::Versioned.function(dialect.name), script)))
        };
        DIALECTS.iter().filter_map(code).collect()
    });
    CODES.get(dialect.name)
}

impl Redis {
    /// Calls a dialect on keys of a database; returns `None` if it has no Lua.
    pub async fn call_dialect(
        &self,
        dialect: &Dialect,
        db: u8,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Option<Result<Output, StoreError>> {
        let (function, script) = code(dialect)?;
        let dispatcher = &self.inner.dispatcher;
        let first = keys.first().map(|key| slot(key));
        if dispatcher.router.is_cluster()
            && let Some(second) = keys.iter().position(|key| Some(slot(key)) != first)
        {
            return Some(Err(StoreError::Slots(0, second)));
        }
        let args = args.iter().cloned().map(CallArg::Bytes).collect();
        let call = RedisCall::new(Some(function), Arc::clone(script), keys.to_vec(), args).in_database(db);
        let answer = dispatcher.dispatch(call).await.map(|value| output(&value));
        if answer.is_ok() {
            self.count_decision(Source::Home);
        }
        Some(answer)
    }

    /// Decides a request under a policy whose state is at the key itself.
    pub async fn check_at(
        &self,
        policy: &Policy,
        (db, key): (u8, &[u8]),
        request: &Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        let prepared = self.inner.policies.get(policy)?;
        let mut call = prepared.check(key, request, ReplyDetail::Full).in_database(db);
        call.keys = vec![key.to_vec()];
        let value = self.inner.dispatcher.dispatch(call).await?;
        let decided = reply::full(&value, self.inner.policies.reply_ending(), policy.limits().len())?;
        self.count_decision(decided.0.source);
        Ok(decided)
    }

    /// Counts a decision that was made for this store, by itself or by what stood in.
    pub fn count_decision(&self, source: Source) {
        self.inner.dispatcher.context.counters.count_decision(source);
    }

    /// Returns the policy that this process decides by while the server does not answer: its share of each limit.
    pub fn share_of(&self, policy: &Policy) -> Policy {
        crate::scaled::scaled(policy, self.share())
    }
}
