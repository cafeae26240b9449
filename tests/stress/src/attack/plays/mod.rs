//! The known ways, each by itself: a few seconds, and a finding if it still works.

mod addresses;
mod ahead;
mod disk;
mod fresh;
mod full;
mod half;
mod names;
mod pairs;
mod plain;
mod queues;
mod unlimited;

use std::time::{Duration, Instant};

pub(super) use ahead::variables as clock_variables;

use super::Caps;
use crate::args::Args;
use crate::{Failure, Report};

/// `--memory` of the servers of plays, in MiB: the smallest is the quickest to fill.
const MEMORY: u64 = 4;
/// Findings of a play that are told in full.
const MAX_TOLD: usize = 2;
/// Characters of a play's line.
const MAX_SHOWN: usize = 300;

/// A known way.
pub(super) struct Play {
    pub(super) name: &'static str,
    what: &'static str,
    run: fn(&Sizes, &mut Report) -> Result<(), Failure>,
    lane: Lane,
}

/// Plays of a lane are played one after the other, lanes beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// It keeps the server busy.
    Working,
    /// It asks little, or waits for restarts.
    Quick,
    /// It holds something until others get it back, which takes the longest.
    Holding,
}

/// What plays are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    caps: Caps,
    patience: Duration,
}

/// All of them.
pub(super) static PLAYS: &[Play] = &[
    Play {
        name: "unlimited-by-record",
        what: "packed keys that are then used under a text that needs a record",
        run: unlimited::by_record,
        lane: Lane::Working,
    },
    Play {
        name: "unlimited-by-reload",
        what: "a reload that adds a limit to a policy with many keys",
        run: unlimited::by_reload,
        lane: Lane::Working,
    },
    Play {
        name: "unlimited-by-texts",
        what: "many keys under texts of 32 limits",
        run: unlimited::by_texts,
        lane: Lane::Working,
    },
    Play {
        name: "restart",
        what: "a clean stop and a start when memory is full",
        run: full::restart,
        lane: Lane::Working,
    },
    Play {
        name: "fresh-by-name",
        what: "a peek, a cost of 0, an empty refund and an explanation under another text of the name",
        run: fresh::by_name,
        lane: Lane::Quick,
    },
    Play {
        name: "fresh-of-policy",
        what: "the same against policies of the server, by NAME",
        run: fresh::of_policy,
        lane: Lane::Quick,
    },
    Play {
        name: "pushed-out",
        what: "65 and more longer-lived texts on a key",
        run: fresh::pushed_out,
        lane: Lane::Quick,
    },
    Play { name: "refund", what: "a refund of everything with the scope check", run: fresh::refund, lane: Lane::Quick },
    Play { name: "names", what: "17 lives of a thousand policy names each", run: names::lives, lane: Lane::Quick },
    Play { name: "half-sent", what: "1,000 HTTP bodies of which half is sent", run: half::bodies, lane: Lane::Quick },
    Play {
        name: "addresses",
        what: "one address in many spellings, and what is none",
        run: addresses::spellings,
        lane: Lane::Quick,
    },
    Play { name: "pairs", what: "pairs of keys that share a bucket", run: pairs::sharing, lane: Lane::Working },
    Play { name: "queues", what: "idle connections with full MULTI queues", run: queues::held, lane: Lane::Holding },
    Play { name: "clock-ahead", what: "a clock that was once ahead", run: ahead::once, lane: Lane::Quick },
    Play {
        name: "plain-keys",
        what: "plain keys while the clock is set back",
        run: plain::set_back,
        lane: Lane::Quick,
    },
    Play { name: "full-disk", what: "a restart on a full disk", run: disk::full, lane: Lane::Quick },
];

/// Plays those that are wanted.
pub(super) fn play(
    report: &mut Report,
    args: &Args,
    is_wanted: impl Fn(&str) -> bool + Copy + Send + Sync,
) -> Result<(), Failure> {
    let caps = Caps { memory: MEMORY, buffers: args.some("buffers") };
    let sizes = Sizes { caps, patience: Duration::from_secs(args.some("patience")) };
    let play_all = &|lane: Lane| {
        let of_lane = PLAYS.iter().filter(|play| play.lane == lane && is_wanted(play.name));
        of_lane.map(|play| play.out(&sizes)).collect::<Vec<Report>>()
    };
    let played = std::thread::scope(|scope| {
        let lanes = [Lane::Working, Lane::Quick, Lane::Holding].map(|lane| scope.spawn(move || play_all(lane)));
        lanes.map(|lane| lane.join().map_err(|_| Failure("a play panicked".to_owned())))
    });
    for lane in played {
        lane?.into_iter().for_each(|played| report.absorb(played));
    }
    Ok(())
}

impl Play {
    /// Plays it, and says what came of it. One that cannot be played to its end is a finding too: the server may be
    /// why.
    fn out(&'static self, sizes: &Sizes) -> Report {
        let started = Instant::now();
        let mut found = Report::default();
        if let Err(failure) = (self.run)(sizes, &mut found) {
            found.violated(format!("it could not be played to its end: {failure}"));
        }
        let mut report = Report::default();
        let took = started.elapsed().as_secs_f64();
        let first = found.violations().first().map_or("nothing found", String::as_str);
        let line = format!("{:<20} {took:>5.1} s  {:>2} findings  {first}", self.name, found.violations().len());
        report.say(line.chars().take(MAX_SHOWN).collect::<String>());
        let (told, more) =
            (found.violations().iter().take(MAX_TOLD), found.violations().len().saturating_sub(MAX_TOLD));
        told.for_each(|what| report.violated(format!("{} ({}): {what}", self.name, self.what)));
        if more > 0 {
            report.violated(format!("{} ({}): and {more} more", self.name, self.what));
        }
        report
    }
}
