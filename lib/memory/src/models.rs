//! Every interleaving of two or three threads on slots and shards, up to three preemptions each: `cargo xtask models`.
//!
//! The model checker runs each closure repeatedly, once for every order in which its atomics and locks can be used, and
//! for every value that weak ordering allows a load to see.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use crate::budget::Budget;
use crate::ident::StoreIdent;
use crate::shard::Shard;
use crate::slot::{Slot, SlotContents, SlotForm};

/// Tries every interleaving. The checker misses those in which a thread changes what it has just read itself, so the
/// values that threads depend on are read before they start. It must have tried more than one interleaving, or it has
/// missed them all.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        run();
    });
    assert!(runs.load(Ordering::Relaxed) > 1, "{runs:?} interleavings");
}

/// Returns two words that only belong together.
fn pair(number: u64) -> [u64; 2] {
    [number, !number]
}

/// Returns the form of words packed by the policy of this rank.
fn packed(rank: u8) -> SlotForm {
    SlotForm { rank, boxed: false, shares: false }
}

fn filled(number: u64) -> Slot {
    let slot = Slot::empty();
    if let Some(locked) = slot.lock(slot.read()) {
        locked.fill(7, 3, packed(2), pair(number));
    }
    slot
}

#[test]
fn a_reader_never_sees_half_a_change() {
    model(|| {
        let slot = Arc::new(filled(0));
        let seen = slot.read();
        let writers: Vec<_> = [1, 2]
            .map(|number| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.replace(seen, pair(number)))
            })
            .into();
        let seen = slot.read();
        assert_eq!(seen.words, pair(seen.words[0]));
        assert_eq!((seen.print, seen.mark(), seen.rank(), seen.boxed()), (7, 3, 2, false));
        let replaced = writers.into_iter().filter_map(|writer| writer.join().ok()).filter(|done| *done).count();
        assert_eq!(replaced, 1, "both saw the same");
        assert_eq!(slot.read().words, pair(slot.read().words[0]));
    });
}

#[test]
fn no_charge_is_lost() {
    model(|| {
        let slot = Arc::new(filled(0));
        let add = |slot: &Slot, mut seen: SlotContents| {
            while !slot.replace(seen, pair(seen.words[0] + 1)) {
                seen = slot.read();
            }
        };
        let seen = slot.read();
        let other = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || add(&slot, seen))
        };
        add(&slot, seen);
        other.join().unwrap();
        assert_eq!(slot.read().words, pair(2));
    });
}

#[test]
fn a_lock_keeps_others_out() {
    model(|| {
        let slot = Arc::new(filled(5));
        let seen = slot.read();
        let other = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                // Emptied and filled by another key, as when a slot is reused.
                let locked = slot.lock(seen).unwrap_or_else(|| crate::shard::lock_slot(&slot));
                locked.clear();
                crate::shard::lock_slot(&slot).fill(9, 4, SlotForm { boxed: true, ..packed(1) }, pair(6));
            })
        };
        let ours = slot.replace(seen, pair(8));
        other.join().unwrap();
        let seen = slot.read();
        assert_eq!((seen.print, seen.mark(), seen.rank(), seen.boxed()), (9, 4, 1, true), "{ours}");
        assert_eq!(seen.words, pair(6), "{ours}");
    });
}

fn ident(print: u64) -> StoreIdent {
    StoreIdent { print, mark: 1, shard: 0 }
}

fn insert(
    shard: &Shard,
    budget: &Budget,
    ident: StoreIdent,
    words: [u64; 2],
    expired: &dyn Fn(&SlotContents) -> bool,
) -> bool {
    let mut inner = shard.lock();
    if shard.find(ident).is_some() {
        return false;
    }
    let place = shard.place(&mut inner, ident, budget, expired);
    place.map(|place| place.fill(ident.print, ident.mark, packed(0), words)).is_some()
}

#[test]
fn one_key_that_two_threads_bring_is_inserted_once() {
    model(|| {
        let budget = Arc::new(Budget::new(1 << 20));
        let shard = Arc::new(Shard::new(1 << 12, &budget));
        let other = {
            let (shard, budget) = (Arc::clone(&shard), Arc::clone(&budget));
            thread::spawn(move || insert(&shard, &budget, ident(5), pair(1), &|_| false))
        };
        let mine = insert(&shard, &budget, ident(5), pair(2), &|_| false);
        assert!(mine != other.join().unwrap());
        assert_eq!(shard.keys(), 1);
    });
}

#[test]
fn a_key_is_charged_once_while_its_bucket_is_split() {
    model(|| {
        let budget = Arc::new(Budget::new(1 << 20));
        let shard = Arc::new(Shard::new(1 << 12, &budget));
        // Six of the eight slots of two buckets: the next key splits a bucket.
        for print in [2, 3, 4 | 2 << 32, 5 | 3 << 32, 6, 7] {
            assert!(insert(&shard, &budget, ident(print), pair(print), &|_| false));
        }
        let (slot, seen) = shard.find(ident(6)).unwrap();
        let other = {
            let (shard, budget) = (Arc::clone(&shard), Arc::clone(&budget));
            thread::spawn(move || insert(&shard, &budget, ident(8), pair(8), &|_| false))
        };
        if !slot.replace(seen, pair(60)) {
            // A result of `None` would be reliable only under the lock.
            let _inner = shard.lock();
            let (slot, _) = shard.find(ident(6)).unwrap();
            crate::shard::lock_slot(slot).put(pair(60));
        }
        assert!(other.join().unwrap());
        for (print, words) in [(2, 2), (3, 3), (6, 60), (7, 7), (8, 8)] {
            let found = shard.find(ident(print)).unwrap();
            assert_eq!(found.1.words, pair(words), "{print}");
        }
    });
}

#[test]
fn a_key_that_is_charged_is_not_forgotten() {
    model(|| {
        let budget = Arc::new(Budget::new(0));
        let shard = Arc::new(Shard::new(1 << 12, &budget));
        // Both buckets are full of keys that may be forgotten.
        for print in 1..=8 {
            assert!(insert(&shard, &budget, ident(print), pair(0), &|_| false));
        }
        let (slot, seen) = shard.find(ident(2)).unwrap();
        let other = {
            let (shard, budget) = (Arc::clone(&shard), Arc::clone(&budget));
            thread::spawn(move || insert(&shard, &budget, ident(10), pair(9), &|seen| seen.words == pair(0)))
        };
        let charged = slot.replace(seen, pair(77));
        assert!(other.join().unwrap());
        if charged {
            assert_eq!(shard.find(ident(2)).unwrap().1.words, pair(77), "its charge stands");
        }
        assert_eq!(shard.find(ident(10)).unwrap().1.words, pair(9));
    });
}
