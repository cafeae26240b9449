//! Replaying the journal: its frames are applied in order to a store and to keys that were restored from the snapshot.

use std::collections::HashMap;

use tollgate_kernel::{StoreError, Timestamp};
use tollgate_memory::{Memory, MemoryPolicy};

use super::frame::{Extent, FrameItem, FramePiece, Holder, Refund, read_item};
use super::note::{Note, NoteSet};
use crate::counts::PolicyOwner;
use tollgate_keyspace::wire::WireReader;
use tollgate_keyspace::{ClockReadings, DATABASES, Keyspace, MAX_NAME};

/// The longest frame of several pieces: more than a key can hold.
const MAX_LEN: usize = 1 << 30;

/// The state that frames are applied to.
pub(super) struct JournalReplay<'a> {
    memory: &'a Memory,
    keys: &'a mut Keyspace,
    notes: &'a mut NoteSet,
    /// The policies by their numbers in frames.
    policies: HashMap<u64, MemoryPolicy, foldhash::fast::RandomState>,
    /// The pieces of a frame that is not yet complete.
    pieces: Vec<u8>,
    /// The time of the latest decision.
    pub(super) latest: Timestamp,
}

impl<'a> JournalReplay<'a> {
    pub(super) fn new(memory: &'a Memory, keys: &'a mut Keyspace, notes: &'a mut NoteSet, latest: Timestamp) -> Self {
        Self { memory, keys, notes, policies: HashMap::default(), pieces: Vec::new(), latest }
    }

    /// Applies a frame; returns an error if it cannot be applied.
    pub(super) fn frame(&mut self, body: &[u8]) -> Result<(), String> {
        let mut from = WireReader::new(body);
        while !from.is_done() {
            match read_item(&mut from).ok_or_else(invalid_frame)? {
                FrameItem::Piece(piece) => return self.piece(piece),
                item => self.item(item)?,
            }
        }
        // A frame in pieces was never completed, and so its decisions were never reported.
        self.pieces.clear();
        Ok(())
    }

    fn piece(&mut self, piece: FramePiece<'_>) -> Result<(), String> {
        if piece.is_first {
            self.pieces.clear();
        }
        if self.pieces.is_empty() != piece.is_first || self.pieces.len() + piece.bytes.len() > MAX_LEN {
            return Err(invalid_frame());
        }
        self.pieces.extend_from_slice(piece.bytes);
        if !piece.is_last {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.pieces);
        // A piece within pieces is refused, because it could recurse without end.
        match read_item(&mut WireReader::new(&whole)) {
            Some(FrameItem::Piece(_)) | None => Err(invalid_frame()),
            Some(_) => self.frame(&whole),
        }
    }

    fn item(&mut self, item: FrameItem<'_>) -> Result<(), String> {
        match item {
            FrameItem::Policy { id, policy, owner, may_pack } => {
                let prepared = self.memory.prepare_again(&policy, owner == PolicyOwner::Callers, may_pack);
                let prepared = prepared.map_err(|error| format!("policy {}: {error}", policy.name()))?;
                self.policies.insert(id, prepared);
            }
            FrameItem::Charges { id, charges, holder } => {
                let policy = self.policies.get(&id).ok_or_else(invalid_frame)?;
                for charge in charges {
                    StoreError::check_key(charge.key).map_err(|_| invalid_frame())?;
                    match holder {
                        Holder::Key => self.memory.charge_at(policy, charge.key, charge.units, charge.at),
                        Holder::Bucket => self.memory.charge_bucket_at(policy, charge.key, charge.units, charge.at),
                    }
                    self.latest = self.latest.max(charge.at);
                }
            }
            FrameItem::State { id, key, state, extent } => {
                let policy = self.policies.get(&id).ok_or_else(invalid_frame)?;
                StoreError::check_key(key).map_err(|_| invalid_frame())?;
                let state = state.read(policy.policy()).ok_or_else(invalid_frame)?;
                match extent {
                    Extent::Whole => self.memory.put_state(policy, key, state),
                    Extent::Part => self.memory.put_part(policy, key, state),
                }
            }
            FrameItem::Refund { id, key, refund: Refund { units, at, t } } => {
                let policy = self.policies.get(&id).ok_or_else(invalid_frame)?;
                StoreError::check_key(key).map_err(|_| invalid_frame())?;
                self.memory.refund_at(policy, key, units, at, t);
                self.latest = self.latest.max(t);
            }
            FrameItem::Call { call, now } => {
                self.latest = self.latest.max(now);
                // The reading of the machine's clock is unknown, so nothing expires by it. However, text at one of
                // these keys had expired, otherwise the call could not have been decided.
                call.places().for_each(|key| self.keys.forget_text(call.db, key));
                let decided = self.keys.decide(&call, ClockReadings { now, wall: Timestamp::default() });
                decided.map_err(|fault| format!("a call of {} that fitted before: {fault}", call.dialect.name))?;
            }
            FrameItem::Entry { db, key, entry } => {
                let mut from = WireReader::new(entry);
                self.keys.read_entry(db, key, &mut from).filter(|()| from.is_done()).ok_or_else(invalid_frame)?;
            }
            FrameItem::Gone { db, key } => {
                if usize::from(db) >= DATABASES || key.len() > MAX_NAME {
                    return Err(invalid_frame());
                }
                self.keys.forget(db, key);
            }
            FrameItem::Flush(db) if db.is_none_or(|db| usize::from(db) < DATABASES) => self.keys.flush(db),
            FrameItem::Shared(shared) => {
                let mut from = WireReader::new(shared);
                self.keys.read_shared(&mut from).filter(|()| from.is_done()).ok_or_else(invalid_frame)?;
            }
            FrameItem::Ban { policy, key, until, level } => {
                self.notes.add(Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
            }
            FrameItem::Generation(number) => self.notes.add(Note::Generation { number }),
            FrameItem::Flush(_) | FrameItem::Piece(_) => return Err(invalid_frame()),
        }
        Ok(())
    }
}

fn invalid_frame() -> String {
    "expected what a server of this version writes, found something else".to_owned()
}
