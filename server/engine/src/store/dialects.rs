//! Calls of dialects in a store, on the keys of their callers, and the decisions that stand in for it.

use tollgate_dialects::{Action, ApiCounterUsage, Output, Wording};
use tollgate_kernel::{Decision, Micros, OnError, Request, Source, StoreError, Timestamp};
use tollgate_keyspace::{DialectCall, Fault, check_name};

use super::{OF_POLICIES, StoreHome};

/// The wait that a refusal reports while the store does not answer: it is tried again within that time.
const CLOSED_FOR: Micros = Micros::from_secs(1);

impl StoreHome {
    /// Decides a call in the store.
    pub(crate) async fn call(&self, call: &DialectCall) -> Result<Output, StoreError> {
        if let (Some(name), [key]) = (call.call.state_name(), call.keys.as_slice()) {
            self.namespaces.note(name, key);
        }
        match self.redis.call_dialect(call.dialect, call.db, &call.keys, &call.args).await {
            Some(output) => output.map(|output| reword(output, call.wording)),
            None => self.call_without_lua(call).await,
        }
    }

    /// Decides a call of a dialect without Lua, by the policy that it means.
    async fn call_without_lua(&self, call: &DialectCall) -> Result<Output, StoreError> {
        let (Action::Check(request), [key]) = (call.call.action(), call.keys.as_slice()) else {
            return Err(StoreError::Refused(format!("ERR {}: expected a request on one key", call.dialect.name)));
        };
        let (decision, details) = self.redis.check_at(call.call.policy(), (call.db, key), request).await?;
        Ok(call.call.reply(&decision, &details, &ApiCounterUsage::default()).into())
    }

    /// Returns the decision by `on_error` while the store does not answer; where the keys of this process decide
    /// instead, it says only that.
    pub(crate) fn stand_in(&self, call: &DialectCall, request: &Request, t: Timestamp) -> Decision {
        match self.on_error {
            OnError::Local => Decision { source: Source::Local, ..Decision::open(call.call.policy(), 0, t) },
            OnError::Allow => open(call, request, t),
            OnError::Deny => Decision { limited_by: Some(0), ..Decision::closed(CLOSED_FOR, t) },
        }
    }
}

/// Returns the decision that lets a request pass without counting it, in the form of one that charged it: some
/// conventions reply what was charged.
fn open(call: &DialectCall, request: &Request, t: Timestamp) -> Decision {
    let units = request.cost.get();
    Decision { charged: units, ..Decision::open(call.call.policy(), units, t) }
}

/// Checks the keys of a call, and the name that its namespace makes of one. The states of policies are not for callers
/// to add to.
pub(crate) fn check_keys(call: &DialectCall) -> Result<(), Fault> {
    let expected =
        "a key that does not begin with tg:{, where policies keep their states, and a namespace other than tg";
    call.keys.iter().try_for_each(|key| check_name(key))?;
    let mut names = call.keys.iter().map(Vec::as_slice).chain([call.call.state_key()]);
    match names.find(|name| name.starts_with(OF_POLICIES)) {
        Some(name) => Err(Fault::expected("key", expected, name)),
        None => Ok(()),
    }
}

/// Rewords the reply: Tollgate's script uses the words of the dialect's document, and clients of a published script
/// expect those of that script.
fn reword(output: Output, wording: Wording) -> Output {
    match output {
        Output::List(mut parts) if wording == Wording::Script => {
            if let Some(Output::Text(word)) = parts.first_mut()
                && word == b"block"
            {
                *word = b"deny".to_vec();
            }
            Output::List(parts)
        }
        other => other,
    }
}
