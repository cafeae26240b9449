//! `tollgate replay`: policies over recorded traffic on a virtual clock.
//!
//! One thread reads and parses (`feed.rs`), the others decide (`decider.rs`), each for its share of
//! the keys. The reader keeps the virtual clock, so what a key is told depends on its own requests
//! alone. Nothing asks a real clock, and nothing printed depends on the order of a hash table or
//! the number of threads: two runs are byte-identical.
//!
//! | file | what it is |
//! |---|---|
//! | `source.rs`, `lines.rs` | bytes, plain or gzip; lines |
//! | `format/` | one file a log format |
//! | `feed.rs` | the reading side: the virtual clock, faults, batches |
//! | `decider.rs`, `keys.rs`, `cells.rs`, `tally.rs` | the deciding side and what it holds |
//! | `decisions.rs`, `report.rs`, `summary.rs` | what comes out |

mod args;
mod cells;
mod decider;
mod decisions;
mod feed;
mod format;
mod keys;
mod lines;
mod progress;
mod report;
mod source;
mod summary;
mod tally;

use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

pub(crate) use args::ReplayArgs;
pub(crate) use format::Malformed;
pub(crate) use lines::LONGEST_LINE;

use crate::error::{Error, MOST_POLICIES};
use crate::policy;
use decider::{Decider, Outcome};
use decisions::Decisions;
use feed::{Batch, Feed, Lane};
use progress::Progress;
use source::Source;
use summary::Summary;
use tollgate_core::Policy;

/// Batches under way to each decider.
const UNDER_WAY: usize = 4;
/// More deciders than this wait for the reader.
const MOST_DECIDERS: usize = 8;

/// Runs the command; answers what to print.
pub(crate) fn run(args: &ReplayArgs) -> Result<String, Error> {
    if args.policy.len() > MOST_POLICIES {
        return Err(Error::Policies(args.policy.len()));
    }
    let policies: Vec<_> = args.policy.iter().map(|text| policy::parse(text, args.mode)).collect::<Result<_, _>>()?;
    let source = Source::open(&args.file)?;
    let (feed, outcome) = replay(args, &policies, source)?;
    let summary = Summary::new(args, &policies, &feed, outcome);
    Ok(if args.json { summary.json() } else { report::print(&summary) })
}

fn replay(args: &ReplayArgs, policies: &[Policy], source: Source) -> Result<(Feed, Outcome), Error> {
    let mut outs = outs(args, policies)?;
    let progress = Progress::new(source.size, source.taken);
    let (feed, outcomes) = thread::scope(|scope| {
        let mut lanes = Vec::new();
        let mut deciders = Vec::new();
        for out in outs.drain(..) {
            let (full, batches) = sync_channel(UNDER_WAY);
            let (used, empty) = channel();
            lanes.push(Lane { full, empty, batch: Batch::default() });
            deciders.push(scope.spawn(move || decide(args, policies, &batches, &used, out)));
        }
        let feed = feed::feed(args, source.reader, &mut lanes, || progress.tick());
        // Without lanes the deciders come to an end.
        drop(lanes);
        let outcomes: Vec<_> = deciders.into_iter().map(|decider| decider.join().unwrap_or(Err(Error::Lost))).collect();
        (feed, outcomes)
    });
    progress.finish();
    let mut whole: Option<Outcome> = None;
    for outcome in outcomes {
        let outcome = outcome?;
        whole = Some(match whole {
            Some(whole) => whole.join(outcome, args.top),
            None => outcome,
        });
    }
    Ok((feed?, whole.ok_or(Error::Lost)?))
}

/// What each decider writes to. Decisions are written in the order of the file, which takes a
/// single one.
fn outs(args: &ReplayArgs, policies: &[Policy]) -> Result<Vec<Decisions>, Error> {
    match &args.decisions {
        Some(path) => Ok(vec![Decisions::create(path, &args.file, policies)?]),
        None => {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            Ok((0..cores.clamp(1, MOST_DECIDERS)).map(|_| Decisions::none()).collect())
        }
    }
}

fn decide(
    args: &ReplayArgs,
    policies: &[Policy],
    batches: &Receiver<Batch>,
    used: &Sender<Batch>,
    mut out: Decisions,
) -> Result<Outcome, Error> {
    let failed = |source| Error::Decisions { path: args.shown_decisions(), source };
    let mut decider = Decider::new(policies);
    for batch in batches {
        decider.batch(&batch, &mut out).map_err(failed)?;
        let _ = used.send(batch);
    }
    out.finish().map_err(failed)?;
    Ok(decider.finish(args.top))
}
