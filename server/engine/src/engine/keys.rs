//! The keys of the other conventions. Front-ends reach them only through the methods here, which frame every change
//! before another connection can follow it.

use std::sync::{MutexGuard, PoisonError};

use tollgate_dialects::DialectReply;
use tollgate_kernel::StoreError;
use tollgate_keyspace::{DialectCall, Fault, Keyspace, KeyspaceStats};
use tollgate_redis::{CustomScript, Output};

use super::Engine;

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

    /// Runs a script in the store that is the home, and so keeps the keys. The embedded store runs none.
    pub async fn run_script(
        &self,
        script: &CustomScript,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Result<Output, StoreError> {
        self.home.run_script(script, keys, args).await
    }
}
