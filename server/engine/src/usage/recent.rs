//! The keys used last: a map, and a list through its entries from the one used last to the one used longest ago. Every
//! step takes constant time.

use std::collections::HashMap;

use super::Used;

/// The identity under which a key is stored.
pub(super) type Ident = [u64; 2];

/// The end of the list.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Recent {
    places: HashMap<Ident, u32, foldhash::fast::RandomState>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    most: usize,
}

#[derive(Debug)]
struct Entry {
    ident: Ident,
    used: Used,
    newer: u32,
    older: u32,
}

impl Recent {
    /// Returns an empty set for at most `most` keys, which must be fewer than 2^32.
    pub(super) fn new(most: usize) -> Self {
        Self { places: HashMap::default(), entries: Vec::new(), newest: NONE, oldest: NONE, most: most.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, ident: Ident) -> Option<Used> {
        let place = self.places.get(&ident)?;
        self.entries.get(*place as usize).map(|entry| entry.used)
    }

    /// Returns the entry of a key, which becomes the one used last.
    pub(super) fn touch(&mut self, ident: Ident) -> &mut Used {
        let place = match self.places.get(&ident) {
            Some(place) => {
                let place = *place;
                self.unlink(place);
                place
            }
            None => self.place_for(ident),
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
    fn place_for(&mut self, ident: Ident) -> u32 {
        let fresh = Entry { ident, used: Used::default(), newer: NONE, older: NONE };
        let place = if self.entries.len() < self.most {
            self.entries.push(fresh);
            self.entries.len() as u32 - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            let gone = std::mem::replace(&mut self.entries[place as usize], fresh);
            self.places.remove(&gone.ident);
            place
        };
        self.places.insert(ident, place);
        place
    }

    /// Removes an entry from the list.
    fn unlink(&mut self, place: u32) {
        let Entry { newer, older, .. } = self.entries[place as usize];
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
    use super::*;

    #[test]
    fn whoever_was_used_longest_ago_goes_first() {
        let (mut recent, mut model) = (Recent::new(10), Vec::<(u64, u64)>::new());
        let mut seed = 7u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (seed >> 33) % 16;
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
        let mut recent = Recent::new(1);
        for key in 0..3 {
            recent.touch([key, 0]).requests += 1;
            recent.touch([key, 0]).requests += 1;
            assert_eq!((recent.len(), recent.get([key, 0]).map(|used| used.requests)), (1, Some(2)));
        }
        assert_eq!(recent.get([0, 0]), None);
    }
}
