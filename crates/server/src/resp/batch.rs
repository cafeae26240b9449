//! Checks that stand in line, decided by one call of the store.
//!
//! Consecutive `TG.CHECK key policy` of one policy are what a pipeline of a client mostly is. They are
//! gathered as places in the bytes that came, so that nothing is copied, and decided when another command
//! comes, the line is long enough, or nothing more has come.

use std::sync::Arc;

use tollgate_core::{Decision, LONGEST_KEY, Request};

use super::commands::Args;
use super::decode::Place;
use super::session::Session;
use super::writer::Writer;
use crate::access::Scope;
use crate::desk::Known;
use crate::fault::Fault;
use crate::shared::Shared;

/// Checks decided by one call.
pub(crate) const MOST: usize = 64;

/// Checks of one policy that wait to be decided.
#[derive(Default)]
pub(crate) struct Batch {
    known: Option<Arc<Known>>,
    keys: Vec<Place>,
    decisions: Vec<Decision>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= MOST
    }

    /// Takes a command that is a plain check of the policy that is waited for, or of the first one;
    /// `false` if it has to be run by itself, after what waits. `from` is where the command's bytes begin.
    #[inline]
    pub(crate) fn takes(&mut self, args: &Args<'_>, from: usize, session: &mut Session, shared: &Shared) -> bool {
        let [name, key, text] = args.places else { return false };
        let bytes = args.bytes;
        if !bytes[name.clone()].eq_ignore_ascii_case(b"TG.CHECK")
            || key.is_empty()
            || key.len() > LONGEST_KEY
            || session.queue.is_some()
            || !session.scopes.has(Scope::Check)
        {
            return false;
        }
        let text = &bytes[text.clone()];
        if session.latest.as_ref().is_none_or(|(latest, _)| **latest != *text) {
            // A wrong one is answered by the command.
            let Ok(known) = shared.desk.policy(text, None) else { return false };
            session.latest = Some((text.into(), known));
        }
        let Some((_, known)) = &session.latest else { return false };
        match &self.known {
            Some(waiting) if !self.keys.is_empty() && !Arc::ptr_eq(waiting, known) => return false,
            Some(waiting) if Arc::ptr_eq(waiting, known) => {}
            _ => self.known = Some(Arc::clone(known)),
        }
        self.keys.push(from + key.start..from + key.end);
        true
    }

    /// Decides what waits, and writes the replies.
    #[inline]
    pub(crate) async fn decide(&mut self, bytes: &[u8], shared: &Shared, out: &mut Writer) {
        let Some(known) = self.known.as_deref().filter(|_| !self.keys.is_empty()) else { return };
        let mut keys = [&[][..]; MOST];
        for (key, place) in keys.iter_mut().zip(&self.keys) {
            *key = bytes.get(place.clone()).unwrap_or_default();
        }
        let keys = &keys[..self.keys.len().min(MOST)];
        shared.desk.metrics.checks(keys.len());
        match shared.desk.check_many(known, keys, &Request::ONE, &mut self.decisions).await {
            Ok(()) => self.decisions.iter().for_each(|decision| out.flat(decision)),
            Err(error) => {
                let fault = Fault::from(error);
                keys.iter().for_each(|_| out.fault(&fault));
            }
        }
        self.keys.clear();
    }
}
