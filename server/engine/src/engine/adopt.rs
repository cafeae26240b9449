//! The change from one generation of policies to the next.

use std::sync::{Arc, PoisonError};

use arc_swap::Guard;
use tollgate_config::Config;

use super::Engine;
use crate::persist::Note;
use crate::policies::{GenerationError, PolicyGeneration};

/// The state that a server recovered from its previous run.
#[derive(Debug, Default)]
pub struct RecoveredState {
    /// The bans, in the order they were recorded; a later one of the same key replaces an earlier one.
    pub bans: Vec<Note>,
    /// The last generation that was in use.
    pub generation: u64,
}

/// The outcome of adopting a valid file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptionOutcome {
    /// It equals the one in use.
    Unchanged,
    /// It is in use, as the generation with this number.
    As(u64),
}

impl Engine {
    /// Adopts the first generation of this run: the policies of the command line and of a file.
    pub fn begin(&self, config: Config, recovered: RecoveredState) -> Result<(), GenerationError> {
        self.bans.restore(recovered.bans);
        let number = recovered.generation.saturating_add(1);
        let next =
            PolicyGeneration::new(number, &self.given, config, &PolicyGeneration::default(), &self.home, &self.ops)?;
        self.use_next(next)?;
        self.correct_bans();
        Ok(())
    }

    /// Adopts the policies of a file, if they differ from those in use. If one of them cannot be used, nothing changes.
    pub fn adopt(&self, config: Config) -> Result<AdoptionOutcome, GenerationError> {
        let _one = self.adopting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&self.generation());
        if before.config == config {
            return Ok(AdoptionOutcome::Unchanged);
        }
        let number = before.number.saturating_add(1);
        let next = PolicyGeneration::new(number, &self.given, config, &before, &self.home, &self.ops)?;
        drop(before);
        self.use_next(next)?;
        Ok(AdoptionOutcome::As(number))
    }

    fn use_next(&self, next: PolicyGeneration) -> Result<(), GenerationError> {
        let number = next.number;
        self.ops.adopt(&next.config).map_err(GenerationError::Webhook)?;
        self.policies.put(next);
        self.home.persist_note(&Note::Generation { number });
        let generation = self.generation();
        self.counts.sweep(|name| generation.find(name).is_some());
        Ok(())
    }

    /// Returns the generation in use. Hold it only briefly.
    #[inline]
    pub fn generation(&self) -> Guard<Arc<PolicyGeneration>> {
        self.policies.load()
    }

    /// Returns the number of keys that are banned now.
    pub fn banned(&self) -> usize {
        self.bans.banned(self.clock.now())
    }
}
