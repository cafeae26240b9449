//! Replaying the journal: its frames are applied in order to a store and to keys that were restored from the snapshot.

use std::collections::HashMap;

use tollgate_kernel::{StoreError, Timestamp};
use tollgate_memory::{Memory, Prepared};

use super::frame::{Extent, Holder, Item, Piece, Refund, read_item};
use super::note::{Note, Notes};
use crate::counts::Whose;
use tollgate_keyspace::wire::Take;
use tollgate_keyspace::{DATABASES, Keys, MAX_NAME, Times};

/// The longest frame of several pieces: more than a key can hold.
const MAX_LEN: usize = 1 << 30;

/// The state that frames are applied to.
pub(super) struct Replay<'a> {
    memory: &'a Memory,
    keys: &'a mut Keys,
    notes: &'a mut Notes,
    /// The policies by their numbers in frames.
    policies: HashMap<u64, Prepared, foldhash::fast::RandomState>,
    /// The pieces of a frame that is not yet complete.
    pieces: Vec<u8>,
    /// The time of the latest decision.
    pub(super) latest: Timestamp,
}

impl<'a> Replay<'a> {
    pub(super) fn new(memory: &'a Memory, keys: &'a mut Keys, notes: &'a mut Notes, latest: Timestamp) -> Self {
        Self { memory, keys, notes, policies: HashMap::default(), pieces: Vec::new(), latest }
    }

    /// Applies a frame; returns an error if it cannot be applied.
    pub(super) fn frame(&mut self, body: &[u8]) -> Result<(), String> {
        let mut from = Take::new(body);
        while !from.is_done() {
            match read_item(&mut from).ok_or_else(strange)? {
                Item::Piece(piece) => return self.piece(piece),
                item => self.item(item)?,
            }
        }
        // A frame in pieces was never completed, and so its decisions were never reported.
        self.pieces.clear();
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), String> {
        if piece.is_first {
            self.pieces.clear();
        }
        if self.pieces.is_empty() != piece.is_first || self.pieces.len() + piece.bytes.len() > MAX_LEN {
            return Err(strange());
        }
        self.pieces.extend_from_slice(piece.bytes);
        if !piece.is_last {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.pieces);
        // A piece within pieces is refused, because it could recurse without end.
        match read_item(&mut Take::new(&whole)) {
            Some(Item::Piece(_)) | None => Err(strange()),
            Some(_) => self.frame(&whole),
        }
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), String> {
        match item {
            Item::Policy { id, policy, whose, may_pack } => {
                let prepared = self.memory.prepare_again(&policy, whose == Whose::Callers, may_pack);
                let prepared = prepared.map_err(|error| format!("policy {}: {error}", policy.name()))?;
                self.policies.insert(id, prepared);
            }
            Item::Charges { id, charges, holder } => {
                let policy = self.policies.get(&id).ok_or_else(strange)?;
                for charge in charges {
                    StoreError::check_key(charge.key).map_err(|_| strange())?;
                    match holder {
                        Holder::Key => self.memory.charge_at(policy, charge.key, charge.units, charge.at),
                        Holder::Bucket => self.memory.charge_bucket_at(policy, charge.key, charge.units, charge.at),
                    }
                    self.latest = self.latest.max(charge.at);
                }
            }
            Item::State { id, key, state, extent } => {
                let policy = self.policies.get(&id).ok_or_else(strange)?;
                StoreError::check_key(key).map_err(|_| strange())?;
                let state = state.read(policy.policy()).ok_or_else(strange)?;
                match extent {
                    Extent::Whole => self.memory.put_state(policy, key, state),
                    Extent::Part => self.memory.put_part(policy, key, state),
                }
            }
            Item::Refund { id, key, refund: Refund { units, at, t } } => {
                let policy = self.policies.get(&id).ok_or_else(strange)?;
                StoreError::check_key(key).map_err(|_| strange())?;
                self.memory.refund_at(policy, key, units, at, t);
                self.latest = self.latest.max(t);
            }
            Item::Spoken { spoken, now } => {
                self.latest = self.latest.max(now);
                // The reading of the machine's clock is unknown, so nothing expires by it. However, text at one of
                // these keys had expired, otherwise the call could not have been decided.
                spoken.keys.iter().for_each(|key| self.keys.forget_text(spoken.db, key));
                let decided = self.keys.decide(&spoken, Times { now, wall: Timestamp::default() });
                decided.map_err(|fault| format!("a call of {} that fitted before: {fault}", spoken.dialect.name))?;
            }
            Item::Entry { db, key, entry } => {
                let mut from = Take::new(entry);
                self.keys.read_entry(db, key, &mut from).filter(|()| from.is_done()).ok_or_else(strange)?;
            }
            Item::Gone { db, key } => {
                if usize::from(db) >= DATABASES || key.len() > MAX_NAME {
                    return Err(strange());
                }
                self.keys.forget(db, key);
            }
            Item::Flush(db) if db.is_none_or(|db| usize::from(db) < DATABASES) => self.keys.flush(db),
            Item::Shared(shared) => {
                let mut from = Take::new(shared);
                self.keys.read_shared(&mut from).filter(|()| from.is_done()).ok_or_else(strange)?;
            }
            Item::Ban { policy, key, until, level } => {
                self.notes.take(Note::Ban { policy: policy.to_owned(), key: key.to_vec(), until, level });
            }
            Item::Generation(number) => self.notes.take(Note::Generation { number }),
            Item::Flush(_) | Item::Piece(_) => return Err(strange()),
        }
        Ok(())
    }
}

fn strange() -> String {
    "expected what a server of this version writes, found something else".to_owned()
}
