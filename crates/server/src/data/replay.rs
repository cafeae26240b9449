//! Reading the journal: what its frames say is done again, in their order, to a store and to keys that are as the
//! snapshot left them.

use std::collections::HashMap;

use tollgate_core::{StoreError, Timestamp};
use tollgate_memory::{Memory, Prepared};

use super::frame::{Extent, Holder, Item, Piece, Refund, read_item};
use super::note::{Note, Notes};
use super::wire::Take;
use crate::keys::{DATABASES, Keys, LONGEST_NAME, Times};
use crate::metrics::Whose;

/// The longest frame of several pieces: more than a key can hold.
const LONGEST: usize = 1 << 30;

/// What frames are done to.
pub(super) struct Replay<'a> {
    memory: &'a Memory,
    keys: &'a mut Keys,
    notes: &'a mut Notes,
    /// By the numbers that frames know them by.
    policies: HashMap<u64, Prepared, foldhash::fast::RandomState>,
    /// Pieces of a frame that is not yet whole.
    pieces: Vec<u8>,
    /// The latest decision.
    pub(super) latest: Timestamp,
}

impl<'a> Replay<'a> {
    pub(super) fn new(memory: &'a Memory, keys: &'a mut Keys, notes: &'a mut Notes, latest: Timestamp) -> Self {
        Self { memory, keys, notes, policies: HashMap::default(), pieces: Vec::new(), latest }
    }

    /// Does what a frame says; an error if it cannot be done.
    pub(super) fn frame(&mut self, body: &[u8]) -> Result<(), String> {
        let mut from = Take::new(body);
        while !from.is_done() {
            match read_item(&mut from).ok_or_else(strange)? {
                Item::Piece(piece) => return self.piece(piece),
                item => self.item(item)?,
            }
        }
        // What was begun in pieces was never finished, nor told to anybody.
        self.pieces.clear();
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), String> {
        if piece.is_first {
            self.pieces.clear();
        }
        if self.pieces.is_empty() != piece.is_first || self.pieces.len() + piece.bytes.len() > LONGEST {
            return Err(strange());
        }
        self.pieces.extend_from_slice(piece.bytes);
        if !piece.is_last {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.pieces);
        // A piece of pieces would be no end.
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
                // What the machine's clock read is not known, so nothing has expired by that. But text at one of its
                // keys had, or it would not have been decided.
                spoken.keys.iter().for_each(|key| self.keys.forget_text(spoken.db, key));
                let decided = self.keys.decide(&spoken, Times { now, wall: Timestamp::default() });
                decided.map_err(|fault| format!("a call of {} that fitted before: {fault}", spoken.dialect.name))?;
            }
            Item::Entry { db, key, entry } => {
                let mut from = Take::new(entry);
                self.keys.read_entry(db, key, &mut from).filter(|()| from.is_done()).ok_or_else(strange)?;
            }
            Item::Gone { db, key } => {
                if usize::from(db) >= DATABASES || key.len() > LONGEST_NAME {
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
