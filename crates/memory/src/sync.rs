//! Atomics and locks, by one name for programs and for the model checker, which runs every
//! interleaving: `cargo xtask loom`.

#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// The guard of a lock. Nothing that runs under one can panic, so a poisoned lock is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits a moment for whoever holds a slot: they are about to let go, unless they were suspended.
pub(crate) fn relax(tries: &mut u32) {
    *tries += 1;
    #[cfg(tollgate_loom)]
    loom::thread::yield_now();
    #[cfg(not(tollgate_loom))]
    if *tries < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
