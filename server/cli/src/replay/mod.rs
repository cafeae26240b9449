//! `tollgate replay`: policies over recorded traffic on a virtual clock.
//!
//! One thread reads and parses (`feed.rs`), the others decide (`decider.rs`), each for its share of the keys. The
//! reader keeps the virtual clock, so the decisions on a key depend on its own requests alone. No real clock is read,
//! and nothing printed depends on the order of a hash table or the number of threads: two runs are byte-identical.
//!
//! | file | what it is |
//! |---|---|
//! | `source.rs`, `lines.rs` | bytes, plain or gzip; lines |
//! | `format/` | one file a log format |
//! | `feed.rs` | the reading side: the virtual clock, faults, batches |
//! | `decider.rs`, `keys.rs`, `cells.rs`, `tally.rs` | the deciding side and its state |
//! | `decisions.rs`, `report.rs`, `summary.rs` | the output |

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

use std::io;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;

pub(crate) use args::{FormatArg, ReplayArgs, UnitArg};
pub(crate) use decider::{Outcome, Totals};
pub(crate) use feed::{Batch, Feed, Item};
pub(crate) use format::Malformed;
pub(crate) use keys::Keys;
pub(crate) use lines::MAX_LINE;
pub(crate) use report::head;
pub(crate) use source::Source;
pub(crate) use summary::Summary;

use crate::error::{Error, MAX_POLICIES};
use crate::policy;
use decider::Decider;
use decisions::Decisions;
use feed::Lane;
use progress::Progress;
use tollgate_kernel::Policy;

/// The number of batches in transit to each decider.
const UNDER_WAY: usize = 4;
/// The largest number of deciders; more of them would only wait for the reader.
const MAX_DECIDERS: usize = 8;

/// Runs the command; returns what to print.
pub(crate) fn run(args: &ReplayArgs) -> Result<String, Error> {
    if args.policy.len() > MAX_POLICIES {
        return Err(Error::Policies(args.policy.len()));
    }
    let policies: Vec<_> = args.policy.iter().map(|text| policy::parse(text, args.mode)).collect::<Result<_, _>>()?;
    let source = Source::open(&args.file)?;
    let (feed, outcome) = replay(args, &policies, source)?;
    let summary = Summary::new(args, &policies, &feed, outcome);
    Ok(if args.json { summary.json() } else { report::print(&summary) })
}

fn replay(args: &ReplayArgs, policies: &[Policy], source: Source) -> Result<(Feed, Outcome), Error> {
    let outs = outs(args, policies)?;
    let workers = outs.into_iter().map(|out| Worker { args, decider: Decider::new(policies), out }).collect();
    let (feed, outcomes) = through(args, source, workers)?;
    let whole = outcomes.into_iter().reduce(|whole, outcome| whole.join(outcome, args.top));
    Ok((feed, whole.ok_or(Error::Lost)?))
}

/// A decider of a share of the keys.
pub(crate) trait Deciding: Send {
    /// Its result.
    type Found: Send;

    /// Decides a batch in order.
    fn batch(&mut self, batch: &Batch) -> Result<(), Error>;

    /// Returns its result.
    fn finish(self) -> Result<Self::Found, Error>;
}

/// Passes all requests of `source` to `deciders`, on a thread each.
pub(crate) fn through<D: Deciding>(
    args: &ReplayArgs,
    source: Source,
    deciders: Vec<D>,
) -> Result<(Feed, Vec<D::Found>), Error> {
    let progress = Progress::new(source.size, source.taken);
    let (feed, found) = thread::scope(|scope| {
        let mut lanes = Vec::new();
        let mut threads = Vec::new();
        for decider in deciders {
            let (full, batches) = sync_channel(UNDER_WAY);
            let (used, empty) = channel();
            lanes.push(Lane { full, empty, batch: Batch::default() });
            threads.push(scope.spawn(move || decide(decider, &batches, &used)));
        }
        let feed = feed::feed(args, source.reader, &mut lanes, || progress.tick());
        // Without lanes the deciders come to an end.
        drop(lanes);
        let found: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Lost))).collect();
        (feed, found)
    });
    progress.finish();
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((feed?, found))
}

/// Returns the number of deciders for this machine.
pub(crate) fn deciders() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MAX_DECIDERS)
}

/// Returns the outputs of the deciders. Decisions are written in the order of the file, which requires a single
/// decider.
fn outs(args: &ReplayArgs, policies: &[Policy]) -> Result<Vec<Decisions>, Error> {
    match &args.decisions {
        Some(path) => Ok(vec![Decisions::create(path, &args.file, policies)?]),
        None => Ok((0..deciders()).map(|_| Decisions::none()).collect()),
    }
}

fn decide<D: Deciding>(mut decider: D, batches: &Receiver<Batch>, used: &Sender<Batch>) -> Result<D::Found, Error> {
    for batch in batches {
        decider.batch(&batch)?;
        let _ = used.send(batch);
    }
    decider.finish()
}

/// A decider, and the output of its decisions.
struct Worker<'a> {
    args: &'a ReplayArgs,
    decider: Decider<'a>,
    out: Decisions,
}

impl Worker<'_> {
    fn failed(&self, source: io::Error) -> Error {
        Error::Decisions { path: self.args.shown_decisions(), source }
    }
}

impl Deciding for Worker<'_> {
    type Found = Outcome;

    fn batch(&mut self, batch: &Batch) -> Result<(), Error> {
        let done = self.decider.batch(batch, &mut self.out);
        done.map_err(|source| self.failed(source))
    }

    fn finish(mut self) -> Result<Outcome, Error> {
        self.out.finish().map_err(|source| self.failed(source))?;
        Ok(self.decider.finish(self.args.top))
    }
}
