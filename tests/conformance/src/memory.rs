//! The home `memory`: the embedded store, by a clock that shows the vectors' time.

use tollgate_kernel::{Cell, Policy, Timestamp};
use tollgate_memory::{DEFAULT_CAP, ManualClock, Memory};

use crate::home::Refusal;
use crate::process::{Keys, ProcessHome};

/// The embedded store, with the keys of one scenario.
pub type Embedded = ProcessHome<ClockedStore>;

/// A store and its clock.
pub struct ClockedStore {
    memory: Memory,
    clock: ManualClock,
}

impl Default for ClockedStore {
    fn default() -> Self {
        let clock = ManualClock::default();
        Self { memory: Memory::with_clock(DEFAULT_CAP, Box::new(clock.clone())), clock }
    }
}

impl Keys for ClockedStore {
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
