//! Policies in the form that the server reads, prepared once and cached. The cache holds at most 1024 policies; any
//! further policy is prepared again for each call.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tollgate_kernel::{Cost, Mode, Policy, Request, StoreError, Timestamp};

use crate::call::{Arg, Call};
use crate::code::{self, Script, Word};
use crate::commands;
use crate::reply::Ends;
use crate::settings::Packaging;
use crate::slot::state_key;

const MAX: usize = 1024;

/// A policy and its prepared forms.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) policy: Policy,
    written: Written,
    /// The form for the embedded store that stands in.
    pub(crate) local: OnceLock<tollgate_memory::Prepared>,
}

/// The form that the server reads.
#[derive(Debug)]
enum Written {
    /// For our Lua: numbers, which are read fastest, and the scripts. A function needs no script.
    Lua { compact: Arc<str>, scripts: [OnceLock<Arc<Script>>; 4] },
    /// For commands of the server: text.
    Commands(Arc<str>),
}

/// How detailed the reply to a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    Rest,
    Full,
}

/// One of several parts decided together.
pub(crate) type Part<'a> = (Arc<Prepared>, &'a [u8], Cost);

#[derive(Debug)]
pub(crate) struct Policies {
    packaging: Packaging,
    known: RwLock<HashMap<u64, Vec<Arc<Prepared>>>>,
    hash: RandomState,
}

impl Policies {
    pub(crate) fn new(packaging: Packaging) -> Self {
        Self { packaging, known: RwLock::default(), hash: RandomState::new() }
    }

    /// Returns what the server's replies end with.
    pub(crate) fn ends(&self) -> Ends {
        if self.packaging == Packaging::Commands { Ends::Source } else { Ends::Integers }
    }

    /// Returns the prepared form of a policy.
    pub(crate) fn get(&self, policy: &Policy) -> Result<Arc<Prepared>, StoreError> {
        let first = policy.limits().first().map(|limit| (limit.count(), limit.period()));
        let hash = self.hash.hash_one((policy.name(), policy.limits().len(), first));
        let find = |known: &HashMap<u64, Vec<Arc<Prepared>>>| {
            known.get(&hash)?.iter().find(|prepared| prepared.policy == *policy).cloned()
        };
        if let Some(prepared) = find(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(prepared);
        }
        let prepared = Arc::new(Prepared::new(policy, self.packaging)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.values().map(Vec::len).sum::<usize>() < MAX {
            known.entry(hash).or_default().push(prepared.clone());
        }
        Ok(prepared)
    }
}

impl Prepared {
    pub(crate) fn new(policy: &Policy, packaging: Packaging) -> Result<Self, StoreError> {
        let written = match packaging {
            Packaging::Commands => Written::Commands(commands::text(policy)?),
            Packaging::Function | Packaging::Script | Packaging::Auto => {
                Written::Lua { compact: code::compact(policy).into(), scripts: [const { OnceLock::new() }; 4] }
            }
        };
        Ok(Self { policy: policy.clone(), written, local: OnceLock::new() })
    }

    /// Returns the call that decides.
    pub(crate) fn check(&self, key: &[u8], request: &Request, tells: Tells) -> Call {
        let mut args = Vec::with_capacity(5);
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
        self.call(Word::Reset, key, Vec::new())
    }

    pub(crate) fn refund(&self, key: &[u8], units: Cost, at: Timestamp) -> Call {
        self.call(Word::Refund, key, vec![Arg::Number(units.get()), Arg::Number(at.get())])
    }

    /// Returns the call that decides several parts together; all parts have the same form.
    pub(crate) fn all(parts: &[Part<'_>]) -> Call {
        if parts.iter().any(|(prepared, ..)| matches!(prepared.written, Written::Commands(_))) {
            let parts = parts.iter().map(|(prepared, key, cost)| (prepared.place(key), *cost));
            return commands::all(parts);
        }
        let keys = parts.iter().map(|(prepared, key, _)| prepared.state_key(key)).collect();
        let args = parts.iter().flat_map(|(prepared, _, cost)| [Arg::Text(prepared.text()), Arg::Number(cost.get())]);
        let policies: Vec<&Policy> = parts.iter().map(|(prepared, ..)| &prepared.policy).collect();
        Call::new(Some(code::function(Word::All)), code::script(Word::All, &policies), keys, args.collect())
    }

    pub(crate) fn state_key(&self, key: &[u8]) -> Vec<u8> {
        state_key(key, self.policy.name())
    }

    /// Returns the policy as the server reads it.
    fn text(&self) -> Arc<str> {
        match &self.written {
            Written::Lua { compact: text, .. } | Written::Commands(text) => text.clone(),
        }
    }

    fn place<'a>(&'a self, key: &'a [u8]) -> commands::Place<'a> {
        commands::Place { key, text: self.text(), name: self.policy.name() }
    }

    /// Returns a call about `key`, with `args` after the policy.
    fn call(&self, word: Word, key: &[u8], args: Vec<Arg>) -> Call {
        let Written::Lua { compact, scripts } = &self.written else {
            return commands::call(word, &self.place(key), args);
        };
        let place = match word {
            Word::Check | Word::All => 0,
            Word::Peek => 1,
            Word::Reset => 2,
            Word::Refund => 3,
        };
        let script = scripts[place].get_or_init(|| code::script(word, &[&self.policy]));
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(Arg::Text(compact.clone()));
        all.extend(args);
        Call::new(Some(code::function(word)), script.clone(), vec![self.state_key(key)], all)
    }
}
