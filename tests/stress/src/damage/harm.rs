//! What is done to files.

use super::story::Files;
use tollgate_random::Rng;

const PAGE: usize = 4096;
/// The head of a frame of a journal: length, checksum and number.
const HEAD: usize = 16;

/// What was done.
#[derive(Clone, Debug, Default)]
pub(super) struct Harm {
    /// In words.
    pub(super) told: String,
    /// A journal was cut where one of its frames ends, or nothing at all was done: nobody can tell.
    pub(super) is_unseen: bool,
    /// It is before the last journal, which is as it was and proves that all before it was synced, and not in what a
    /// newer snapshot covers: to be refused.
    pub(super) is_deep: bool,
}

type HarmFn = fn(&mut Files, &str, &mut Rng) -> String;

/// The ways, each with its weight.
const WAYS: &[(u64, HarmFn)] = &[
    (4, truncate),
    (5, flip),
    (2, zero),
    (2, garbage),
    (2, duplicate),
    (2, reorder),
    (3, frames),
    (1, append),
    (1, remove),
    (1, exchange),
    (1, copy),
];

/// Harms files, one way or two.
pub(super) fn harm(files: &mut Files, rng: &mut Rng) -> Harm {
    let before = files.clone();
    let mut told = Vec::new();
    for _ in 0..1 + rng.below(8) / 7 {
        let names: Vec<String> = files.keys().cloned().collect();
        let Some(name) = names.get(rng.index(names.len())) else { break };
        let mut at = rng.below(WAYS.iter().map(|(weight, _)| weight).sum());
        let way = WAYS.iter().find(|(weight, _)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        if let Some((_, way)) = way {
            told.push(way(files, name, rng));
        }
    }
    let last = last(&before, "journal-");
    let covered = last_of(&before, "snapshot-").unwrap_or(0);
    let changed: Vec<&String> =
        before.iter().filter(|(name, bytes)| files.get(*name) != Some(*bytes)).map(|(name, _)| name).collect();
    let is_cut = |name: &&String| Some(*name) == last.as_ref() && is_cut_between_frames(&before, files, name);
    let is_deep = |name: &&String| {
        let number = number(name);
        Some(*name) != last.as_ref() && number.is_some_and(|number| number >= covered)
    };
    Harm {
        told: told.join(", then "),
        is_unseen: changed.is_empty() || changed.iter().any(is_cut),
        is_deep: !changed.iter().any(|name| Some(*name) == last.as_ref()) && changed.iter().any(is_deep),
    }
}

/// The file of a kind with the highest number.
fn last(files: &Files, kind: &str) -> Option<String> {
    files.keys().filter(|name| name.starts_with(kind) && number(name).is_some()).max().cloned()
}

fn last_of(files: &Files, kind: &str) -> Option<u64> {
    last(files, kind).as_deref().and_then(number)
}

/// The number in a file's name.
fn number(name: &str) -> Option<u64> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// Whether all that happened to a journal is that some frames are missing at its end, or all of it.
fn is_cut_between_frames(before: &Files, after: &Files, name: &str) -> bool {
    let (Some(before), Some(after)) = (before.get(name), after.get(name)) else { return false };
    before.starts_with(after) && edges(before).contains(&after.len())
}

/// Where the frames of a journal begin and end.
fn edges(journal: &[u8]) -> Vec<usize> {
    let (mut edges, mut at) = (vec![0], 0);
    while let Some(length) = journal.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) {
        at += HEAD + u32::from_le_bytes(length) as usize;
        if at > journal.len() {
            break;
        }
        edges.push(at);
    }
    edges
}

fn truncate(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let length = bytes.len() as u64;
    // Mostly near the end, as crashes do; now and then anywhere, nothing left too.
    let left = match rng.below(3) {
        0 => rng.below(length + 1),
        1 => length.saturating_sub(1 + rng.below(64)),
        _ => length.saturating_sub(1 + rng.below(2_000)),
    };
    bytes.truncate(left as usize);
    format!("{name} cut from {length} to {left} bytes")
}

fn flip(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name).filter(|bytes| !bytes.is_empty()) else { return String::new() };
    let mut places = Vec::new();
    for _ in 0..1 + rng.below(8) / 5 {
        let place = rng.index(bytes.len());
        bytes[place] ^= 1 << rng.below(8);
        places.push(place);
    }
    format!("{name} with bits flipped at {places:?}")
}

/// A page, or what there is of it.
fn page(bytes: &mut [u8], rng: &mut Rng) -> (usize, usize) {
    let page = rng.index(bytes.len().div_ceil(PAGE)) * PAGE;
    (page, (page + PAGE).min(bytes.len()))
}

fn zero(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let (start, end) = page(bytes, rng);
    bytes[start..end].fill(0);
    format!("{name} with zeros from {start} to {end}")
}

fn garbage(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let (start, end) = chunk(bytes, rng);
    bytes[start..end].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
    format!("{name} with anything from {start} to {end}")
}

/// A part of a file.
fn chunk(bytes: &[u8], rng: &mut Rng) -> (usize, usize) {
    let start = rng.below(bytes.len() as u64);
    let most = 1 << rng.below(13);
    (start as usize, (start + 1 + rng.below(most)).min(bytes.len() as u64) as usize)
}

fn duplicate(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let (start, end) = chunk(bytes, rng);
    let twice = bytes[start..end].to_vec();
    bytes.splice(end..end, twice);
    format!("{name} with {start} to {end} twice")
}

fn reorder(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let (start, end) = chunk(bytes, rng);
    let middle = start + rng.below((end - start) as u64 + 1) as usize;
    bytes[start..end].rotate_left(middle - start);
    format!("{name} with {start} to {middle} behind {middle} to {end}")
}

/// Whole frames, each of them right, cut off, gone, twice or in another order.
fn frames(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let edges = edges(bytes);
    let mut pick = || edges[rng.index(edges.len())];
    let mut places = [pick(), pick(), pick()];
    places.sort_unstable();
    let [start, middle, end] = places;
    match rng.below(4) {
        0 => bytes.truncate(middle),
        1 => drop(bytes.drain(start..middle)),
        2 => {
            let twice = bytes[start..middle].to_vec();
            bytes.splice(end..end, twice);
        }
        _ => bytes[start..end].rotate_left(middle - start),
    }
    format!("{name} with frames of {start}, {middle} and {end} moved")
}

fn append(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get_mut(name) else { return String::new() };
    let more = 1 + rng.below(300);
    let zeros = rng.below(2) == 0;
    bytes.extend((0..more).map(|_| if zeros { 0 } else { rng.next_u64() as u8 }));
    format!("{name} with {more} bytes more")
}

fn remove(files: &mut Files, name: &str, _: &mut Rng) -> String {
    files.remove(name);
    format!("{name} gone")
}

/// Another file of the folder.
fn other(files: &Files, name: &str, rng: &mut Rng) -> Option<String> {
    let others: Vec<&String> = files.keys().filter(|other| *other != name).collect();
    others.get(rng.index(others.len())).map(|other| (*other).clone())
}

fn exchange(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(other) = other(files, name, rng) else { return String::new() };
    let (one, two) = (files.remove(name), files.remove(&other));
    one.into_iter().for_each(|bytes| drop(files.insert(other.clone(), bytes)));
    two.into_iter().for_each(|bytes| drop(files.insert(name.to_owned(), bytes)));
    format!("{name} and {other} exchanged")
}

/// A copy under the next number, or in another's place.
fn copy(files: &mut Files, name: &str, rng: &mut Rng) -> String {
    let Some(bytes) = files.get(name).cloned() else { return String::new() };
    let next = name.rsplit_once('-').zip(number(name)).map(|((kind, _), number)| format!("{kind}-{:010}", number + 1));
    let to = next.filter(|_| rng.below(2) == 0).or_else(|| other(files, name, rng));
    let Some(to) = to else { return String::new() };
    files.insert(to.clone(), bytes);
    format!("{name} copied to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        // Two frames of one and of two bytes behind their heads.
        let frame = |body: u32| [&body.to_le_bytes()[..], &[7; 12], &vec![9; body as usize]].concat();
        let journal = || [frame(1), frame(2)].concat();
        let names = ["journal-0000000002", "journal-0000000003", "snapshot-0000000002"];
        names.map(|name| (name.to_owned(), journal())).into()
    }

    #[test]
    fn what_nobody_can_see_is_told_apart() {
        let (last, before) = ("journal-0000000003", files());
        for (left, is_unseen) in [(35, true), (34, false), (17, true), (16, false), (1, false), (0, true)] {
            let mut after = before.clone();
            after.get_mut(last).unwrap().truncate(left);
            assert_eq!(is_cut_between_frames(&before, &after, last), is_unseen, "{left}");
        }
    }

    #[test]
    fn every_way_harms() {
        let mut ways = std::collections::BTreeSet::new();
        for part in 0..2_000 {
            let mut after = files();
            let harm = harm(&mut after, &mut Rng::of_part(3, part));
            assert!(!harm.told.is_empty());
            assert!(harm.is_unseen || after != files(), "{harm:?}");
            ways.extend(harm.told.split(' ').skip(1).take(2).map(str::to_owned));
        }
        for word in ["cut", "with", "gone", "and", "copied"] {
            assert!(ways.contains(word), "{ways:?}");
        }
    }
}
