//! Atomics and locks under the same names for programs and for the model checkers, which run many interleavings: `cargo
//! xtask models`.

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

/// Whether the code runs in a model checker; sizes are small then.
pub(crate) const MODELLED: bool = cfg!(any(tollgate_loom, tollgate_shuttle));

/// The number of tries before a waiting thread yields.
const SPINS: u32 = if MODELLED { 0 } else { 64 };

/// Locks a mutex. Nothing that runs under a lock can panic, so the data of a poisoned lock is consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits a moment for the thread that holds a slot. It will release the slot soon, unless it was suspended.
pub(crate) fn relax(tries: &mut u32) {
    *tries += 1;
    if *tries <= SPINS {
        spin_loop();
    } else {
        yield_now();
    }
}
