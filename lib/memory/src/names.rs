//! Policy names and their policies: keys under each name have separate state.
//!
//! Each of the first 64 policies of a name has a space, in order of arrival. Later policies are decided too, on
//! records: callers that choose their own policies can occupy no more spaces than these. Names that callers choose have
//! no number of their own: their keys are distinguished by their identities, and share the spaces of bare text.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use tollgate_kernel::{KeyState, Limit, Policy, StoreError};

use crate::ident::StoreIdent;
use crate::memory::MAX_NAMES;
use crate::segments::Segments;
use crate::slot::SlotContents;
use crate::space::{RANK_BITS, Space, StoreProperties};

/// The maximum number of policies of a name that have a space.
pub(crate) const MAX_RANKS: usize = 1 << RANK_BITS;
/// The maximum number of spaces beside the first of each name. Those of bare text do not count, so that names cannot
/// take their places.
const MAX_MORE: usize = MAX_NAMES;

/// The names of a store.
#[derive(Debug)]
pub(crate) struct PolicyNames {
    list: Segments<NameSpaces>,
    numbers: RwLock<NameNumbers>,
    bare: OnceLock<u16>,
}

/// The numbers of names.
#[derive(Debug, Default)]
struct NameNumbers {
    of: HashMap<Box<str>, u16>,
    /// Numbers below `next` that no name has.
    free: Vec<u16>,
    /// The first number that no name has had yet.
    next: u16,
    /// The number of spaces beside the first of each name, except those of bare text.
    more: usize,
}

impl PolicyNames {
    pub(crate) fn new() -> Self {
        Self { list: Segments::new(MAX_NAMES), numbers: RwLock::default(), bare: OnceLock::new() }
    }

    /// Returns the space of a policy, and whether it is the policy's own. A policy that comes too late to have its own
    /// uses the first of its name.
    #[inline]
    pub(crate) fn space(
        &self,
        policy: &Policy,
        properties: &StoreProperties,
    ) -> Result<(Arc<Space>, bool), StoreError> {
        loop {
            // This ends: after `add`, the space exists, or there is no room for another one.
            match self.known(policy) {
                Some((space, is_own)) => return Ok((Arc::clone(space), is_own)),
                None => self.add(policy, properties)?,
            }
        }
    }

    /// Returns the space for a policy that had none of its own in another store, and gets none here either.
    pub(crate) fn space_of_late(
        &self,
        policy: &Policy,
        properties: &StoreProperties,
    ) -> Result<(Arc<Space>, bool), StoreError> {
        let number =
            self.numbers.read().unwrap_or_else(|poisoned| poisoned.into_inner()).of.get(policy.name()).copied();
        match number.and_then(|number| self.list.get(usize::from(number))?.get(0)) {
            Some(first) => Ok((Arc::clone(first), first.owns(policy))),
            None => self.space(policy, properties),
        }
    }

    /// Returns the space of a policy of one packable limit, under the name of another space; `None` if it has no space
    /// and cannot get one.
    pub(crate) fn space_of_one(
        &self,
        limit: &Arc<Limit>,
        beside: &Space,
        properties: &StoreProperties,
    ) -> Option<&Space> {
        let alone = beside.own.only(limit);
        if self.known(&alone).is_none() {
            self.add(&alone, properties).ok()?;
        }
        let (space, is_own) = self.known(&alone)?;
        (is_own && space.packs).then_some(space)
    }

    /// Returns the space of a policy with exactly the limits of a state, under the name of another space.
    pub(crate) fn space_with(&self, state: &KeyState, beside: &Space) -> Option<&Space> {
        let name = self.list.get(usize::from(beside.name))?;
        let has_all = |policy: &Policy| {
            let mut each = state.each();
            policy.limits().len() == state.each().count() && each.all(|(limit, _)| policy.limits().contains(limit))
        };
        name.spaces().map(|space| &**space).find(|space| has_all(&space.own))
    }

    /// Creates a space for a policy, if it may have one.
    #[cold]
    fn add(&self, policy: &Policy, properties: &StoreProperties) -> Result<(), StoreError> {
        let mut numbers = self.numbers.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = numbers.of(policy.name()).ok_or(StoreError::Names(MAX_NAMES))?;
        self.list.extend(usize::from(number), NameSpaces::default);
        let name = self.list.get(usize::from(number)).ok_or(StoreError::Names(MAX_NAMES))?;
        if let Some(rank) = name.next().filter(|rank| *rank == 0 || numbers.may_grow(policy))
            && name.of(policy).is_none()
        {
            name.add(Arc::new(Space::new(policy.clone(), number, rank, properties)));
            numbers.more += usize::from(rank > 0 && !policy.name().is_empty());
        }
        if policy.name().is_empty() {
            self.bare.get_or_init(|| number);
        }
        Ok(())
    }

    /// Returns the space of a policy like [`PolicyNames::space`]; `None` if the space has to be created first.
    #[inline]
    fn known(&self, policy: &Policy) -> Option<(&Arc<Space>, bool)> {
        let (number, may_grow) = match self.bare.get() {
            Some(number) if policy.name().is_empty() => (*number, true),
            _ => {
                let numbers = self.numbers.read().unwrap_or_else(|poisoned| poisoned.into_inner());
                (*numbers.of.get(policy.name())?, numbers.may_grow(policy))
            }
        };
        let name = self.list.get(usize::from(number))?;
        if let Some(space) = name.of(policy) {
            return Some((space, true));
        }
        if may_grow && name.next().is_some() { None } else { Some((name.get(0)?, false)) }
    }

    /// Reserves the numbers of names in a snapshot, which are part of the identities of their keys.
    pub(crate) fn reserve<'a>(&self, names: impl Iterator<Item = (u16, &'a str)>) {
        let mut numbers = self.numbers.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (number, name) in names {
            while numbers.next < number {
                let free = numbers.next;
                numbers.free.push(free);
                numbers.next += 1;
            }
            numbers.next = number + 1;
            numbers.of.insert(name.into(), number);
        }
    }

    /// Frees the numbers of names that turned out to have neither keys nor a policy.
    pub(crate) fn give_back_unused(&self) {
        let mut numbers = self.numbers.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_used = |number: u16| self.list.get(usize::from(number)).is_some_and(|name| name.get(0).is_some());
        let unused: Vec<u16> = numbers.of.values().copied().filter(|number| !is_used(*number)).collect();
        numbers.of.retain(|_, number| is_used(*number));
        numbers.free.extend(unused);
    }

    /// Returns the space that packed the given contents of a slot.
    #[inline]
    pub(crate) fn space_of(&self, seen: &SlotContents) -> Option<&Space> {
        self.list.get(usize::from(StoreIdent::name(seen.mark())))?.get(seen.rank()).map(|space| &**space)
    }

    /// Returns every space, by name and rank.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = &Arc<Space>> {
        let next = self.numbers.read().unwrap_or_else(|poisoned| poisoned.into_inner()).next;
        (0..usize::from(next)).filter_map(|number| self.list.get(number)).flat_map(NameSpaces::spaces)
    }
}

impl NameNumbers {
    fn may_grow(&self, policy: &Policy) -> bool {
        self.more < MAX_MORE || policy.name().is_empty()
    }

    /// Returns the number of a name, assigning one if it has none; `None` if there are no numbers left.
    fn of(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.of.get(name) {
            return Some(*number);
        }
        let number = self.free.pop().or_else(|| {
            let next = self.next;
            (usize::from(next) < MAX_NAMES).then(|| self.next += 1)?;
            Some(next)
        })?;
        self.of.insert(name.into(), number);
        Some(number)
    }
}

/// The policies of a name. They are added by one thread at a time and never removed.
#[derive(Debug, Default)]
struct NameSpaces {
    /// Usually the only one.
    first: OnceLock<Arc<Space>>,
    more: OnceLock<Box<[OnceLock<ChecksummedSpace>]>>,
}

/// A space with a checksum of its limits, so that a lookup can skip most other spaces without fetching them.
#[derive(Debug)]
struct ChecksummedSpace {
    sum: u64,
    space: Arc<Space>,
}

impl NameSpaces {
    #[inline]
    fn get(&self, rank: u8) -> Option<&Arc<Space>> {
        match usize::from(rank).checked_sub(1) {
            None => self.first.get(),
            Some(place) => self.more.get()?.get(place)?.get().map(|summed| &summed.space),
        }
    }

    /// Returns the space with the limits of `policy`.
    #[inline]
    fn of(&self, policy: &Policy) -> Option<&Arc<Space>> {
        let first = self.first.get()?;
        if first.owns(policy) {
            return Some(first);
        }
        let more = self.more.get()?;
        let (sum, more) = (sum(policy), more.iter().map_while(OnceLock::get));
        more.filter(|summed| summed.sum == sum).map(|summed| &summed.space).find(|space| space.owns(policy))
    }

    /// Returns all spaces, by rank.
    fn spaces(&self) -> impl Iterator<Item = &Arc<Space>> {
        let more = self.more.get().into_iter().flatten().map_while(OnceLock::get);
        self.first.get().into_iter().chain(more.map(|summed| &summed.space))
    }

    /// Returns the rank of the next space, if there may be another one.
    fn next(&self) -> Option<u8> {
        let count = self.spaces().count();
        (count < MAX_RANKS).then_some(count as u8)
    }

    /// Adds a space of the next rank.
    fn add(&self, space: Arc<Space>) {
        let Some(place) = usize::from(space.rank).checked_sub(1) else {
            self.first.get_or_init(|| space);
            return;
        };
        let more = self.more.get_or_init(|| (1..MAX_RANKS).map(|_| OnceLock::new()).collect());
        if let Some(free) = more.get(place) {
            free.get_or_init(|| ChecksummedSpace { sum: sum(&space.own), space });
        }
    }
}

/// Returns a checksum that is the same for policies with the same limits and usually differs for others.
fn sum(policy: &Policy) -> u64 {
    policy.limits().iter().fold(0, |sum: u64, limit| {
        let numbers = limit.count() ^ limit.period().get().rotate_left(32);
        (sum.rotate_left(7) ^ numbers).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::StoreSecret;

    fn properties() -> StoreProperties {
        StoreProperties { secret: StoreSecret([1, 2, 3]), is_monotonic: true, overflow_bytes: 1 << 20 }
    }

    fn policy(text: &str) -> Policy {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_finds_each_of_its_policies_and_takes_no_more_than_64() {
        let name = NameSpaces::default();
        let texts: Vec<String> = (1..=MAX_RANKS).map(|count| format!("{count}/min gcra")).collect();
        for (place, text) in texts.iter().enumerate() {
            assert!(name.of(&policy(text)).is_none());
            let rank = name.next().unwrap();
            assert_eq!(usize::from(rank), place);
            name.add(Arc::new(Space::new(policy(text), 5, rank, &properties())));
        }
        assert_eq!(name.next(), None);
        assert!(name.of(&policy("65/min gcra")).is_none() && name.of(&policy("1/min fixed")).is_none());
        for (place, text) in texts.iter().enumerate() {
            let (found, got) = (name.of(&policy(text)).unwrap(), name.get(place as u8).unwrap());
            assert!(Arc::ptr_eq(found, got) && found.own.limits() == policy(text).limits());
            assert_eq!(
                found.idents.of(b"k"),
                name.get(0).unwrap().idents.of(b"k"),
                "a key is the same under all of them"
            );
        }
        assert_eq!(name.spaces().count(), MAX_RANKS);
    }

    #[test]
    fn names_that_take_all_spaces_leave_those_of_bare_text() {
        let names = PolicyNames::new();
        let space = |name: &str, count: usize| {
            let policy = policy(&format!("{count}/min gcra"));
            let policy = if name.is_empty() { policy } else { policy.with_name(name).unwrap() };
            names.space(&policy, &properties()).ok().map(|(space, is_own)| (space.rank, is_own))
        };
        // The maximum number of names, the last one for bare text, and more policies than there are spaces.
        for number in 0..MAX_NAMES - 1 {
            assert_eq!(space(&format!("n{number}"), 1), Some((0, true)));
        }
        let own = (0..300).flat_map(|number| (2..=100).map(move |count| (number, count)));
        let own = own.filter(|(number, count)| space(&format!("n{number}"), *count).unwrap().1).count();
        assert_eq!(own, MAX_MORE);
        assert_eq!(space("n4000", 2), Some((0, false)), "one more policy uses the first space of its name");
        for count in 1..=MAX_RANKS {
            assert_eq!(space("", count), Some((count as u8 - 1, true)));
        }
        assert_eq!(space("", 65), Some((0, false)));
        assert_eq!(space("too-many", 1), None, "there are no more names");
        assert_eq!(space("n0", 64), Some((63, true)), "existing spaces stay");
    }

    #[test]
    fn limits_of_the_same_numbers_are_told_apart() {
        let name = NameSpaces::default();
        for (rank, text) in ["9/s", "7/min gcra", "7/min fixed", "7/min gcra burst=3"].iter().enumerate() {
            name.add(Arc::new(Space::new(policy(text), 0, rank as u8, &properties())));
        }
        assert_eq!(name.of(&policy("7/min fixed")).map(|space| space.rank), Some(2));
        assert_eq!(name.of(&policy("7/min gcra burst=3")).map(|space| space.rank), Some(3));
        assert!(name.of(&policy("7/min")).is_none());
    }
}
