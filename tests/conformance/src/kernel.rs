//! The home `kernel`: states in a map, nothing between them and the kernel.

use std::collections::HashMap;

use tollgate_kernel::{Cell, KeyState, Policy, Timestamp};

use crate::home::Refusal;
use crate::process::{Keys, ProcessHome};

/// The decision kernel, with the keys of one scenario.
pub type Kernel = ProcessHome<States>;

/// A state a key.
#[derive(Default)]
pub struct States(HashMap<Vec<u8>, KeyState>);

impl Keys for States {
    fn act<R>(
        &mut self,
        policy: &Policy,
        key: &[u8],
        t: Timestamp,
        mut act: impl FnMut(&mut [Cell], Timestamp) -> R,
    ) -> Result<R, Refusal> {
        let state = self.0.entry(key.to_vec()).or_default();
        Ok(act(state.cells_of(policy, t), t))
    }
}
