//! The journal from outside.
//!
//! | file | what it shows |
//! |---|---|
//! | `damage.rs` | damaged directories: refused with file and offset and left unchanged, or cut at a torn tail and reported; repaired to a prefix of the history and reported |
//! | `failures.rs` | a full disk, and writes, syncs and renames that fail: nothing is settled after them until a new snapshot and new files are on disk, and what was settled before them is there |
//! | `fuzz.rs` | files of random bytes, and of bytes that look nearly right: no panic, no large allocation, no state but an empty one or the beginning of the history |
//! | `power.rs` | a loss of power at every operation of a run: what was promised is there, and nothing is refused |
//! | `real.rs` | the file system itself: one writer, owners, modes, links, foreign files, and a journal that is read again |
//! | `threads.rs` | many threads frame and settle at once: the order in the files is the order of the lock, nothing is lost, and every record that was settled is there |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod failures;
mod fuzz;
mod power;
mod real;
#[path = "../support/mod.rs"]
mod support;
mod threads;
