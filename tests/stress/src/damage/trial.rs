//! One harmed folder, and what a server makes of it.

use std::path::Path;

use super::harm::{Harm, harm};
use super::story::{Story, files, names_a_file, words, write};
use crate::kills::HistoryFigures;
use crate::serving::{Folder, Resp, ServerProcess, StartOutcome, panic_in};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// One in so many repaired folders is started on once more, without repair.
const AGAIN: u64 = 4;

pub(super) struct Trial<'a> {
    pub(super) story: &'a Story,
    pub(super) number: u64,
    pub(super) seed: u64,
}

/// What came of trials.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrialFigures {
    trials: u64,
    refused: u64,
    /// Started with all, and with less, as they said.
    whole: u64,
    cut: u64,
    /// Less without a word, where nobody can tell.
    unseen: u64,
    repaired: u64,
    /// Repaired with all there was.
    repaired_whole: u64,
}

impl TrialFigures {
    pub(super) fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        self.refused += other.refused;
        self.whole += other.whole;
        self.cut += other.cut;
        self.unseen += other.unseen;
        self.repaired += other.repaired;
        self.repaired_whole += other.repaired_whole;
    }

    pub(super) fn tell(&self, report: &mut Report) {
        report.say(format!(
            "{} folders harmed: {} refused, {} started with less and said so, {} with all, {} where a journal ends \
             between two records, as after a kill; {} repaired, {} of them without a loss",
            self.trials, self.refused, self.cut, self.whole, self.unseen, self.repaired, self.repaired_whole
        ));
    }
}

impl Trial<'_> {
    pub(super) fn run(&self, report: &mut Report, came: &mut TrialFigures) -> Result<(), Failure> {
        let mut rng = Rng::of_part(self.seed ^ 0xda, self.number);
        let folder = Folder::new("damage")?;
        let data = folder.at("data");
        let mut harmed = files(&self.story.data())?;
        let harm = harm(&mut harmed, &mut rng);
        write(&data, &harmed)?;
        came.trials += 1;
        let mut violated = |what: String| {
            report.violated(format!("trial {} ({}; {}): {what}", self.number, self.story.name, harm.told));
        };
        match StartOutcome::new(&words(&data, false), &[])? {
            StartOutcome::Up(server) => match self.judge(server)? {
                Err(wrong) => violated(wrong),
                Ok((_, said)) if harm.is_deep => {
                    let said = said.join(" | ");
                    violated(format!("expected a refusal, since not only the end is harmed, found {said}"));
                }
                Ok((told, _)) if told.forgotten == 0 => came.whole += 1,
                Ok((_, said)) if self.story.is_unusual(&said) => came.cut += 1,
                Ok(_) if harm.is_unseen => came.unseen += 1,
                Ok((told, said)) => violated(silently(&told, &said)),
            },
            StartOutcome::Refused { status, said } => {
                came.refused += 1;
                if status.code() != Some(2) || panic_in(&said).is_some() || !said.iter().any(|line| names_a_file(line))
                {
                    violated(format!("expected a refusal that names a file, found {status}: {}", said.join(" | ")));
                }
                if files(&data)? != harmed {
                    violated("a server that refused changed files".to_owned());
                }
                self.repair(&data, &harm, rng.below(AGAIN) == 0, came, &mut violated)?;
            }
        }
        Ok(())
    }

    /// With repair it starts, and says what is left out.
    fn repair(
        &self,
        data: &Path,
        harm: &Harm,
        again: bool,
        came: &mut TrialFigures,
        violated: &mut impl FnMut(String),
    ) -> Result<(), Failure> {
        came.repaired += 1;
        match StartOutcome::new(&words(data, true), &[])? {
            StartOutcome::Refused { status, said } => {
                violated(format!("expected a start with --repair, found {status}: {}", said.join(" | ")));
                return Ok(());
            }
            StartOutcome::Up(server) => match self.judge(server)? {
                Err(wrong) => violated(format!("with --repair: {wrong}")),
                Ok((told, _)) if told.forgotten == 0 => came.repaired_whole += 1,
                Ok((_, said)) if self.story.is_unusual(&said) => {}
                Ok(_) if harm.is_unseen => {}
                Ok((told, said)) => violated(format!("with --repair: {}", silently(&told, &said))),
            },
        }
        if again && let StartOutcome::Refused { status, said } = StartOutcome::new(&words(data, false), &[])? {
            violated(format!("expected a start on a repaired folder, found {status}: {}", said.join(" | ")));
        }
        Ok(())
    }

    /// Whether one moment of the story explains what the server knows; what is forgotten, and what it said.
    fn judge(&self, server: ServerProcess) -> Result<Result<(HistoryFigures, Vec<String>), String>, Failure> {
        let (client, start) = (&self.story.client, Some(self.story.start));
        let found =
            Resp::connect(server.resp).map_err(Failure::from).and_then(|mut resp| client.read(&mut resp, start));
        let said = server.finish()?;
        if let Some(panic) = panic_in(&said) {
            return Ok(Err(panic));
        }
        let judged = found.map_err(|failure| failure.0).and_then(|found| client.history.judge(&found, start));
        Ok(judged.map(|told| (told, said)))
    }
}

fn silently(told: &HistoryFigures, said: &[String]) -> String {
    format!(
        "{} of {} acts forgotten and nothing unusual said of a file: {}",
        told.forgotten,
        told.answered,
        said.join(" | ")
    )
}
