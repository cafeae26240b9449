//! The keys of the other conventions. Front-ends reach them only through the methods here, which frame every change
//! before another connection can follow it.

use std::sync::{MutexGuard, PoisonError};

use tollgate_dialects::{DialectReply, Output};
use tollgate_kernel::Source;
use tollgate_keyspace::{DialectCall, Fault, KeyCommand, KeyOutcome, Keyspace, KeyspaceStats};
use tollgate_redis::{ForwardedCommand, ForwardedReply};

use super::Engine;
use crate::home::Home;

/// The reply to a call of a dialect, and who decided it.
#[derive(Debug)]
pub struct CallAnswer {
    /// The reply.
    pub output: Output,
    /// The home, or what stood in for it.
    pub source: Source,
}

/// The keys of the other conventions while no other connection reaches them.
pub struct LockedKeys<'a> {
    engine: &'a Engine,
    keys: MutexGuard<'a, Keyspace>,
}

impl LockedKeys<'_> {
    /// Runs an operation on the keys, and persists what it changed, whatever it returns. For calls of dialects,
    /// [`LockedKeys::decide_call`] writes less.
    #[inline]
    pub fn run<R>(&mut self, operation: impl FnOnce(&mut Keyspace) -> R) -> R {
        let done = operation(&mut self.keys);
        self.engine.home.persist_changes(&mut self.keys);
        done
    }

    /// Decides a call of a dialect, and persists it.
    pub fn decide_call(&mut self, call: &DialectCall) -> Result<DialectReply, Fault> {
        let now = self.engine.times();
        let decided = self.keys.decide(call, now);
        self.engine.home.persist_call(&mut self.keys, call, now.now);
        decided
    }
}

impl Engine {
    /// Locks the keys for several operations that belong together.
    pub fn lock_keys(&self) -> LockedKeys<'_> {
        LockedKeys { engine: self, keys: self.keys.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Runs one operation on the keys: see [`LockedKeys::run`].
    #[inline]
    pub fn on_keys<R>(&self, operation: impl FnOnce(&mut Keyspace) -> R) -> R {
        self.lock_keys().run(operation)
    }

    /// Decides one call of a dialect: see [`LockedKeys::decide_call`].
    pub fn decide_call(&self, call: &DialectCall) -> Result<DialectReply, Fault> {
        self.lock_keys().decide_call(call)
    }

    /// Returns the number of keys and the memory they take.
    pub fn keyspace_stats(&self) -> KeyspaceStats {
        self.lock_keys().keys.counts()
    }

    /// Decides a call of a dialect where the keys are, or by what stands in while their store does not answer.
    pub async fn ask_call(&self, call: &DialectCall) -> Result<CallAnswer, Fault> {
        match &self.home {
            Home::Embedded(_) => Ok(CallAnswer { output: self.decide_call(call)?.into(), source: Source::Home }),
            Home::Redis(store) => self.ask_store(store, call).await,
        }
    }

    /// Runs commands on keys of a database where the keys are, in order. No other command comes between those that name
    /// their keys and follow each other. Without `may_reset`, they take nothing from a limiter.
    pub async fn run_commands(&self, db: u8, may_reset: bool, commands: &[KeyCommand<'_>]) -> Vec<KeyOutcome> {
        let here = |commands: &[KeyCommand<'_>]| -> Vec<KeyOutcome> {
            let (now, mut keys) = (self.times(), self.lock_keys());
            let run = |command| keys.run(|keys| keys.run_command(db, command, may_reset, now));
            commands.iter().map(run).collect()
        };
        let Home::Redis(store) = &self.home else { return here(commands) };
        let outcomes = store.run_commands(db, may_reset, commands).await;
        for (command, outcome) in commands.iter().zip(&outcomes) {
            // What was counted here while the store did not answer goes too.
            if outcome.result.is_ok() && matches!(command, KeyCommand::Delete(_) | KeyCommand::Flush) {
                here(std::slice::from_ref(command));
            }
        }
        outcomes
    }

    /// Checks that callers may select a database.
    pub fn check_database(&self, db: u8) -> Result<(), Fault> {
        match &self.home {
            Home::Embedded(_) => Ok(()),
            Home::Redis(store) => Ok(store.redis.check_database(db)?),
        }
    }

    /// Returns whether there is a store to which scripts and functions can be passed on.
    pub fn runs_scripts(&self) -> bool {
        matches!(&self.home, Home::Redis(store) if store.redis.runs_scripts())
    }

    /// Passes a script or function on to the store as it is.
    pub async fn forward(
        &self,
        db: u8,
        command: ForwardedCommand,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<ForwardedReply, Fault> {
        match &self.home {
            Home::Embedded(_) => Err(Fault::wrong("expected a store that runs scripts: serve --store redis://…")),
            Home::Redis(store) => Ok(store.redis.forward(db, command, keys, args).await?),
        }
    }
}
