//! Facts besides keys and charges that must survive a restart.

use std::collections::{BTreeSet, HashMap};

use tollgate_kernel::Timestamp;

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A key is banned under a policy until a time; level 0 lifts the ban.
    Ban {
        /// The name of the policy.
        policy: String,
        /// The banned key.
        key: Vec<u8>,
        /// When it ends.
        until: Timestamp,
        /// The number of the ban in a row, counted from 1.
        level: u32,
    },
    /// The generation of policies in use.
    Generation {
        /// Its number.
        number: u64,
    },
}

/// The number of bans above which those that have ended are dropped, the first to end first.
const MAX_BANS: usize = 100_000;

/// The owner of a ban: a policy and a key.
type BannedKey = (String, Vec<u8>);

/// All current facts, while a start reads them. After that the engine holds the bans.
#[derive(Debug, Default)]
pub(super) struct NoteSet {
    /// The time that determines which bans have ended.
    now: Timestamp,
    bans: HashMap<BannedKey, (Timestamp, u32)>,
    ends: BTreeSet<(Timestamp, BannedKey)>,
    generation: u64,
}

impl NoteSet {
    /// Returns an empty set of facts at a start.
    pub(super) fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    pub(super) fn add(&mut self, note: Note) {
        match note {
            Note::Generation { number } => self.generation = number,
            Note::Ban { policy, key, until, level } => self.ban((policy, key), until, level),
        }
    }

    fn ban(&mut self, banned: BannedKey, until: Timestamp, level: u32) {
        if let Some((until, _)) = self.bans.remove(&banned) {
            self.ends.remove(&(until, banned.clone()));
        }
        if level == 0 {
            return;
        }
        self.ends.insert((until, banned.clone()));
        self.bans.insert(banned, (until, level));
        if self.bans.len() > MAX_BANS
            && self.ends.first().is_some_and(|(until, _)| *until <= self.now)
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.bans.remove(&first);
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns all bans, in the order in which they end.
    pub(super) fn bans(&self) -> impl Iterator<Item = Note> {
        self.ends.iter().filter_map(|(until, banned)| {
            let (_, level) = self.bans.get(banned)?;
            Some(Note::Ban { policy: banned.0.clone(), key: banned.1.clone(), until: *until, level: *level })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(key: &str, until: u64, level: u32) -> Note {
        Note::Ban { policy: "login".into(), key: key.into(), until: Timestamp::saturating(until), level }
    }

    #[test]
    fn the_latest_ban_of_a_key_holds_until_it_is_lifted() {
        let mut notes = NoteSet::default();
        for note in [ban("a", 10, 1), ban("b", 30, 1), ban("a", 40, 2), Note::Generation { number: 7 }] {
            notes.add(note);
        }
        assert_eq!(notes.bans().collect::<Vec<_>>(), [ban("b", 30, 1), ban("a", 40, 2)]);
        assert_eq!(notes.generation(), 7);
        notes.add(ban("b", 0, 0));
        assert_eq!(notes.bans().collect::<Vec<_>>(), [ban("a", 40, 2)]);
    }

    #[test]
    fn of_too_many_those_that_have_ended_go() {
        let mut notes = NoteSet::at(Timestamp::saturating(2));
        for place in 0..MAX_BANS + 5 {
            notes.add(ban(&place.to_string(), place as u64, 1));
        }
        // Three of them had ended.
        assert_eq!(notes.bans().next(), Some(ban("3", 3, 1)));
        assert_eq!((notes.bans.len(), notes.ends.len()), (MAX_BANS + 2, MAX_BANS + 2));
    }
}
