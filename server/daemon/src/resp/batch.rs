//! Consecutive checks, decided by one call of the store.
//!
//! A pipeline of a client mostly consists of consecutive `TG.CHECK key policy` of one policy. They are collected as
//! ranges of the bytes that arrived, so that nothing is copied, and decided when another command arrives, the batch is
//! full, or nothing more has arrived.

use std::sync::Arc;

use tollgate_kernel::{Decision, MAX_KEY, Request};
use tollgate_telemetry::traces::RequestSpan;

use super::commands::{Args, parse_check};
use super::decode::ArgSpan;
use super::session::Session;
use super::writer::RespWriter;
use crate::access::Scope;
use crate::shared::ServerState;
use crate::spans;
use tollgate_engine::{DetailLevel, EnginePolicy};
use tollgate_keyspace::{Fault, FaultCode};

/// The most checks decided by one call.
pub(crate) const MAX: usize = 64;
/// The number of checks that an idle connection keeps room for.
const KEPT: usize = 16;

/// The longest text, and the most limits, of a check that a connection remembers: it is kept until the connection sends
/// a different one.
const MAX_TAIL: usize = 512;
const MAX_LIMITS: usize = 8;

/// What checks that differ only in the key have in common.
#[derive(Debug)]
pub(crate) struct CheckTemplate {
    /// The bytes of a command from its policy on: equal bytes ask the same.
    tail: Box<[u8]>,
    known: Arc<EnginePolicy>,
    request: Request,
    tells: DetailLevel,
    source: bool,
}

/// Checks of one kind that wait to be decided.
#[derive(Default)]
pub(crate) struct CheckBatch {
    template: Option<Arc<CheckTemplate>>,
    keys: Vec<ArgSpan>,
    decisions: Vec<Decision>,
}

impl CheckBatch {
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= MAX
    }

    /// Adds a command that is a check of the same kind as those that wait, or the first one; returns `false` if it has
    /// to be run by itself, after those that wait. `from` is where the command's bytes begin.
    #[inline]
    pub(crate) fn push(&mut self, args: &Args<'_>, from: usize, session: &mut Session, shared: &ServerState) -> bool {
        let [name, key, policy, ..] = args.spans else { return false };
        let bytes = args.bytes;
        if !bytes[name.clone()].eq_ignore_ascii_case(b"TG.CHECK")
            || key.is_empty()
            || key.len() > MAX_KEY
            || session.queue.is_some()
            || !session.scopes.has(Scope::Check)
        {
            return false;
        }
        let tail = &bytes[policy.start..];
        let is_same = |latest: &Arc<CheckTemplate>| *latest.tail == *tail && shared.engine.is_current(&latest.known);
        if !session.latest.as_ref().is_some_and(is_same) {
            match CheckTemplate::parse(args, tail, shared) {
                Some(template) => session.latest = Some(Arc::new(template)),
                None => return false,
            }
        }
        let Some(latest) = &session.latest else { return false };
        match &self.template {
            Some(waiting) if Arc::ptr_eq(waiting, latest) => {}
            Some(_) if !self.keys.is_empty() => return false,
            _ => self.template = Some(Arc::clone(latest)),
        }
        self.keys.push(from + key.start..from + key.end);
        true
    }

    /// Decides the waiting checks, and writes the replies.
    #[inline]
    pub(crate) async fn decide(&mut self, bytes: &[u8], shared: &ServerState, out: &mut RespWriter) {
        let Some(template) = self.template.as_deref().filter(|_| !self.keys.is_empty()) else { return };
        let mut keys = [&[][..]; MAX];
        for (key, span) in keys.iter_mut().zip(&self.keys) {
            *key = bytes.get(span.clone()).unwrap_or_default();
        }
        let keys = &keys[..self.keys.len().min(MAX)];
        shared.metrics.checks(keys.len());
        let span = shared.engine.trace(|| None);
        let rest = template.tells != DetailLevel::Flat;
        let done = shared.engine.check_many(&template.known, keys, &template.request, &mut self.decisions).await;
        if let Some(span) = span {
            let decided = done.is_ok().then_some(self.decisions.as_slice());
            traced(span, shared, &template.known, keys, decided);
        }
        match done {
            Ok(()) if rest || template.source => {
                self.decisions.iter().for_each(|decision| out.decision(decision, rest, &[], template.source));
            }
            Ok(()) => self.decisions.iter().for_each(|decision| out.flat(decision)),
            Err(error) => {
                let fault = Fault::from(error);
                keys.iter().for_each(|_| out.fault(&fault));
            }
        }
        self.keys.clear();
    }

    /// Releases the memory that only long pipelines need.
    pub(crate) fn release(&mut self) {
        if self.decisions.capacity() > KEPT {
            (self.keys, self.decisions) = (Vec::new(), Vec::new());
        }
    }
}

/// Ends the span of checks.
#[cold]
fn traced(
    mut span: RequestSpan,
    shared: &ServerState,
    known: &EnginePolicy,
    keys: &[&[u8]],
    decided: Option<&[Decision]>,
) {
    span.name("TG.CHECK");
    let decisions = decided.unwrap_or_default();
    spans::decisions(&mut span, &shared.engine, known, keys.iter().copied(), decisions);
    if decided.is_none() {
        span.fail(FaultCode::Away.word());
    }
    shared.engine.end_trace(span);
}

impl CheckTemplate {
    /// Returns `None` if the command is not valid, which is reported when it is run by itself; if it asks for the
    /// details of each limit, which are answered one by one; or if it is longer than what is remembered.
    #[cold]
    fn parse(args: &Args<'_>, tail: &[u8], shared: &ServerState) -> Option<Self> {
        if tail.len() > MAX_TAIL {
            return None;
        }
        let (ask, source) = parse_check(args, shared, false).ok()?;
        if ask.detail == DetailLevel::Full || ask.part.known.policy.limits().len() > MAX_LIMITS {
            return None;
        }
        let request = ask.request();
        Some(Self { tail: tail.into(), known: ask.part.known, request, tells: ask.detail, source })
    }
}
