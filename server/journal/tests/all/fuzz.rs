//! Files of random bytes, and of bytes that look nearly right: no panic, no large allocation, no state but an empty one
//! or the beginning of the history.

use std::sync::Arc;

use crate::support::{Files, JournalRun, options, path, record, repairing, rounds};
use tollgate_journal::disk::EmulatedDisk;
use tollgate_journal::{SyncMode, open};
use tollgate_random::Rng;

const ROUNDS: u64 = 100_000;
/// What a reading may take beside four times the files.
const ROOM: u64 = 64 << 10;

const NAMES: [&str; 6] = [
    "journal-0000000001",
    "journal-0000000002",
    "snapshot-0000000001",
    "snapshot-0000000002",
    "newest",
    "journal-0000000002.damaged",
];

/// A length, a number or a mark, as readers look for them, or nothing of the kind.
fn token(rng: &mut Rng, known: &[u8]) -> Vec<u8> {
    match rng.below(7) {
        0 => [1_u32, 2, 17, 46, 0, 1 << 20, (1 << 20) + 1, u32::MAX][rng.index(8)].to_le_bytes().to_vec(),
        1 => [0_u64, 1, 2, u64::MAX, u64::MAX - 1][rng.index(5)].to_le_bytes().to_vec(),
        2 => vec![0; rng.index(40)],
        3 => vec![255; rng.index(40)],
        4 => framed(rng),
        5 => {
            let start = rng.index(known.len());
            known[start..known.len().min(start + rng.index(200))].to_vec()
        }
        _ => (0..rng.index(60)).map(|_| rng.next_u64().to_le_bytes()[0]).collect(),
    }
}

/// A frame with a right checksum and any contents.
fn framed(rng: &mut Rng) -> Vec<u8> {
    let mut checked = rng.below(6).to_le_bytes().to_vec();
    checked.push(u8::try_from(rng.below(6)).unwrap());
    match rng.below(3) {
        0 => checked.extend_from_slice(b"TGJOURNL\x01\0\0\0"),
        1 => record(rng.below(4), &mut checked),
        _ => {}
    }
    checked.extend((0..rng.index(50)).map(|_| u8::try_from(rng.below(5)).unwrap()));
    let len = u32::try_from(checked.len() - 8).unwrap();
    [&len.to_le_bytes()[..], &crc32c::crc32c(&checked).to_le_bytes(), &checked].concat()
}

#[test]
fn readers_take_any_bytes() {
    let mut run = JournalRun::start(&EmulatedDisk::new(3), SyncMode::EverySecond).unwrap();
    run.frame(8);
    run.snapshot(1).unwrap();
    run.frame(8);
    run.sync().unwrap();
    let whole = run.disk.files();
    let known: Vec<u8> = whole.values().flatten().copied().collect();
    for seed in 0..rounds(ROUNDS) {
        let mut rng = Rng::new(seed);
        let mut files = if rng.one_in(3) { whole.clone() } else { Files::new() };
        for _ in 0..=rng.below(2) {
            let bytes = (0..rng.below(12)).flat_map(|_| token(&mut rng, &known)).collect();
            files.insert(path(rng.pick(&NAMES)), bytes);
        }
        let input: usize = files.values().map(Vec::len).sum();
        let disk = EmulatedDisk::with(seed, files.clone());
        let chosen = if rng.one_in(2) { options(SyncMode::Always) } else { repairing(SyncMode::Always) };
        let mut opened = None;
        let used = allocation_counter::measure(|| {
            if let Ok((mut found, _)) = open(&chosen, Arc::new(disk.clone())) {
                found.frames(|_| Ok(())).unwrap();
                opened = Some(found);
            }
        });
        assert!(used.bytes_max <= 4 * input as u64 + ROOM, "seed {seed}: {} bytes for {input}", used.bytes_max);
        assert!(disk.files() == files, "seed {seed}: changed before the start");
        if let Some(opened) = opened.filter(|_| rng.one_in(4)) {
            opened.start_by_hand().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}
