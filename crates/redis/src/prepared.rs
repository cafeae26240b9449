//! Policies as the server reads them, made once and kept. At most a thousand are; whoever uses more pays
//! for making them each time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tollgate_core::{Cost, Mode, Policy, Request, Timestamp};

use crate::call::{Arg, Call};
use crate::code::{self, Script, Word};
use crate::slot::state_key;

const MOST: usize = 1024;

/// A policy and what is made of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) policy: Policy,
    pub(crate) compact: Arc<str>,
    scripts: [OnceLock<Arc<Script>>; 4],
    /// As the store that stands in knows it.
    pub(crate) local: OnceLock<tollgate_memory::Prepared>,
}

/// How much a decision tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    Rest,
    Full,
}

#[derive(Debug, Default)]
pub(crate) struct Policies {
    known: RwLock<HashMap<u64, Vec<Arc<Prepared>>>>,
    hash: RandomState,
}

impl Policies {
    /// The policy, prepared.
    pub(crate) fn get(&self, policy: &Policy) -> Arc<Prepared> {
        let first = policy.limits().first().map(|limit| (limit.count(), limit.period()));
        let hash = self.hash.hash_one((policy.name(), policy.limits().len(), first));
        let find = |known: &HashMap<u64, Vec<Arc<Prepared>>>| {
            known.get(&hash)?.iter().find(|prepared| prepared.policy == *policy).cloned()
        };
        if let Some(prepared) = find(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return prepared;
        }
        let prepared = Arc::new(Prepared::new(policy));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.values().map(Vec::len).sum::<usize>() < MOST {
            known.entry(hash).or_default().push(prepared.clone());
        }
        prepared
    }
}

impl Prepared {
    fn new(policy: &Policy) -> Self {
        Self {
            policy: policy.clone(),
            compact: code::compact(policy).into(),
            scripts: [const { OnceLock::new() }; 4],
            local: OnceLock::new(),
        }
    }

    /// The call that decides.
    pub(crate) fn check(&self, key: &[u8], request: &Request, tells: Tells) -> Call {
        let mut args = Vec::with_capacity(6);
        args.push(Arg::Text(self.compact.clone()));
        if request.cost != Cost::ONE {
            args.extend([Arg::Word("COST"), Arg::Number(request.cost.get())]);
        }
        let mode = request.mode.unwrap_or(self.policy.mode());
        if mode != Mode::Binary {
            args.extend([Arg::Word("MODE"), Arg::Word(mode.name())]);
        }
        args.push(Arg::Word(match tells {
            Tells::Rest => "REST",
            Tells::Full => "FULL",
        }));
        self.call(if request.peek { Word::Peek } else { Word::Check }, key, args)
    }

    pub(crate) fn reset(&self, key: &[u8]) -> Call {
        self.call(Word::Reset, key, vec![Arg::Text(self.compact.clone())])
    }

    pub(crate) fn refund(&self, key: &[u8], units: Cost, at: Timestamp) -> Call {
        let args = vec![Arg::Text(self.compact.clone()), Arg::Number(units.get()), Arg::Number(at.get())];
        self.call(Word::Refund, key, args)
    }

    /// The call that decides several parts together.
    pub(crate) fn all(parts: &[(Arc<Prepared>, &[u8], Cost)]) -> Call {
        let keys = parts.iter().map(|(prepared, key, _)| prepared.state_key(key)).collect();
        let args =
            parts.iter().flat_map(|(prepared, _, cost)| [Arg::Text(prepared.compact.clone()), Arg::Number(cost.get())]);
        let policies: Vec<&Policy> = parts.iter().map(|(prepared, ..)| &prepared.policy).collect();
        Call::new(Some(code::function(Word::All)), code::script(Word::All, &policies), keys, args.collect())
    }

    pub(crate) fn state_key(&self, key: &[u8]) -> Vec<u8> {
        state_key(key, self.policy.name())
    }

    fn call(&self, word: Word, key: &[u8], args: Vec<Arg>) -> Call {
        let place = match word {
            Word::Check | Word::All => 0,
            Word::Peek => 1,
            Word::Reset => 2,
            Word::Refund => 3,
        };
        let script = self.scripts[place].get_or_init(|| code::script(word, &[&self.policy]));
        Call::new(Some(code::function(word)), script.clone(), vec![self.state_key(key)], args)
    }
}
