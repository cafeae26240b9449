//! `tollgate replay`: policies over recorded traffic on a virtual clock.
//!
//! One thread reads and parses (`feed.rs`), the others decide (`decider.rs`), each for its share of the keys. The
//! reader keeps the virtual clock, so the decisions on a key depend on its own requests alone. No real clock is read,
//! and nothing printed depends on the order of a hash table or the number of threads: two runs are byte-identical.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `source.rs`, `lines.rs` | bytes, plain or gzip; lines |
//! | `format/` | one file a log format |
//! | `feed.rs` | the reading side: the virtual clock, faults, batches |
//! | `decider.rs`, `keys.rs`, `cells.rs`, `tally.rs` | the deciding side and its state |
//! | `decisions.rs`, `report.rs`, `summary.rs`, `progress.rs` | the output, and the progress bar |

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
pub(crate) use decider::{ReplayOutcome, Totals};
pub(crate) use feed::{FeedSummary, ReplayItem, RequestBatch};
pub(crate) use format::MalformedLine;
pub(crate) use keys::ReplayKeys;
pub(crate) use lines::MAX_LINE;
pub(crate) use report::head;
pub(crate) use source::ReplaySource;
pub(crate) use summary::ReplaySummary;

use crate::error::{CliError, MAX_POLICIES};
use crate::policy;
use decider::Decider;
use decisions::DecisionWriter;
use feed::DeciderLane;
use progress::ReplayProgress;
use tollgate_kernel::Policy;

/// The number of batches in transit to each decider.
const UNDER_WAY: usize = 4;
/// The largest number of deciders; more of them would only wait for the reader.
const MAX_DECIDERS: usize = 8;

/// Runs the command; returns what to print.
pub(crate) fn run(args: &ReplayArgs) -> Result<String, CliError> {
    if args.policy.len() > MAX_POLICIES {
        return Err(CliError::Policies(args.policy.len()));
    }
    let policies: Vec<_> = args.policy.iter().map(|text| policy::parse(text, args.mode)).collect::<Result<_, _>>()?;
    let source = ReplaySource::open(&args.file)?;
    let (feed, outcome) = replay(args, &policies, source)?;
    let summary = ReplaySummary::new(args, &policies, &feed, outcome);
    Ok(if args.json { summary.json() } else { report::print(&summary) })
}

fn replay(
    args: &ReplayArgs,
    policies: &[Policy],
    source: ReplaySource,
) -> Result<(FeedSummary, ReplayOutcome), CliError> {
    let outputs = outputs(args, policies)?;
    let workers = outputs.into_iter().map(|out| ReplayWorker { args, decider: Decider::new(policies), out }).collect();
    let (feed, outcomes) = run_deciders(args, source, workers)?;
    let outcome = outcomes.into_iter().reduce(|all, outcome| all.join(outcome, args.top));
    Ok((feed, outcome.ok_or(CliError::Lost)?))
}

/// A decider of a share of the keys.
pub(crate) trait BatchDecider: Send {
    /// Its result.
    type Output: Send;

    /// Decides a batch in order.
    fn batch(&mut self, batch: &RequestBatch) -> Result<(), CliError>;

    /// Returns its result.
    fn finish(self) -> Result<Self::Output, CliError>;
}

/// Passes all requests of `source` to `deciders`, on a thread each.
pub(crate) fn run_deciders<D: BatchDecider>(
    args: &ReplayArgs,
    source: ReplaySource,
    deciders: Vec<D>,
) -> Result<(FeedSummary, Vec<D::Output>), CliError> {
    let progress = ReplayProgress::new(source.size, source.bytes_read);
    let (feed, results) = thread::scope(|scope| {
        let mut lanes = Vec::new();
        let mut threads = Vec::new();
        for decider in deciders {
            let (full, batches) = sync_channel(UNDER_WAY);
            let (used, empty) = channel();
            lanes.push(DeciderLane { full, empty, batch: RequestBatch::default() });
            threads.push(scope.spawn(move || decide(decider, &batches, &used)));
        }
        let feed = feed::feed(args, source.reader, &mut lanes, || progress.tick());
        // Without lanes the deciders come to an end.
        drop(lanes);
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(CliError::Lost))).collect();
        (feed, results)
    });
    progress.finish();
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((feed?, results))
}

/// Returns the number of deciders for this machine.
pub(crate) fn deciders() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MAX_DECIDERS)
}

/// Returns the outputs of the deciders. Decisions are written in the order of the file, which requires a single
/// decider.
fn outputs(args: &ReplayArgs, policies: &[Policy]) -> Result<Vec<DecisionWriter>, CliError> {
    match &args.decisions {
        Some(path) => Ok(vec![DecisionWriter::create(path, &args.file, policies)?]),
        None => Ok((0..deciders()).map(|_| DecisionWriter::none()).collect()),
    }
}

fn decide<D: BatchDecider>(
    mut decider: D,
    batches: &Receiver<RequestBatch>,
    used: &Sender<RequestBatch>,
) -> Result<D::Output, CliError> {
    for batch in batches {
        decider.batch(&batch)?;
        let _ = used.send(batch);
    }
    decider.finish()
}

/// A decider, and the output of its decisions.
struct ReplayWorker<'a> {
    args: &'a ReplayArgs,
    decider: Decider<'a>,
    out: DecisionWriter,
}

impl ReplayWorker<'_> {
    fn failed(&self, source: io::Error) -> CliError {
        CliError::Decisions { path: self.args.shown_decisions(), source }
    }
}

impl BatchDecider for ReplayWorker<'_> {
    type Output = ReplayOutcome;

    fn batch(&mut self, batch: &RequestBatch) -> Result<(), CliError> {
        let done = self.decider.batch(batch, &mut self.out);
        done.map_err(|source| self.failed(source))
    }

    fn finish(mut self) -> Result<ReplayOutcome, CliError> {
        self.out.finish().map_err(|source| self.failed(source))?;
        Ok(self.decider.finish(self.args.top))
    }
}
