//! The keys used last: a map, and a list through its entries from the one used last to the one used longest ago. Every
//! step takes constant time.

use std::collections::HashMap;

use super::UsageRecord;

/// The identity under which a key is stored.
pub(super) type UsageKey = [u64; 2];

/// The end of the list.
const NONE: u32 = u32::MAX;

/// The keys used last, up to a bounded number.
#[derive(Debug)]
pub(super) struct RecentKeys {
    places: HashMap<UsageKey, u32, foldhash::fast::RandomState>,
    entries: Vec<RecentEntry>,
    newest: u32,
    oldest: u32,
    most: usize,
}

#[derive(Debug)]
struct RecentEntry {
    usage_key: UsageKey,
    used: UsageRecord,
    newer: u32,
    older: u32,
}

impl RecentKeys {
    /// Returns an empty set for at most `most` keys, which must be fewer than 2^32.
    pub(super) fn new(most: usize) -> Self {
        Self { places: HashMap::default(), entries: Vec::new(), newest: NONE, oldest: NONE, most: most.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, usage_key: UsageKey) -> Option<UsageRecord> {
        let place = self.places.get(&usage_key)?;
        self.entries.get(*place as usize).map(|entry| entry.used)
    }

    /// Returns the entry of a key, which becomes the one used last.
    pub(super) fn touch(&mut self, usage_key: UsageKey) -> &mut UsageRecord {
        let place = match self.places.get(&usage_key) {
            Some(place) => {
                let place = *place;
                self.unlink(place);
                place
            }
            None => self.place_for(usage_key),
        };
        let older = std::mem::replace(&mut self.newest, place);
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = place,
            None => self.oldest = place,
        }
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, older);
        &mut entry.used
    }

    /// Returns a place for a new key, which is not in the list yet.
    fn place_for(&mut self, usage_key: UsageKey) -> u32 {
        let fresh = RecentEntry { usage_key, used: UsageRecord::default(), newer: NONE, older: NONE };
        let place = if self.entries.len() < self.most {
            self.entries.push(fresh);
            self.entries.len() as u32 - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            let gone = std::mem::replace(&mut self.entries[place as usize], fresh);
            self.places.remove(&gone.usage_key);
            place
        };
        self.places.insert(usage_key, place);
        place
    }

    /// Removes an entry from the list.
    fn unlink(&mut self, place: u32) {
        let RecentEntry { newer, older, .. } = self.entries[place as usize];
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_random::Rng;

    use super::*;

    #[test]
    fn whoever_was_used_longest_ago_goes_first() {
        let (mut recent, mut model) = (RecentKeys::new(10), Vec::<(u64, u64)>::new());
        let mut rng = Rng::new(7);
        for step in 0..20_000 {
            let key = rng.below(16);
            recent.touch([key, 0]).requests += 1;
            let requests = model.iter().position(|(other, _)| *other == key).map_or(0, |place| model.remove(place).1);
            model.push((key, requests + 1));
            if model.len() > 10 {
                model.remove(0);
            }
            assert_eq!((recent.len(), recent.places.len()), (model.len(), model.len()));
            for key in 0..16 {
                let expected = model.iter().find(|(other, _)| *other == key).map(|(_, requests)| *requests);
                assert_eq!(recent.get([key, 0]).map(|used| used.requests), expected, "step {step} key {key}");
            }
        }
    }

    #[test]
    fn one_is_enough() {
        let mut recent = RecentKeys::new(1);
        for key in 0..3 {
            recent.touch([key, 0]).requests += 1;
            recent.touch([key, 0]).requests += 1;
            assert_eq!((recent.len(), recent.get([key, 0]).map(|used| used.requests)), (1, Some(2)));
        }
        assert_eq!(recent.get([0, 0]), None);
    }
}
