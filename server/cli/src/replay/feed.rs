//! The reading side of a replay: from bytes to batches of requests in the order of the virtual clock. It also records
//! the lines that are malformed or out of order.

use std::hash::BuildHasher;
use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender};

use foldhash::fast::RandomState;
use tollgate_kernel::Micros;

use super::args::ReplayArgs;
use super::format::{EntryTime, MalformedLine, ReplayEntry, ReplayFormat, TimeUnit};
use super::lines::{InputLine, LineReader};
use crate::error::CliError;

/// The number of requests in a batch: enough that handing over costs nothing, few enough to stay in cache.
const BATCH: usize = 2_048;
/// The number of faulty lines that are named.
pub(crate) const NAMED: usize = 10;

/// Requests to be decided.
#[derive(Debug, Default)]
pub(crate) struct RequestBatch {
    /// The requests in the order of the file.
    pub(crate) items: Vec<ReplayItem>,
    /// Their keys, one after another.
    pub(crate) keys: Vec<u8>,
}

impl RequestBatch {
    /// Returns the key of an item of this batch.
    pub(crate) fn key(&self, item: &ReplayItem) -> &[u8] {
        let start = item.key_start as usize;
        &self.keys[start..start + usize::from(item.key_length)]
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayItem {
    /// Its time on the virtual clock, in microseconds since 1970.
    pub(crate) at: u64,
    /// The number of units it asks for.
    pub(crate) cost: u64,
    /// Its line, counted from 1.
    pub(crate) line: u64,
    /// The hash of its key, for the table of keys.
    pub(crate) hash: u64,
    key_start: u32,
    key_length: u16,
}

/// Facts about the input as a whole.
#[derive(Debug)]
pub(crate) struct FeedSummary {
    /// The name of the format.
    pub(crate) format: &'static str,
    /// The fields that make the key.
    pub(crate) key: String,
    /// The unit of times that are numbers, if there are any.
    pub(crate) unit: Option<TimeUnit>,
    /// The number of lines, including blank ones.
    pub(crate) lines: u64,
    /// The first and the latest time.
    pub(crate) span: Option<(u64, u64)>,
    /// Lines whose time is before that of an earlier line, and by how much.
    pub(crate) out_of_order: Faults<Micros>,
    /// Lines that are not requests, and why.
    pub(crate) malformed: Faults<MalformedLine>,
}

/// The number of lines with a fault, and the first of them.
#[derive(Debug)]
pub(crate) struct Faults<T> {
    /// The number of lines.
    pub(crate) count: u64,
    /// The first few, with their line numbers.
    pub(crate) first: Vec<(u64, T)>,
}

impl<T> Default for Faults<T> {
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> Faults<T> {
    fn add(&mut self, line: u64, fault: T) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push((line, fault));
        }
    }
}

/// A decider as the reading side sees it; it has its share of the keys.
pub(crate) struct DeciderLane {
    /// The channel of full batches.
    pub(crate) full: SyncSender<RequestBatch>,
    /// The channel on which used batches come back, so that their memory is reused.
    pub(crate) empty: Receiver<RequestBatch>,
    /// The batch that is being filled.
    pub(crate) batch: RequestBatch,
}

impl DeciderLane {
    /// Sends the batch; returns `false` if the decider has ended.
    fn send(&mut self) -> bool {
        let mut next = self.empty.try_recv().unwrap_or_default();
        next.items.clear();
        next.keys.clear();
        self.full.send(std::mem::replace(&mut self.batch, next)).is_ok()
    }

    fn add(&mut self, key: &[u8], request: KeylessRequest) {
        // A batch holds 2^11 keys of at most 2^9 bytes.
        let (key_start, key_length) = (self.batch.keys.len() as u32, key.len() as u16);
        self.batch.keys.extend_from_slice(key);
        let KeylessRequest { at, cost, line, hash } = request;
        self.batch.items.push(ReplayItem { at, cost, line, hash, key_start, key_length });
    }
}

/// Reads all of `reader` and distributes its requests among the lanes by their keys. Calls `tick` periodically.
pub(crate) fn feed(
    args: &ReplayArgs,
    reader: impl Read,
    lanes: &mut [DeciderLane],
    tick: impl Fn(),
) -> Result<FeedSummary, CliError> {
    let mut lines = LineReader::new(reader);
    let mut feeder = Feeder::new(args);
    loop {
        let read = lines.count();
        let line = lines.next().map_err(|source| CliError::Read { path: args.shown_file(), lines: read, source })?;
        let Some(line) = line else { break };
        let Some(request) = feeder.line(&line)? else { continue };
        let share = share(request.hash, lanes.len());
        let Some(lane) = lanes.get_mut(share) else { continue };
        lane.add(&feeder.key, request);
        if lane.batch.items.len() == BATCH {
            tick();
            if !lane.send() {
                // The deciding side has stopped, and will report why.
                break;
            }
        }
    }
    for lane in lanes {
        lane.send();
    }
    feeder.end(lines.count())
}

/// Returns which of `lanes` a key belongs to. The table of keys uses the outer bits of the hash, so this uses the
/// middle ones.
fn share(hash: u64, lanes: usize) -> usize {
    let middle = (hash >> 20) as u32;
    ((u64::from(middle) * lanes as u64) >> 32) as usize
}

/// A request without its key.
struct KeylessRequest {
    at: u64,
    cost: u64,
    line: u64,
    hash: u64,
}

/// The reading side: the format, the virtual clock, and the faulty lines so far.
struct Feeder<'a> {
    args: &'a ReplayArgs,
    /// Known from the first line that is not blank.
    format: Option<ReplayFormat>,
    unit: Option<TimeUnit>,
    hasher: RandomState,
    /// The key of the latest request.
    key: Vec<u8>,
    span: Option<(u64, u64)>,
    out_of_order: Faults<Micros>,
    malformed: Faults<MalformedLine>,
    hint: String,
}

impl<'a> Feeder<'a> {
    fn new(args: &'a ReplayArgs) -> Self {
        Self {
            args,
            format: None,
            unit: None,
            hasher: RandomState::default(),
            key: Vec::new(),
            span: None,
            out_of_order: Faults::default(),
            malformed: Faults::default(),
            hint: String::new(),
        }
    }

    /// Returns the request of a line; `None` if it is blank or malformed.
    fn line(&mut self, line: &InputLine<'_>) -> Result<Option<KeylessRequest>, CliError> {
        let Some(bytes) = line.bytes else {
            return self.malformed(line.number, b"", MalformedLine::TooLong);
        };
        let format = match &mut self.format {
            Some(format) => format,
            None if bytes.trim_ascii().is_empty() => return Ok(None),
            None => {
                let args = self.args;
                self.format.insert(ReplayFormat::choose(args.format, bytes, args.key.as_deref(), &args.time)?)
            }
        };
        self.key.clear();
        match format.parse(bytes, &mut self.key).and_then(|entry| Ok((entry.cost, self.time(entry)?))) {
            Ok((cost, time)) => {
                let at = self.clock(line.number, time)?;
                Ok(Some(KeylessRequest { at, cost, line: line.number, hash: self.hasher.hash_one(&self.key) }))
            }
            Err(_) if bytes.trim_ascii().is_empty() => Ok(None),
            Err(reason) => self.malformed(line.number, bytes, reason),
        }
    }

    /// Returns the time of an entry in microseconds. The first time that is a number determines the unit.
    fn time(&mut self, entry: ReplayEntry) -> Result<u64, MalformedLine> {
        let number = match entry.stamp {
            EntryTime::Moment(us) => return Ok(us),
            EntryTime::Number(number) => number,
        };
        let unit = match self.unit {
            Some(unit) => unit,
            None => self.args.time_unit.unit().unwrap_or(TimeUnit::of(number)),
        };
        let us = unit.micros(number).ok_or(MalformedLine::Late)?;
        self.unit = Some(unit);
        Ok(us)
    }

    /// Advances the virtual clock, which is the latest time seen, and returns it.
    fn clock(&mut self, line: u64, time: u64) -> Result<u64, CliError> {
        let (from, latest) = self.span.unwrap_or((time, time));
        if time < latest {
            let behind = Micros::new(latest - time);
            if self.args.strict {
                return Err(CliError::OutOfOrder { line, behind: behind.to_string() });
            }
            self.out_of_order.add(line, behind);
        }
        let at = time.max(latest);
        self.span = Some((from, at));
        Ok(at)
    }

    fn malformed(
        &mut self,
        line: u64,
        bytes: &[u8],
        reason: MalformedLine,
    ) -> Result<Option<KeylessRequest>, CliError> {
        if self.args.strict {
            return Err(CliError::Malformed { line, reason });
        }
        if self.malformed.count == 0 {
            self.hint = self.format.as_ref().map(|format| format.hint(bytes)).unwrap_or_default();
        }
        self.malformed.add(line, reason);
        Ok(None)
    }

    fn end(mut self, lines: u64) -> Result<FeedSummary, CliError> {
        let path = self.args.shown_file();
        if self.span.is_none() {
            return Err(match self.malformed.first.drain(..).next() {
                Some(first) => CliError::NoRequest { path, first, hint: self.hint },
                None => CliError::Empty { path },
            });
        }
        Ok(FeedSummary {
            format: self.format.as_ref().map_or("", ReplayFormat::name),
            key: self.format.as_ref().map(ReplayFormat::key_name).unwrap_or_default(),
            unit: self.unit,
            lines,
            span: self.span,
            out_of_order: self.out_of_order,
            malformed: self.malformed,
        })
    }
}
