//! Reading a store from a file or a stream.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use tollgate_kernel::{Clock, Policy, Reader};

use super::entries::{KeyLoader, SavedPolicies, SavedPolicy};
use super::{ENTRY_A_BLOCK, MAGIC, MIN_VERSION, RANK_SHIFT, SnapshotError, VERSION};
use crate::clock::MemoryClock;
use crate::ident::{NAME_BITS, StoreSecret};
use crate::memory::{MAX_NAMES, Memory};
use crate::names::MAX_RANKS;
use crate::shared::MemoryAllowance;

/// The last version without the sizes of tables.
const UNSIZED: u64 = 3;
/// An upper bound on the number of shards of a store.
const MAX_SIZES: u64 = 64;
/// The maximum number of bytes allocated before they are read, whatever a length says.
const AT_ONCE: u64 = 1 << 20;

impl Memory {
    /// Creates a store with the keys of the file at `path`, as if it had not stopped: the time in between has passed,
    /// by the machine's clock. The clock is the monotonic clock of the process unless another is given. `policies` are
    /// those of the new store; a name that is not among them keeps its policy. A policy that no longer exists is kept
    /// for as long as it has keys.
    pub fn restore(
        path: impl AsRef<Path>,
        cap: usize,
        clock: Option<Box<dyn Clock>>,
        policies: &[Policy],
    ) -> Result<Self, SnapshotError> {
        let mut from = BufReader::with_capacity(AT_ONCE as usize, File::open(path)?);
        let memory = Self::restore_from(&mut from, cap, clock, policies)?;
        if from.read(&mut [0])? > 0 {
            return Err(SnapshotError::Damaged("more behind its end"));
        }
        Ok(memory)
    }

    /// Creates a store like [`Memory::restore`] from a stream that [`Memory::save_to`] wrote to. The stream is read up
    /// to the end of the snapshot and no further.
    pub fn restore_from(
        from: &mut dyn Read,
        cap: usize,
        clock: Option<Box<dyn Clock>>,
        policies: &[Policy],
    ) -> Result<Self, SnapshotError> {
        let mut blocks = StoreBlocks { from, sum: 0, block: Vec::new() };
        let head = blocks.head()?;
        let (memory, saved) = match Self::with_names(&head, cap, clock, policies) {
            Ok(made) => made,
            Err(error) => return Err(blocks.rest(error)),
        };
        let mut entries = KeyLoader::new(memory.shared(), &saved, head.version <= ENTRY_A_BLOCK);
        while blocks.next()? {
            if let Err(error) = entries.put_block(&blocks.block) {
                drop(entries);
                return Err(blocks.rest(error));
            }
        }
        let missing = entries.missing();
        drop(entries);
        blocks.check_sum()?;
        let shared = memory.shared();
        if missing > 0 {
            // Overflow buckets, starts and a table that grows need memory too.
            let needed = (shared.used() + missing).saturating_mul(5) / 4;
            return Err(SnapshotError::Cap(shared.cap, needed));
        }
        shared.allow(MemoryAllowance::Usual);
        shared.names.give_back_unused();
        Ok(memory)
    }

    /// Creates an empty store with the names of a snapshot, and returns the policies that packed its keys.
    fn with_names(
        head: &StoreHead,
        cap: usize,
        clock: Option<Box<dyn Clock>>,
        policies: &[Policy],
    ) -> Result<(Self, SavedPolicies), SnapshotError> {
        let memory = Self::with_secret(cap, MemoryClock::of(clock), head.secret);
        let shared = memory.shared();
        shared.allow(MemoryAllowance::Start);
        // The contents of a stopped store fit under the same cap, if the tables are no larger than they were.
        let mut sizes = head.sizes.iter().copied();
        for (shard, buckets) in shared.shards.iter().zip(&mut sizes) {
            shard.grow_to(&mut shard.lock(), buckets, &shared.budget);
        }
        shared.overflow.grow_to(sizes);
        // Names keep their numbers, which are part of the identities of their keys.
        let firsts = || (0..).zip(&head.names).filter_map(|(number, ranks)| Some((number, ranks.first()?.as_ref()?)));
        shared.names.reserve(firsts().map(|(number, policy)| (number, policy.name())));
        let mut given: Vec<&Policy> = policies.iter().collect();
        given.sort_by_key(|policy| policy.name());
        for (_, saved) in firsts() {
            let start = given.partition_point(|policy| policy.name() < saved.name());
            let given = given[start..].iter().copied().take_while(|policy| policy.name() == saved.name());
            for policy in given {
                shared.space(policy).map_err(|_| SnapshotError::Damaged("too many policy names"))?;
            }
        }
        let of =
            |ranks: &Vec<Option<Policy>>| ranks.iter().map(|policy| policy.clone().map(SavedPolicy::new)).collect();
        Ok((memory, head.names.iter().map(of).collect()))
    }
}

struct StoreHead {
    version: u64,
    secret: StoreSecret,
    /// By number of the name and rank. A name always has a policy of the first rank.
    names: Vec<Vec<Option<Policy>>>,
    /// The number of buckets of each shard's table; empty in older versions.
    sizes: Vec<usize>,
}

fn read_head(bytes: &[u8]) -> Result<StoreHead, SnapshotError> {
    let from = &mut Reader::new(bytes);
    if from.take() != Some(MAGIC) {
        return Err(SnapshotError::NotOne);
    }
    let version = from.take().unwrap_or_default();
    if !(MIN_VERSION..=VERSION).contains(&version) {
        return Err(SnapshotError::Version(version));
    }
    let mut rest = || -> Option<StoreHead> {
        let secret = StoreSecret([from.take()?, from.take()?, from.take()?]);
        let _time = from.moment()?;
        let mut names = Vec::new();
        for number in 0..from.at_most((MAX_NAMES * MAX_RANKS) as u64)? {
            let place = if version == MIN_VERSION { number << RANK_SHIFT } else { from.take()? };
            put_policy(&mut names, place, Policy::read(from)?)?;
        }
        let sizes = if version > UNSIZED { from.at_most(MAX_SIZES)? } else { 0 };
        let sizes = (0..sizes).map(|_| usize::try_from(from.take()?).ok()).collect::<Option<_>>()?;
        from.is_done().then_some(StoreHead { version, secret, names, sizes })
    };
    let head = rest().ok_or(SnapshotError::Damaged("its policies"))?;
    let firsts = head.names.iter().filter_map(|ranks| ranks.first()?.as_ref());
    let mut names: Vec<&str> = firsts.map(Policy::name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(SnapshotError::Damaged("a policy name twice"));
    }
    Ok(head)
}

/// Puts the next policy into its place: each name begins with its first policy, and the policies that follow have the
/// same name.
fn put_policy(names: &mut Vec<Vec<Option<Policy>>>, place: u64, policy: Policy) -> Option<()> {
    let (number, rank) = (usize::try_from(place >> RANK_SHIFT).ok()?, usize::from(place as u16));
    if rank == 0 && number >= names.len() && number < MAX_NAMES {
        // A number between two others may belong to no name.
        names.resize_with(number, Vec::new);
        names.push(vec![Some(policy)]);
        return Some(());
    }
    let ranks = names.last_mut().filter(|ranks| rank >= ranks.len() && rank < MAX_RANKS)?;
    let same = ranks.first()?.as_ref().is_some_and(|first| first.name() == policy.name());
    ranks.resize(rank, None);
    ranks.push(Some(policy));
    (same && number + 1 == names.len()).then_some(())
}

/// The blocks of a snapshot, with a checksum of what has been read.
struct StoreBlocks<'a> {
    from: &'a mut dyn Read,
    sum: u32,
    /// The last block that was read.
    block: Vec<u8>,
}

const CUT: SnapshotError = SnapshotError::Damaged("it ends too soon");
const CHECKSUM: SnapshotError = SnapshotError::Damaged("its checksum");

impl StoreBlocks<'_> {
    fn word(&mut self) -> Result<u64, SnapshotError> {
        let mut word = [0; 8];
        self.from.read_exact(&mut word).map_err(cut)?;
        self.sum = crc32c::crc32c_append(self.sum, &word);
        Ok(u64::from_le_bytes(word))
    }

    /// Reads the next block. Returns whether there was one.
    fn next(&mut self) -> Result<bool, SnapshotError> {
        let len = self.word()?;
        self.fill(len)?;
        Ok(len > 0)
    }

    /// Reads a block, without allocating for more than is there, whatever the length says.
    fn fill(&mut self, len: u64) -> Result<(), SnapshotError> {
        self.block.clear();
        self.block.reserve(len.min(AT_ONCE) as usize);
        let read = (&mut *self.from).take(len).read_to_end(&mut self.block)?;
        self.sum = crc32c::crc32c_append(self.sum, &self.block);
        if read as u64 == len { Ok(()) } else { Err(CUT) }
    }

    fn head(&mut self) -> Result<StoreHead, SnapshotError> {
        // Other files are distinguished from snapshots by their first words.
        let too_short = |error| match error {
            SnapshotError::Damaged(_) => SnapshotError::NotOne,
            error => error,
        };
        let len = self.word().map_err(too_short)?;
        let magic = self.word().map_err(too_short)?;
        let Some(rest) = len.checked_sub(8).filter(|_| magic == MAGIC) else {
            return Err(SnapshotError::NotOne);
        };
        self.fill(rest)?;
        let head = [&magic.to_le_bytes(), &self.block[..]].concat();
        read_head(&head).map_err(|error| match error {
            SnapshotError::Damaged(_) => self.rest(error),
            error => error,
        })
    }

    /// Reads the word after the last block, which is the checksum of everything before it.
    fn check_sum(&mut self) -> Result<(), SnapshotError> {
        let sum = u64::from(self.sum);
        if self.word()? == sum { Ok(()) } else { Err(CHECKSUM) }
    }

    /// Returns the error for a snapshot that cannot be read: that it is damaged, if the rest of it shows that.
    fn rest(&mut self, error: SnapshotError) -> SnapshotError {
        loop {
            match self.next() {
                Ok(true) => {}
                Ok(false) => return self.check_sum().err().unwrap_or(error),
                Err(_) => return CHECKSUM,
            }
        }
    }
}

fn cut(error: io::Error) -> SnapshotError {
    if error.kind() == ErrorKind::UnexpectedEof { CUT } else { error.into() }
}

const _: () = assert!(NAME_BITS <= 16, "a name fits in 16 bits");
