//! Facts beside keys and charges that a restart should not forget.

use std::collections::{BTreeSet, HashMap};

use tollgate_core::Timestamp;

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A key is banned under a policy until a time; level 0 lifts the ban.
    Ban { policy: String, key: Vec<u8>, until: Timestamp, level: u32 },
    /// The policies in use are those of this generation.
    Generation { number: u64 },
}

/// Of more bans than this, those that have ended go, the first to end first.
const MOST_BANS: usize = 100_000;

/// Whose ban it is: a policy and a key.
type Whose = (String, Vec<u8>);

/// All facts that hold, while a start reads them. From then on a desk has the bans.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What ended before has ended.
    now: Timestamp,
    bans: HashMap<Whose, (Timestamp, u32)>,
    ends: BTreeSet<(Timestamp, Whose)>,
    generation: u64,
}

impl Notes {
    /// None, at a start.
    pub(super) fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    pub(super) fn take(&mut self, note: Note) {
        match note {
            Note::Generation { number } => self.generation = number,
            Note::Ban { policy, key, until, level } => self.ban((policy, key), until, level),
        }
    }

    fn ban(&mut self, whose: Whose, until: Timestamp, level: u32) {
        if let Some((until, _)) = self.bans.remove(&whose) {
            self.ends.remove(&(until, whose.clone()));
        }
        if level == 0 {
            return;
        }
        self.ends.insert((until, whose.clone()));
        self.bans.insert(whose, (until, level));
        if self.bans.len() > MOST_BANS
            && self.ends.first().is_some_and(|(until, _)| *until <= self.now)
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.bans.remove(&first);
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// All bans, the one that ends first in front.
    pub(super) fn bans(&self) -> impl Iterator<Item = Note> {
        self.ends.iter().filter_map(|(until, whose)| {
            let (_, level) = self.bans.get(whose)?;
            Some(Note::Ban { policy: whose.0.clone(), key: whose.1.clone(), until: *until, level: *level })
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
        let mut notes = Notes::default();
        for note in [ban("a", 10, 1), ban("b", 30, 1), ban("a", 40, 2), Note::Generation { number: 7 }] {
            notes.take(note);
        }
        assert_eq!(notes.bans().collect::<Vec<_>>(), [ban("b", 30, 1), ban("a", 40, 2)]);
        assert_eq!(notes.generation(), 7);
        notes.take(ban("b", 0, 0));
        assert_eq!(notes.bans().collect::<Vec<_>>(), [ban("a", 40, 2)]);
    }

    #[test]
    fn of_too_many_those_that_have_ended_go() {
        let mut notes = Notes::at(Timestamp::saturating(2));
        for place in 0..MOST_BANS + 5 {
            notes.take(ban(&place.to_string(), place as u64, 1));
        }
        // Three of them had ended.
        assert_eq!(notes.bans().next(), Some(ban("3", 3, 1)));
        assert_eq!((notes.bans.len(), notes.ends.len()), (MOST_BANS + 2, MOST_BANS + 2));
    }
}
