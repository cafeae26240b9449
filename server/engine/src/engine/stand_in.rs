//! Calls of dialects where the keys are in a store. While it does not answer, the server decides as `on_error` says, and
//! each such answer says so.

use tollgate_dialects::{Action, ApiCounterUsage, DialectReply};
use tollgate_kernel::{Request, Source, StoreError};
use tollgate_keyspace::{DialectCall, Fault};

use super::Engine;
use super::keys::CallAnswer;
use crate::store::{StoreHome, check_keys, fault_of};

impl Engine {
    /// Decides a call of a dialect in a store, or by what stands in for it.
    pub(crate) async fn ask_store(&self, store: &StoreHome, call: &DialectCall) -> Result<CallAnswer, Fault> {
        check_keys(call)?;
        let is_reset = *call.call.action() == Action::Reset;
        if is_reset {
            // What was counted here while the store did not answer goes too.
            self.decide_call(call)?;
        }
        match store.call(call).await {
            Ok(output) => Ok(CallAnswer { output, source: Source::Home }),
            Err(away @ StoreError::Away { .. }) => match call.call.action() {
                Action::Check(request) => self.stand_in(store, call, request),
                Action::Reset => Err(away.into()),
            },
            Err(StoreError::Refused(line)) => Err(fault_of(&line)),
            Err(error) => Err(error.into()),
        }
    }

    fn stand_in(&self, store: &StoreHome, call: &DialectCall, request: &Request) -> Result<CallAnswer, Fault> {
        let decision = store.stand_in(call, request, call.call.time(self.times().now)?);
        let reply = match decision.source {
            Source::Local => self.decide_here(store, call)?,
            _ => {
                let details = decision.details(call.call.policy());
                call.call.reply(&decision, &details, &ApiCounterUsage::default())
            }
        };
        store.redis.count_decision(decision.source);
        Ok(CallAnswer { output: reply.into(), source: decision.source })
    }

    /// Decides a call on the keys of this process, by its share of each limit.
    fn decide_here(&self, store: &StoreHome, call: &DialectCall) -> Result<DialectReply, Fault> {
        if store.redis.share() >= 1.0 {
            return self.decide_call(call);
        }
        let (keys, args) = (call.keys.clone(), call.args.clone());
        let parsed = (call.dialect.parse)(&as_slices(&keys), &as_slices(&args))?.speaking(call.wording);
        let shared = store.redis.share_of(parsed.policy());
        let (dialect, db, wording) = (call.dialect, call.db, call.wording);
        self.decide_call(&DialectCall { dialect, call: parsed.under(shared), db, keys, args, wording })
    }
}

fn as_slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(Vec::as_slice).collect()
}
