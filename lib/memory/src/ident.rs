//! The identity of a key in the store: 82 bits of a hash with a secret seed, and the name of its policy.
//!
//! The key itself is not stored. Two keys with the same identity share a limit; among ten million keys the probability
//! that any two do is one in 10^11. The seed and the inner constants of the hash are drawn for each process and store,
//! so keys that collide or crowd one place cannot be prepared without it. The hash is not cryptographic: an observer of
//! which keys share a limit, for very many keys, might learn about the seed.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// The number of bits of an identity that are kept beside the print.
pub(crate) const TAG_BITS: u32 = 18;
/// The number of bits that distinguish policy names.
pub(crate) const NAME_BITS: u32 = 14;

/// The identity of a key under a policy name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreIdent {
    /// Never zero, which stands for an empty slot. Its halves choose the two buckets that the key may be in.
    pub(crate) print: u64,
    /// The tag and the number of the name, as in the head of a slot.
    pub(crate) mark: u32,
    /// Chooses the shard.
    pub(crate) shard: u32,
}

impl StoreIdent {
    pub(crate) fn new(print: u64, rest: u64, name: u16) -> Self {
        let tag = (rest >> (u64::BITS - TAG_BITS)) as u32;
        Self { print: print.max(1), mark: tag << NAME_BITS | u32::from(name), shard: rest as u32 }
    }

    /// Converts a mark from the format of stores with 4,096 names, which had two more bits of the hash and two fewer of
    /// the name.
    pub(crate) fn mark_of_12_bits(mark: u32) -> u32 {
        const NAME: u32 = 12;
        mark >> NAME >> (NAME_BITS - NAME) << NAME_BITS | mark & ((1 << NAME) - 1)
    }

    /// Returns the number of the name in a mark.
    pub(crate) fn name(mark: u32) -> u16 {
        (mark & ((1 << NAME_BITS) - 1)) as u16
    }
}

/// The secret of a store: two words of its own, and one of the process it was created in, from which the many constants
/// of the hash are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreSecret(pub(crate) [u64; 3]);

/// The constants of a process. They outlive every store, as the hash requires.
type HashConstants = (u64, [SharedSeed; 2]);

impl StoreSecret {
    pub(crate) fn random() -> Self {
        let own = [0, 1].map(|index| RandomState::new().hash_one(index));
        Self([own[0], own[1], Self::process().0])
    }

    fn process() -> &'static HashConstants {
        static PROCESS: OnceLock<HashConstants> = OnceLock::new();
        PROCESS.get_or_init(|| Self::constants(RandomState::new().hash_one(2)))
    }

    fn constants(word: u64) -> HashConstants {
        let mixed = |part: u8| {
            let mut hasher = DefaultHasher::new();
            (word, part).hash(&mut hasher);
            SharedSeed::from_u64(hasher.finish())
        };
        (word, [mixed(0), mixed(1)])
    }

    /// Returns the constants of this secret. Those of another process, found in a snapshot, are derived again and kept:
    /// one set for each process whose snapshots this one reads.
    fn seeds(&self) -> &'static [SharedSeed; 2] {
        static OTHERS: Mutex<Vec<&'static HashConstants>> = Mutex::new(Vec::new());
        let process = Self::process();
        if process.0 == self.0[2] {
            return &process.1;
        }
        let mut others = OTHERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = others.iter().find(|known| known.0 == self.0[2]) {
            return &known.1;
        }
        let made = &*Box::leak(Box::new(Self::constants(self.0[2])));
        others.push(made);
        &made.1
    }

    /// Returns a word that cannot be predicted without the secret, by SipHash.
    pub(crate) fn keyed(&self, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0, what).hash(&mut hasher);
        hasher.finish()
    }
}

/// A generator of identities under one policy name.
#[derive(Clone, Debug)]
pub(crate) struct IdentHasher {
    print: SeedableRandomState,
    rest: SeedableRandomState,
    number: u16,
}

impl IdentHasher {
    pub(crate) fn new(secret: &StoreSecret, name: &str, number: u16) -> Self {
        let [print, rest] = secret.seeds();
        let seeded = |part: u8, seeds| SeedableRandomState::with_seed(secret.keyed((part, name)), seeds);
        Self { print: seeded(0, print), rest: seeded(1, rest), number }
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> StoreIdent {
        StoreIdent::new(digest(&self.print, key), digest(&self.rest, key), self.number)
    }
}

#[inline]
fn digest(state: &SeedableRandomState, key: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_in_a_decimal_suffix_spread_like_random_ones() {
        for round in 0..4 {
            let idents = IdentHasher::new(&StoreSecret([round, 7, 11 + round]), "", 3);
            for prefix in ["", "user:", "api-key-of-a-rather-long-name:tenant:0000000000:"] {
                let (mut prints, mut shards) = (HashSet::new(), [0u32; 64]);
                let (mut low, mut high, mut tags) = ([0u32; 256], [0u32; 256], [0u32; 256]);
                for number in 0..100_000u32 {
                    let ident = idents.of(format!("{prefix}{number}").as_bytes());
                    assert!(prints.insert(ident.print), "two keys with one print");
                    shards[(ident.shard % 64) as usize] += 1;
                    low[(ident.print % 256) as usize] += 1;
                    high[(ident.print >> 32) as usize % 256] += 1;
                    tags[(ident.mark >> 24) as usize] += 1;
                }
                // Poisson around 390 and 1562; allows five standard deviations.
                let even = |counts: &[u32], mean: f64| {
                    counts.iter().all(|count| (f64::from(*count) - mean).abs() < 5.5 * mean.sqrt())
                };
                assert!(even(&shards, 1562.5), "{shards:?}");
                assert!(even(&low, 390.6) && even(&high, 390.6) && even(&tags, 390.6), "{prefix}");
            }
        }
    }

    #[test]
    fn words_that_the_hash_multiplies_by_are_secret() {
        // With foldhash's own constants, this word multiplies its neighbour by zero.
        let zero = 0xc0ac_29b7_c97c_50ddu64.to_le_bytes();
        let idents = IdentHasher::new(&StoreSecret::random(), "", 0);
        let key = |tenant: &[u8]| idents.of(&[tenant, &zero, b"/api/xyz"].concat());
        assert!(key(b"tenant-A").print != key(b"tenant-B").print && key(b"tenant-A").mark != key(b"tenant-B").mark);
    }

    #[test]
    fn a_mark_of_fewer_names_is_the_one_its_key_has_now() {
        for (rest, name) in [(0, 0), (u64::MAX, 4_095), (0x1234_5678_9abc_def0, 77), (1 << 44, 1), (3 << 44, 1)] {
            let before = ((rest >> 44) as u32) << 12 | u32::from(name);
            let now = StoreIdent::new(1, rest, name).mark;
            assert_eq!((StoreIdent::mark_of_12_bits(before), StoreIdent::name(now)), (now, name));
        }
    }

    #[test]
    fn keys_that_differ_only_in_length_differ() {
        let idents = IdentHasher::new(&StoreSecret([1, 2, 3]), "", 0);
        let keys: HashSet<u64> = (0..=512).map(|len| idents.of(&vec![0; len]).print).collect();
        assert_eq!(keys.len(), 513);
    }
}
