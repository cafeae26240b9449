//! Who a key is to the store: 82 bits of a hash with a secret seed, and its policy's name.
//!
//! The key itself is not kept. Two keys that share an identity share a limit; among ten million
//! keys that happens to any two with a probability of one in 10^11. The seed is drawn for each
//! process and store, the hash's inner constants too, so keys that collide or crowd one place cannot be
//! prepared without it. The hash is no cipher: whoever could watch which keys share a limit, for very many
//! keys, might learn about it.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// The bits of an identity kept beside the print.
pub(crate) const TAG_BITS: u32 = 18;
/// The bits that tell policy names apart.
pub(crate) const NAME_BITS: u32 = 14;

/// The identity of a key under a policy name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ident {
    /// Never zero: that is an empty slot. Its halves choose the two buckets a key may be in.
    pub(crate) print: u64,
    /// Tag and the number of the name, as a slot's head holds them.
    pub(crate) mark: u32,
    /// Chooses the shard.
    pub(crate) shard: u32,
}

impl Ident {
    pub(crate) fn new(print: u64, rest: u64, name: u16) -> Self {
        let tag = (rest >> (u64::BITS - TAG_BITS)) as u32;
        Self { print: print.max(1), mark: tag << NAME_BITS | u32::from(name), shard: rest as u32 }
    }

    /// A mark as stores had them that knew 4,096 names: two bits more of the hash, two less of the name.
    pub(crate) fn mark_of_12_bits(mark: u32) -> u32 {
        const NAME: u32 = 12;
        mark >> NAME >> (NAME_BITS - NAME) << NAME_BITS | mark & ((1 << NAME) - 1)
    }

    /// The number of the name that a mark belongs to.
    pub(crate) fn name(mark: u32) -> u16 {
        (mark & ((1 << NAME_BITS) - 1)) as u16
    }
}

/// The secret of a store: two words of its own, and one of the process it was made in, from which the
/// hash's many constants come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) [u64; 3]);

/// The constants of a process: they outlive every store, as the hash wants them to.
type Constants = (u64, [SharedSeed; 2]);

impl Secret {
    pub(crate) fn random() -> Self {
        let own = [0, 1].map(|index| RandomState::new().hash_one(index));
        Self([own[0], own[1], Self::process().0])
    }

    fn process() -> &'static Constants {
        static PROCESS: OnceLock<Constants> = OnceLock::new();
        PROCESS.get_or_init(|| Self::constants(RandomState::new().hash_one(2)))
    }

    fn constants(word: u64) -> Constants {
        let mixed = |part: u8| {
            let mut hasher = DefaultHasher::new();
            (word, part).hash(&mut hasher);
            SharedSeed::from_u64(hasher.finish())
        };
        (word, [mixed(0), mixed(1)])
    }

    /// The constants this secret tells of. Those of another process, met in a snapshot, are made once more
    /// and kept: one for each process whose snapshots this one reads.
    fn seeds(&self) -> &'static [SharedSeed; 2] {
        static OTHERS: Mutex<Vec<&'static Constants>> = Mutex::new(Vec::new());
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

    /// A word nobody can foretell without the secret, by SipHash.
    pub(crate) fn keyed(&self, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0, what).hash(&mut hasher);
        hasher.finish()
    }
}

/// Makes identities under one policy name.
#[derive(Clone, Debug)]
pub(crate) struct Idents {
    print: SeedableRandomState,
    rest: SeedableRandomState,
    number: u16,
}

impl Idents {
    pub(crate) fn new(secret: &Secret, name: &str, number: u16) -> Self {
        let [print, rest] = secret.seeds();
        let seeded = |part: u8, seeds| SeedableRandomState::with_seed(secret.keyed((part, name)), seeds);
        Self { print: seeded(0, print), rest: seeded(1, rest), number }
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> Ident {
        Ident::new(digest(&self.print, key), digest(&self.rest, key), self.number)
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
            let idents = Idents::new(&Secret([round, 7, 11 + round]), "", 3);
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
                // Poisson around 390 and 1562: five standard deviations off.
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
        // With foldhash's own constants this word multiplies what stands beside it by zero.
        let zero = 0xc0ac_29b7_c97c_50ddu64.to_le_bytes();
        let idents = Idents::new(&Secret::random(), "", 0);
        let key = |tenant: &[u8]| idents.of(&[tenant, &zero, b"/api/xyz"].concat());
        assert!(key(b"tenant-A").print != key(b"tenant-B").print && key(b"tenant-A").mark != key(b"tenant-B").mark);
    }

    #[test]
    fn a_mark_of_fewer_names_is_the_one_its_key_has_now() {
        for (rest, name) in [(0, 0), (u64::MAX, 4_095), (0x1234_5678_9abc_def0, 77), (1 << 44, 1), (3 << 44, 1)] {
            let before = ((rest >> 44) as u32) << 12 | u32::from(name);
            let now = Ident::new(1, rest, name).mark;
            assert_eq!((Ident::mark_of_12_bits(before), Ident::name(now)), (now, name));
        }
    }

    #[test]
    fn keys_that_differ_only_in_length_differ() {
        let idents = Idents::new(&Secret([1, 2, 3]), "", 0);
        let keys: HashSet<u64> = (0..=512).map(|len| idents.of(&vec![0; len]).print).collect();
        assert_eq!(keys.len(), 513);
    }
}
