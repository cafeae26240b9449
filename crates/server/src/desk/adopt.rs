//! From one generation of policies to the next.

use std::sync::{Arc, PoisonError};

use arc_swap::Guard;
use tollgate_config::Config;

use super::{Desk, Generation, GenerationError};
use crate::data::Note;

/// What a server remembers of its life before.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// In the order they were noted; a later one of the same key counts.
    pub(crate) bans: Vec<Note>,
    /// The last generation that was in use.
    pub(crate) generation: u64,
}

/// What came of a file that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// It says what is in use.
    Unchanged,
    /// It is in use, as the generation of this number.
    As(u64),
}

impl Desk {
    /// The first generation of this life: the policies of the command line and of a file.
    pub(crate) fn begin(&self, config: Config, recovered: Recovered) -> Result<(), GenerationError> {
        self.bans.restore(recovered.bans);
        let number = recovered.generation.saturating_add(1);
        let next = Generation::new(number, &self.given, config, &Generation::default(), &self.home, &self.ops)?;
        self.use_next(next)?;
        self.correct_bans();
        Ok(())
    }

    /// Has requests see the policies of a file, if they differ from those in use. If one of them cannot be used,
    /// nothing changes.
    pub(crate) fn adopt(&self, config: Config) -> Result<Adopted, GenerationError> {
        let _one = self.adopting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&self.generation());
        if before.config == config {
            return Ok(Adopted::Unchanged);
        }
        let number = before.number.saturating_add(1);
        let next = Generation::new(number, &self.given, config, &before, &self.home, &self.ops)?;
        drop(before);
        self.use_next(next)?;
        Ok(Adopted::As(number))
    }

    fn use_next(&self, next: Generation) -> Result<(), GenerationError> {
        let number = next.number;
        self.ops.adopt(&next.config).map_err(GenerationError::Webhook)?;
        self.policies.put(next);
        self.home.note(&Note::Generation { number });
        let generation = self.generation();
        self.metrics.sweep(|name| generation.find(name).is_some());
        Ok(())
    }

    /// The generation in use. To be held shortly.
    #[inline]
    pub(crate) fn generation(&self) -> Guard<Arc<Generation>> {
        self.policies.load()
    }

    /// How many keys are banned now.
    pub(crate) fn banned(&self) -> usize {
        self.bans.banned(self.clock.now())
    }
}
