//! Atomics and locks, by one name for programs and for the model checkers, which run many
//! interleavings: `cargo xtask models`.

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(tollgate_loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(tollgate_shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

/// Whether a model checker runs this: then everything is small.
pub(crate) const MODELLED: bool = cfg!(any(tollgate_loom, tollgate_shuttle));

/// Tries before a waiting thread lets others run.
const SPINS: u32 = if MODELLED { 0 } else { 64 };

/// The guard of a lock. Nothing that runs under one can panic, so a poisoned lock is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits a moment for whoever holds a slot: they are about to let go, unless they were suspended.
pub(crate) fn relax(tries: &mut u32) {
    *tries += 1;
    if *tries <= SPINS {
        spin_loop();
    } else {
        yield_now();
    }
}
