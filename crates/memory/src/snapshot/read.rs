//! Reading a store from a file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use tollgate_core::{Cell, Clock, KeyState, Limit, Policy, Reader};

use super::limits::{read_limit, read_policy};
use super::{MAGIC, OLDEST, RANK_SHIFT, SnapshotError, VERSION, kind};
use crate::clock::Source;
use crate::ident::{Ident, NAME_BITS, Secret};
use crate::memory::{MOST_NAMES, Memory};
use crate::names::MOST_RANKS;

const DAMAGED_KEY: SnapshotError = SnapshotError::Damaged("a key that no store wrote");

impl Memory {
    /// A store with the keys of the file at `path`, as if it had not stopped: time in between has
    /// passed, by the machine's clock. The clock is the usual one unless another is given. `policies` are
    /// those of the new store; a name that is not among them keeps the policy it had. A policy that is gone
    /// is kept for as long as it has keys.
    pub fn restore(
        path: impl AsRef<Path>,
        cap: usize,
        clock: Option<Box<dyn Clock>>,
        policies: &[Policy],
    ) -> Result<Self, SnapshotError> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        check_sum(&mut file, bytes)?;
        file.seek(SeekFrom::Start(0))?;
        // What is read now has been summed up above, but may have been made so on purpose.
        let mut from = Blocks { from: BufReader::with_capacity(1 << 20, file), left: bytes };
        let head = from.block()?;
        let head = read_head(&head)?;
        let memory = Self::with_secret(cap, Source::of(clock), head.secret);
        // Keys come in another order than they did, and a table that is nearly full may not take them so.
        memory.shared().budget.allow(memory.stats().cap / 4);
        // Names keep their numbers, which are part of their keys' identities.
        for saved in head.names.iter().filter_map(|ranks| ranks.first()?.as_ref()) {
            let given = policies.iter().filter(|policy| policy.name() == saved.name());
            let none = given.clone().next().is_none();
            for policy in given.chain(none.then_some(saved)) {
                memory.shared().space(policy).map_err(|_| SnapshotError::Damaged("too many policy names"))?;
            }
        }
        loop {
            let entry = from.block()?;
            if entry.is_empty() {
                break;
            }
            memory.put_entry(&head, &entry)?;
        }
        memory.shared().budget.allow(0);
        Ok(memory)
    }

    fn put_entry(&self, head: &Head, entry: &[u8]) -> Result<(), SnapshotError> {
        let from = &mut Reader::new(entry);
        let mut read = || -> Option<_> {
            let (print, place) = (from.take()?, from.take()?);
            let (mark, rank, shard) = ((place >> 32) as u32, place as u32 >> RANK_SHIFT, u32::from(place as u16));
            let saved = head.names.get(usize::from(Ident::name(mark)))?.get(rank as usize)?.as_ref()?;
            let (cells, changed) = read_cells(saved, from)?;
            (print != 0 && from.is_done()).then_some((Ident { print, mark, shard }, saved, cells, changed))
        };
        let (ident, saved, cells, changed) = read().ok_or(DAMAGED_KEY)?;
        if self.shared().put_back(ident, saved, cells, changed) {
            Ok(())
        } else {
            Err(SnapshotError::Cap(self.stats().cap))
        }
    }
}

/// The cells of an entry, and whether they have limits of their own beside the saved policy's.
fn read_cells(saved: &Policy, from: &mut Reader<'_>) -> Option<(KeyState, bool)> {
    match from.take()? {
        kind::PACKED => {
            let [limit] = saved.limits() else { return None };
            let words = [from.take()?, from.take()?];
            let cell = limit.packs().then(|| limit.unpack(words))?;
            // Reading back what would be written checks its numbers.
            let mut to = tollgate_core::Writer::default();
            cell.write(&mut to);
            let read = limit.read(&mut Reader::new(&to.into_bytes()))?;
            Some((KeyState::of(saved, vec![read]), false))
        }
        kind::OWN => {
            let cells: Vec<Cell> = saved.limits().iter().map(|limit| limit.read(from)).collect::<Option<_>>()?;
            Some((KeyState::of(saved, cells), false))
        }
        kind::CHANGED => {
            let mut state = KeyState::default();
            for _ in 0..from.at_most(MOST_CELLS)? {
                let limit: Arc<Limit> = Arc::new(read_limit(from)?);
                let cell = limit.read(from)?;
                state.keep(limit, cell);
            }
            Some((state, true))
        }
        _ => None,
    }
}

/// More than a state keeps.
const MOST_CELLS: u64 = 128;

struct Head {
    secret: Secret,
    /// By number of the name and rank. There is always a first.
    names: Vec<Vec<Option<Policy>>>,
}

fn read_head(bytes: &[u8]) -> Result<Head, SnapshotError> {
    let from = &mut Reader::new(bytes);
    if from.take() != Some(MAGIC) {
        return Err(SnapshotError::NotOne);
    }
    let version = from.take().unwrap_or_default();
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(SnapshotError::Version(version));
    }
    let mut rest = || -> Option<Head> {
        let secret = Secret([from.take()?, from.take()?, from.take()?]);
        let _time = from.moment()?;
        let mut names = Vec::new();
        for number in 0..from.at_most((MOST_NAMES * MOST_RANKS) as u64)? {
            let place = if version == OLDEST { number << RANK_SHIFT } else { from.take()? };
            put_policy(&mut names, place, read_policy(from)?)?;
        }
        from.is_done().then_some(Head { secret, names })
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

/// Puts the next policy into its place: a name begins with the first of its policies, and those that follow
/// have its name.
fn put_policy(names: &mut Vec<Vec<Option<Policy>>>, place: u64, policy: Policy) -> Option<()> {
    let (number, rank) = (usize::try_from(place >> RANK_SHIFT).ok()?, usize::from(place as u16));
    if rank == 0 && number == names.len() && number < MOST_NAMES {
        names.push(vec![Some(policy)]);
        return Some(());
    }
    let ranks = names.last_mut().filter(|ranks| rank >= ranks.len() && rank < MOST_RANKS)?;
    let same = ranks.first()?.as_ref().is_some_and(|first| first.name() == policy.name());
    ranks.resize(rank, None);
    ranks.push(Some(policy));
    (same && number + 1 == names.len()).then_some(())
}

/// Reads the whole file once. Its last word is the sum of all before it.
fn check_sum(file: &mut File, bytes: u64) -> Result<(), SnapshotError> {
    let mut from = BufReader::with_capacity(1 << 20, file);
    let mut first = [0; 16];
    let Some(mut left) = bytes.checked_sub(8).filter(|left| *left >= 16) else {
        return Err(SnapshotError::NotOne);
    };
    from.read_exact(&mut first)?;
    if first[8..] != MAGIC.to_le_bytes() {
        return Err(SnapshotError::NotOne);
    }
    let mut sum = crc32c::crc32c(&first);
    left -= first.len() as u64;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let take = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        from.read_exact(&mut buffer[..take])?;
        sum = crc32c::crc32c_append(sum, &buffer[..take]);
        left -= take as u64;
    }
    let mut word = [0; 8];
    from.read_exact(&mut word)?;
    if u64::from_le_bytes(word) != u64::from(sum) { Err(SnapshotError::Damaged("its checksum")) } else { Ok(()) }
}

/// Blocks of a length that the file told.
struct Blocks<R> {
    from: R,
    left: u64,
}

impl<R: Read> Blocks<R> {
    fn block(&mut self) -> Result<Vec<u8>, SnapshotError> {
        let mut word = [0; 8];
        self.take(8)?;
        self.from.read_exact(&mut word)?;
        let len = u64::from_le_bytes(word);
        self.take(len)?;
        // Not more than is there, whatever the file says.
        let mut block = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        self.from.read_exact(&mut block)?;
        Ok(block)
    }

    fn take(&mut self, bytes: u64) -> Result<(), SnapshotError> {
        self.left = self.left.checked_sub(bytes).ok_or(SnapshotError::Damaged("a length beyond its end"))?;
        Ok(())
    }
}

const _: () = assert!(NAME_BITS <= 16, "a name is told by a mark's low bits");
