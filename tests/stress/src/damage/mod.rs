//! Servers that find their files damaged: cut, flipped, doubled, in another order, zeroed, gone, exchanged.
//!
//! A story is what one connection did, all of it answered, and the folder that it left. Each trial harms a copy of
//! a folder and starts a server on it. What is held: it refuses, names a file, and leaves all files as they are;
//! or it starts, and one moment of the story explains all keys, and if that is not the last one it says so. What
//! is harmed elsewhere than at the end is refused. With `--repair` it starts, as at some moment, and says so, and
//! later without it too. It never panics.
//!
//! | file | what it is |
//! |---|---|
//! | `story.rs` | the stories |
//! | `harm.rs` | what is done to files |
//! | `trial.rs` | one harmed folder, and what a server makes of it |

mod harm;
mod story;
mod trial;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::args::Args;
use crate::{Campaign, Failure, Report};
use story::Story;
use trial::{Trial, TrialFigures};

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "damage",
    options: &[
        ("trials", 10_000, "folders harmed"),
        ("first", 0, "the number of the first: with one trial, that one again"),
        ("lanes", 2, "trials at once"),
    ],
    texts: &[],
    help: "servers that find their files damaged",
    run,
};

fn run(args: &Args) -> Result<Report, Failure> {
    let (mut report, seed, trials) = (Report::default(), args.get("seed"), args.some("trials"));
    let stories = Story::all(seed)?;
    for story in &stories {
        report.say(format!("{}: {} acts on {} keys; {}", story.name, story.acts(), story.keys(), story.files()?));
    }
    let (first, end) = (args.get("first"), args.get("first").saturating_add(trials));
    let (next, found) = (AtomicU64::new(first), Mutex::new((Report::default(), TrialFigures::default(), None)));
    std::thread::scope(|scope| {
        for _ in 0..args.some("lanes") {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    let story = &stories[(number % stories.len() as u64) as usize];
                    let (mut own, mut came) = (Report::default(), TrialFigures::default());
                    let done = Trial { story, number, seed }.run(&mut own, &mut came);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.0.absorb(own);
                    found.1.add(&came);
                    if let Err(failure) = done {
                        found.2.get_or_insert(failure);
                        next.store(end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (own, came, failure) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.absorb(own);
    if let Some(failure) = failure {
        return Err(failure);
    }
    came.tell(&mut report);
    Ok(report)
}
