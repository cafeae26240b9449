//! The names of states with a namespace: `NAMESPACE:{KEY}`, beside what an application stores at KEY.
//!
//! The table knows the names that were derived from each key, so that deleting a key clears its states in all
//! namespaces. Their number is bounded. Earlier releases stored these states at the key itself; they are moved when they
//! are read.

use tollgate_dialects::key_of_name;
use tollgate_kernel::Timestamp;

use super::{MAX_SCOPES, crowded};
use crate::call::DialectCall;
use crate::entry::{KeyEntry, KeyValue, LimiterState, ScopeState};
use crate::fault::Fault;
use crate::{ClockReadings, Keyspace};

impl Keyspace {
    /// Refuses another namespace for a key that has too many: clearing a key clears all of them.
    pub(super) fn check_namespaces(&self, dialect_call: &DialectCall, times: ClockReadings) -> Result<(), Fault> {
        let (db, call) = (dialect_call.db, &dialect_call.call);
        let (Some(own), [key]) = (call.state_name(), dialect_call.keys.as_slice()) else { return Ok(()) };
        let is_other = |name: &&[u8]| *name != own && self.table.get(db, name, times).is_some();
        let others = self.table.names_of(db, key).filter(is_other).count();
        if others < MAX_SCOPES { Ok(()) } else { Err(crowded(others + 1)) }
    }

    /// Returns whether a key has states at names that were derived from it.
    pub fn has_namespaces(&self, db: u8, key: &[u8], now: impl Into<ClockReadings>) -> bool {
        let now = now.into();
        self.table.names_of(db, key).any(|name| self.table.get(db, name, now).is_some())
    }

    /// Clears the states of a key at the names that were derived from it; returns whether there was one. What other
    /// dialects store at such a name stays.
    pub(crate) fn clear_namespaces(&mut self, db: u8, key: &[u8], now: ClockReadings) -> bool {
        let names: Vec<Box<[u8]>> = self.table.names_of(db, key).map(Into::into).collect();
        let mut cleared = false;
        for name in names {
            let left = self.table.change(db, &name, now, |entry| {
                let KeyValue::Limiter(limiter) = &mut entry.value else { return true };
                let before = limiter.parts.len();
                limiter.parts.retain(|part| !is_derived(&part.scope, key, &name));
                cleared |= limiter.parts.len() < before;
                entry.expires = limiter.until().or(entry.expires);
                !limiter.parts.is_empty()
            });
            if left == Some(false) {
                self.table.remove(db, &name);
            }
        }
        cleared
    }

    /// Records that the name at which a call's state is stored was derived from its key, if it was.
    pub(super) fn derive_name(&mut self, dialect_call: &DialectCall, name: &[u8]) {
        if let (Some(_), [key]) = (dialect_call.call.state_name(), dialect_call.keys.as_slice()) {
            self.table.derive(dialect_call.db, key, name);
        }
    }

    /// Stores an entry that was read. Earlier releases stored states with a namespace at the key itself.
    pub(crate) fn put_read(&mut self, db: u8, key: &[u8], mut entry: KeyEntry) {
        let KeyValue::Limiter(limiter) = &mut entry.value else { return self.table.put(db, key, entry) };
        let mut moved = Vec::new();
        for part in std::mem::take(&mut limiter.parts) {
            match derived_name(&part.scope, key) {
                Some(name) => moved.push((name, part)),
                None => limiter.parts.push(part),
            }
        }
        limiter.parts.shrink_to_fit();
        let of = key_of_name(key).filter(|of| limiter.parts.iter().any(|part| is_derived(&part.scope, of, key)));
        let is_empty = limiter.parts.is_empty() && !moved.is_empty();
        let expires = entry.expires;
        if is_empty {
            self.table.remove(db, key);
        } else {
            self.table.put(db, key, entry);
        }
        of.into_iter().for_each(|of| self.table.derive(db, of, key));
        for (name, part) in moved {
            self.put_moved(db, (key, &name), part, expires);
        }
    }

    /// Stores the state of a scope at the name that was derived from its key.
    fn put_moved(&mut self, db: u8, (key, name): (&[u8], &[u8]), part: ScopeState, expires: Option<Timestamp>) {
        let until = expires.map_or(part.until, |expires| expires.min(part.until));
        let mut part = Some(ScopeState { until, ..part });
        self.table.change(db, name, Timestamp::default().into(), |entry| {
            if let (KeyValue::Limiter(limiter), Some(part)) = (&mut entry.value, part.take()) {
                limiter.parts.retain(|other| other.scope != part.scope);
                limiter.parts.push(part);
                entry.expires = limiter.until();
            }
        });
        if let Some(part) = part {
            let limiter = KeyValue::Limiter(Box::new(LimiterState { parts: vec![part] }));
            self.table.put(db, name, KeyEntry::new(limiter, Some(until)));
        }
        self.table.derive(db, key, name);
    }
}

/// Returns whether the state of a scope is stored at a name because the name was derived from a key.
fn is_derived(scope: &[u8], key: &[u8], name: &[u8]) -> bool {
    derived_name(scope, key).is_some_and(|derived| derived == name)
}

/// Returns the name that was derived from a key for the state of a scope, if the scope has a namespace of that key.
fn derived_name(scope: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let space = scope.iter().position(|byte| *byte == b' ')?;
    let namespace = tollgate_dialects::namespace_of(&scope[space + 1..], key)?;
    tollgate_dialects::state_name(namespace, key)
}
