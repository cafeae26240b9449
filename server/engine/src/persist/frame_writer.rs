//! Frames the decisions that are made while the order lock is held.

use std::sync::MutexGuard;

use tollgate_journal::JournalWriter;
use tollgate_kernel::{Decision, Request, Timestamp};
use tollgate_memory::{Memory, PlacedState};

use super::binding::FramingState;
use super::embedded_policy::{ClockLag, EmbeddedPolicy};
use super::frame::{
    Charge, Extent, Holder, MAX_LEN, Refund, begin_charges, pieces, put_ban, put_charge, put_generation, put_piece,
    put_refund, put_state,
};
use super::note::Note;
use super::touched::TouchedKeys;

/// The kinds of scopes of touched keys: a policy's number, or a database.
const OF_POLICY: u8 = 0;
pub(super) const OF_DATABASE: u8 = 1;

/// A request on several keys.
pub(super) struct EmbeddedRequest<'a> {
    pub(super) policy: &'a EmbeddedPolicy,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) request: &'a Request,
}

impl<'a> EmbeddedRequest<'a> {
    /// Returns the charges that its decisions cause, one for each key.
    #[inline]
    fn charges(&self, decisions: &[Decision]) -> impl Iterator<Item = Charge<'a>> {
        let (policy, request) = (self.policy.policy(), self.request);
        decisions.iter().zip(self.keys).map(move |(decision, key)| Charge {
            key,
            units: request.leaves(policy, decision),
            at: decision.at,
        })
    }
}

/// Writes frames while it holds the order lock.
pub(super) struct FrameWriter<'a> {
    // The state is released first: releasing the order lock may write.
    state: MutexGuard<'a, FramingState>,
    journal: JournalWriter<'a>,
}

impl<'a> FrameWriter<'a> {
    pub(super) fn new(journal: JournalWriter<'a>, state: MutexGuard<'a, FramingState>) -> Self {
        Self { state, journal }
    }

    /// Records a fact for snapshots. Bans are not recorded here: their owner lists them when a snapshot is written.
    pub(super) fn note(&mut self, note: &Note) {
        if let Note::Generation { number } = note {
            self.state.generation = *number;
        }
    }

    /// Frames the charges of decisions that were just made, one for each key.
    #[inline]
    pub(super) fn frame_charges(&mut self, memory: &Memory, request: &EmbeddedRequest<'_>, decisions: &[Decision]) {
        let policy = request.policy;
        let lag = ClockLag::of_all(decisions.iter().map(|decision| policy.clock_lag(decision.at)));
        if lag.is_some() || self.state.touched.is_some() || memory.has_buckets(policy) {
            return self.frame_charges_whole(memory, request, decisions, lag);
        }
        let charged = || request.charges(decisions).filter(|charge| charge.units > 0);
        let Some(first) = charged().next() else { return };
        let file = self.journal.file();
        self.journal.frame(|to| {
            policy.define(file, to);
            begin_charges(Holder::Key, policy.id(), charged().count(), first.at, to);
            charged().fold(first.at, |before, charge| put_charge(charge, before, to));
        });
    }

    /// Does the same while a snapshot is written; or after the clock was set back, when a decision may have corrected
    /// the state of a key without charging it; or while some keys have no place of their own.
    #[cold]
    fn frame_charges_whole(
        &mut self,
        memory: &Memory,
        request: &EmbeddedRequest<'_>,
        decisions: &[Decision],
        lag: Option<ClockLag>,
    ) {
        let each = request.charges(decisions).map(|charge| (request.policy, charge, lag));
        self.frame_changes(memory, &each.collect::<Vec<_>>());
    }

    /// Frames decisions that were made together.
    pub(super) fn frame_charges_together(&mut self, memory: &Memory, parts: &[(&EmbeddedPolicy, Charge<'_>)]) {
        let each = parts.iter().map(|(policy, charge)| (*policy, *charge, policy.clock_lag(charge.at)));
        self.frame_changes(memory, &each.collect::<Vec<_>>());
    }

    /// Frames charges in one frame, all of them or none: each individually, or as the whole state of its key after
    /// them.
    fn frame_changes(&mut self, memory: &Memory, changes: &[ChargeChange<'_>]) {
        let (mut body, mut whole) = (Vec::new(), Vec::new());
        for (policy, charge, lag) in changes.iter().filter(|(_, charge, lag)| charge.units > 0 || lag.is_some()) {
            // A state that was written whole includes everything decided here.
            if whole.contains(&(policy.id(), charge.key)) {
                continue;
            }
            if self.needs_whole(policy, charge.key, *lag) {
                whole.push((policy.id(), charge.key));
                policy.define(self.journal.file(), &mut body);
                put_whole(memory, policy, charge, changes, &mut body);
            } else if charge.units > 0 {
                policy.define(self.journal.file(), &mut body);
                let has_place = !memory.has_buckets(policy) || memory.has_place(policy, charge.key);
                put_one(has_place, policy, *charge, &mut body);
            }
        }
        self.frame_body(&body);
    }

    /// Frames a refund, if it changed anything: individually, or as the whole state of the key after it.
    pub(super) fn frame_refund(
        &mut self,
        memory: &Memory,
        policy: &EmbeddedPolicy,
        key: &[u8],
        refund: Option<Refund>,
        t: Timestamp,
    ) {
        let lag = policy.clock_lag(t);
        if refund.is_none() && lag.is_none() {
            return;
        }
        match (self.needs_whole(policy, key, lag), refund) {
            // In this case a refund from a bucket is lost.
            (true, _) => self.frame_state(memory, policy, key),
            (false, None) => {}
            (false, Some(refund)) => {
                let file = self.journal.file();
                self.frame(|to| {
                    policy.define(file, to);
                    put_refund(policy.id(), key, refund, to);
                });
            }
        }
    }

    /// Sets whether keys are written whole at their first change.
    pub(super) fn set_touched(&mut self, touched: Option<TouchedKeys>) {
        self.state.touched = touched;
        // A good time to clear them: a key that is cleared is merely written whole once more.
        self.state.written_whole = None;
    }

    /// Returns whether the whole state of a key must be framed after a change; records that it was.
    fn needs_whole(&mut self, policy: &EmbeddedPolicy, key: &[u8], lag: Option<ClockLag>) -> bool {
        let is_touched = self.touch((OF_POLICY, policy.id()), key);
        let is_written = match lag {
            None => true,
            Some(ClockLag::Always) => false,
            Some(ClockLag::Once(spell)) => {
                let written = self.state.written_whole.get_or_insert_with(TouchedKeys::new);
                written.touch(0, (policy.id(), spell), key)
            }
        };
        !is_touched || !is_written
    }

    /// Frames the state in a key's own place.
    pub(super) fn frame_state(&mut self, memory: &Memory, policy: &EmbeddedPolicy, key: &[u8]) {
        self.touch((OF_POLICY, policy.id()), key);
        let (file, remembered) = (self.journal.file(), memory.state(policy, key));
        self.frame(|to| {
            policy.define(file, to);
            put_remembered(policy, key, &remembered, to);
        });
    }

    /// Returns whether changes of a key may be framed individually: no snapshot is being written, or the key was
    /// written whole since it began. Records that it was.
    pub(super) fn touch(&mut self, scope: (u8, u64), key: &[u8]) -> bool {
        let file = self.journal.file();
        self.state.touched.as_mut().is_none_or(|touched| touched.touch(file, scope, key))
    }

    pub(super) fn frame(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        fill(&mut body);
        self.frame_body(&body);
    }

    /// Frames a body, in pieces if it is long.
    fn frame_body(&mut self, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        if body.len() <= MAX_LEN {
            return self.journal.frame(|to| to.extend_from_slice(body));
        }
        pieces(body).for_each(|piece| self.journal.frame(|to| put_piece(piece, to)));
    }
}

/// A charge to a key, and whether its clock was set back.
type ChargeChange<'a> = (&'a EmbeddedPolicy, Charge<'a>, Option<ClockLag>);

/// Writes the whole state of a key after it was charged.
fn put_whole(
    memory: &Memory,
    policy: &EmbeddedPolicy,
    charge: &Charge<'_>,
    changes: &[ChargeChange<'_>],
    to: &mut Vec<u8>,
) {
    let remembered = memory.state(policy, charge.key);
    if !remembered.shares {
        return put_remembered(policy, charge.key, &remembered, to);
    }
    // A bucket belongs to many keys, so it is not written whole; only the charge to it is. If a snapshot already
    // contains the charge it may be counted twice there, but it is not lost.
    let of_key = || changes.iter().filter(|(other, of, _)| (other.id(), of.key) == (policy.id(), charge.key));
    let units = of_key().fold(0, |sum: u64, (_, of, _)| sum.saturating_add(of.units));
    let at = of_key().map(|(_, of, _)| of.at).max().unwrap_or(charge.at);
    if units > 0 {
        put_one(memory.has_place(policy, charge.key), policy, Charge { units, at, ..*charge }, to);
    }
    if remembered.own.is_some() {
        put_remembered(policy, charge.key, &remembered, to);
    }
}

/// Writes the state in a key's own place. If that is empty, the key is treated as one without a place.
fn put_remembered(policy: &EmbeddedPolicy, key: &[u8], remembered: &PlacedState, to: &mut Vec<u8>) {
    let PlacedState { own, shares, .. } = remembered;
    let extent = if *shares && own.is_some() { Extent::Part } else { Extent::Whole };
    put_state(extent, policy.id(), policy.policy(), key, own.as_ref(), to);
}

/// Writes a single charge to a key, depending on whether the key has a place of its own for all limits.
fn put_one(has_place: bool, policy: &EmbeddedPolicy, charge: Charge<'_>, to: &mut Vec<u8>) {
    let holder = if has_place { Holder::Key } else { Holder::Bucket };
    begin_charges(holder, policy.id(), 1, charge.at, to);
    put_charge(charge, charge.at, to);
}

/// Writes a fact as it appears in frames and snapshots.
pub(super) fn put_note(note: &Note, to: &mut Vec<u8>) {
    match note {
        Note::Ban { policy, key, until, level } => put_ban(policy, key, *until, *level, to),
        Note::Generation { number } => put_generation(*number, to),
    }
}
