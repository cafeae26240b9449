//! The home `memory`: the embedded store, by a clock that shows the vectors' time.

use tollgate_kernel::{Cell, Policy, Timestamp};
use tollgate_memory::{DEFAULT_CAP, Manual, Memory};

use crate::home::Refusal;
use crate::process::{InProcess, Keys};

/// The embedded store, with the keys of one scenario.
pub type Embedded = InProcess<Stored>;

/// A store and its clock.
pub struct Stored {
    memory: Memory,
    clock: Manual,
}

impl Default for Stored {
    fn default() -> Self {
        let clock = Manual::default();
        Self { memory: Memory::with_clock(DEFAULT_CAP, Box::new(clock.clone())), clock }
    }
}

impl Keys for Stored {
    fn act<R>(
        &mut self,
        policy: &Policy,
        key: &[u8],
        t: Timestamp,
        act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Result<R, Refusal> {
        self.clock.set(t);
        let policy = self.memory.prepare(policy).map_err(|error| Refusal::new(error.to_string()))?;
        self.memory.act(&policy, key, act).map_err(|error| Refusal::new(error.to_string()))
    }
}
