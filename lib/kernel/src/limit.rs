//! A limit: an algorithm with its numbers, and optionally a spacing and a name. A limit is checked when it is built and
//! is always valid afterwards.

use std::fmt;

use crate::algorithms::{ALGORITHMS, AlgorithmMemory, LimitOutcome, LimitSettlement, ResolvedRequest, Rule};
use crate::options::{Alignment, LimitError, LimitField, Options};
use crate::spacing;
use crate::text::print;
use crate::units::{EXACT, Micros, Timestamp, Wait};
use crate::words::{Reader, Writer};

/// The longest name of a limit or policy, in bytes.
pub const MAX_NAME: usize = 64;

/// Written for a key that has no last charge.
const NEVER: u64 = u64::MAX;

/// Returns whether `name` is a WORD: 1 to 64 letters, digits, `-` and `_`.
pub fn is_word(name: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(ok)
}

/// A count per period under an algorithm.
///
/// ```
/// let policy: tollgate_kernel::Policy = "10/s gcra burst=20".parse().unwrap();
/// assert_eq!(policy.limits()[0].to_string(), "10/s gcra burst=20");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    rule: Rule,
    count: u64,
    period: Micros,
    spacing: Option<Micros>,
    name: Option<Box<str>>,
    id: LimitId,
}

/// The id under which the state of a limit is stored: its name, else algorithm, period, resolution, buckets, align and
/// factor. A change of count, burst, grain or spacing therefore keeps what was consumed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitId(Box<str>);

impl LimitId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Limit {
    /// Builds a limit with the algorithm named `algorithm`.
    pub fn build(algorithm: &str, count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        let Some(listed) = ALGORITHMS.iter().find(|listed| listed.name == algorithm) else {
            return Err(LimitError::new(LimitField::Option("algorithm"), "the name of an algorithm", "100/min gcra"));
        };
        (listed.build)(count, period, options).map(Self::new)
    }

    /// Creates a limit from a rule.
    pub fn new(rule: Rule) -> Self {
        let id = shape(&rule);
        let (count, period, _) = rule.numbers();
        Self { rule, count, period, spacing: None, name: None, id }
    }

    /// Returns the same limit with a minimum time between charges.
    pub fn spaced(mut self, spacing: Micros) -> Result<Self, LimitError> {
        if spacing.get() >= EXACT {
            return Err(LimitError::new(LimitField::Option("spacing"), "a spacing below 2^53us", "100/s spacing=10ms"));
        }
        self.spacing = (spacing > Micros::ZERO).then_some(spacing);
        Ok(self)
    }

    /// Returns the same limit under a name, which then identifies its state.
    pub fn named(mut self, name: &str) -> Result<Self, LimitError> {
        if !is_word(name) {
            let expected = "a name of 1 to 64 letters, digits, - and _";
            return Err(LimitError::new(LimitField::Option("name"), expected, "5/h name=login"));
        }
        self.id = LimitId(name.into());
        self.name = Some(name.into());
        Ok(self)
    }

    /// Returns the algorithm with its numbers.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Returns the minimum time between charges, if there is one.
    pub fn spacing(&self) -> Option<Micros> {
        self.spacing
    }

    /// Returns the id under which the state is stored.
    pub fn id(&self) -> &LimitId {
        &self.id
    }

    /// Returns the count.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the period.
    pub fn period(&self) -> Micros {
        self.period
    }

    /// Returns the name that the limit was given, if any.
    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns what the limit is called: its name, else its text without spaces.
    pub fn name(&self) -> String {
        match &self.name {
            Some(name) => name.to_string(),
            None => self.to_string().replace(' ', ""),
        }
    }

    /// Returns the cell of a key that was never seen.
    pub fn fresh(&self) -> Cell {
        Cell { memory: self.rule.fresh(), last: None }
    }

    /// Returns whether `cell`, charged under the limit `held`, is the state of a key under this limit: both limits have
    /// the same id and the same algorithm.
    pub fn finds(&self, held: &Self, cell: &Cell) -> bool {
        held.id() == self.id() && self.rule.owns(&cell.memory)
    }

    /// Returns whether a cell still matters at `t`; if not, a key that was never seen decides the same.
    pub fn remembers(&self, cell: &Cell, t: Timestamp) -> bool {
        self.reset_after(cell, t) > Micros::ZERO
    }

    /// Returns whether the state of a key is a log, which grows with the charges.
    pub fn has_log(&self) -> bool {
        self.rule.log_bytes_at_most() > 0
    }

    /// Returns the bytes that the limit itself takes, for stores that keep limits supplied by callers.
    pub fn bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.len());
        size_of::<Self>() + self.id.as_str().len() + name
    }

    /// Returns the most bytes that a key takes under this limit in a process.
    pub fn bytes_at_most(&self) -> u64 {
        self.rule.log_bytes_at_most() + (size_of::<Cell>() + size_of::<usize>()) as u64
    }

    /// Corrects the clock and returns whether `units` fit. The spacing does not apply to zero units.
    #[inline]
    pub(crate) fn fits(&self, cell: &mut Cell, t: Timestamp, units: u64) -> bool {
        if let Some(spacing) = self.spacing {
            spacing::correct(&mut cell.last, t, spacing);
        }
        self.rule.fits(&mut cell.memory, t, units) && (units == 0 || self.ready(cell, t))
    }

    pub(crate) fn correct(&self, cell: &mut Cell, t: Timestamp) {
        self.fits(cell, t, 0);
    }

    /// Returns the number of units that fit a request for at least one.
    pub(crate) fn room(&self, cell: &Cell, t: Timestamp) -> u64 {
        if self.ready(cell, t) { self.rule.room(&cell.memory, t).max(0).cast_unsigned() } else { 0 }
    }

    /// Returns whether the last charge was long enough ago.
    #[inline]
    fn ready(&self, cell: &Cell, t: Timestamp) -> bool {
        self.spacing.is_none_or(|spacing| spacing::wait(cell.last, t, spacing) == Micros::ZERO)
    }

    /// Returns how long the spacing makes a request for `units` wait.
    #[inline]
    fn spaced_for(&self, cell: &Cell, t: Timestamp, units: u64) -> Micros {
        match self.spacing {
            Some(spacing) if units > 0 => spacing::wait(cell.last, t, spacing),
            _ => Micros::ZERO,
        }
    }

    /// Returns the least time after which `units` fit. Once the spacing is over it stays so, but an algorithm may lose
    /// room by waiting, so the algorithm is evaluated at the time when the spacing is over.
    pub(crate) fn wait(&self, cell: &Cell, t: Timestamp, units: u64) -> Wait {
        let spaced = self.spaced_for(cell, t, units);
        self.rule.wait(&cell.memory, t.plus(spaced), units).plus(spaced)
    }

    /// Charges `units`, if any, and returns the standing of the limit afterwards. Waits are for `needs` units.
    #[inline]
    pub(crate) fn settle(&self, cell: &mut Cell, t: Timestamp, units: u64, needs: u64) -> LimitSettlement {
        if units > 0 && self.spacing.is_some() {
            spacing::charge(&mut cell.last, t);
        }
        let spaced = self.spaced_for(cell, t, needs);
        let mut settled = self.rule.settle(&mut cell.memory, t, units, needs, spaced);
        settled.wait = settled.wait.plus(spaced);
        if let Some(spacing) = self.spacing {
            settled.reset_after = settled.reset_after.max(spacing::wait(cell.last, t, spacing));
        }
        settled
    }

    /// Makes the whole decision for a policy of this one limit. Returns `None` if it has a spacing.
    pub(crate) fn step(&self, cell: &mut Cell, t: Timestamp, ask: ResolvedRequest) -> Option<LimitOutcome> {
        self.spacing.is_none().then(|| self.rule.step(&mut cell.memory, t, ask))
    }

    /// Returns whether two words hold the state of a key under this limit, so that a store needs nothing else.
    pub fn packs(&self) -> bool {
        self.spacing.is_none() && self.rule.packs()
    }

    /// Returns a cell in two words, unless it has outgrown them. Zeros stand for a key that was never seen.
    pub fn pack(&self, cell: &Cell) -> Option<[u64; 2]> {
        if self.spacing.is_some() { None } else { self.rule.pack(&cell.memory) }
    }

    /// Returns the cell that [`Limit::pack`] packed into these words.
    pub fn unpack(&self, words: [u64; 2]) -> Cell {
        Cell { memory: self.rule.unpack(words), last: None }
    }

    /// Reads the cell that [`Cell::write`] wrote; `None` if it is not a cell of this limit.
    pub fn read(&self, from: &mut Reader<'_>) -> Option<Cell> {
        let last = match from.take()? {
            NEVER => None,
            last => Some(Timestamp::new(last)?),
        };
        Some(Cell { memory: self.rule.read(from)?, last })
    }

    /// As [`Limit::step`], on a packed cell.
    #[inline(always)]
    pub(crate) fn step_packed(
        &self,
        words: [u64; 2],
        t: Timestamp,
        ask: ResolvedRequest,
    ) -> Option<(LimitOutcome, [u64; 2])> {
        self.rule.step_packed(words, t, ask)
    }

    pub(crate) fn remaining(&self, cell: &Cell, t: Timestamp) -> i64 {
        self.rule.remaining(&cell.memory, t)
    }

    /// Returns the time until a cell is back in its initial state.
    pub fn reset_after(&self, cell: &Cell, t: Timestamp) -> Micros {
        let spaced = self.spacing.map_or(Micros::ZERO, |spacing| spacing::wait(cell.last, t, spacing));
        self.rule.reset_after(&cell.memory, t).max(spaced)
    }

    pub(crate) fn refund(&self, cell: &mut Cell, t: Timestamp, units: u64, at: Timestamp) -> u64 {
        self.rule.refund(&mut cell.memory, t, units, at)
    }
}

fn shape(rule: &Rule) -> LimitId {
    let (_, period, options) = rule.numbers();
    let mut id = format!("{}/{}", rule.name(), period.get());
    if let Some(resolution) = options.resolution {
        id += &format!("/{}", resolution.get());
    }
    if let Some(buckets) = options.buckets {
        id += &format!("/{buckets}");
    }
    if options.align == Some(Alignment::Clock) {
        id += "/clock";
    }
    if let Some(factor) = options.factor {
        id += &format!("/{factor}");
    }
    LimitId(id.into())
}

/// Writes the canonical text, which the parser turns into the same limit.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::limit(f, self)
    }
}

/// The state of one key under one limit: the algorithm's state and the last charge.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub(crate) memory: AlgorithmMemory,
    /// Kept only under a limit with a spacing.
    pub(crate) last: Option<Timestamp>,
}

impl Cell {
    /// Returns the algorithm's state.
    pub fn memory(&self) -> &AlgorithmMemory {
        &self.memory
    }

    /// Returns the cell without its log. Every charge changes it.
    pub(crate) fn head(&self) -> Self {
        Self { memory: self.memory.head(), last: self.last }
    }

    /// Returns the bytes of heap memory, not counting the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.memory.heap_bytes()
    }

    /// Returns whether the state is a log, which grows with the charges.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.memory.has_log()
    }

    /// Returns the bytes of heap memory of its log, if the state is a log.
    #[inline]
    pub fn log_bytes(&self) -> Option<usize> {
        self.memory.log_bytes()
    }

    /// Returns the bytes of heap memory that the next charge may take: zero unless its log is full.
    #[inline]
    pub fn growth(&self) -> usize {
        self.memory.growth()
    }

    /// Returns a time not after the latest charge, and close to it where the algorithm remembers that. A clock that
    /// never goes back reads at least this time.
    #[inline]
    pub fn latest(&self) -> Timestamp {
        self.memory.latest().max(self.last.unwrap_or_default())
    }

    /// Ensures that the next charge takes no more memory: a log that is full and not short is halved by merging pairs
    /// of neighbouring entries, which then leave together at the time of the later one. What was consumed stays, and no
    /// interval admits more; refusals may come early.
    pub fn thin(&mut self) {
        self.memory.thin();
    }

    /// Writes the whole cell: see [`Limit::read`].
    pub fn write(&self, to: &mut Writer) {
        to.put(self.last.map_or(NEVER, Timestamp::get));
        self.memory.write(to);
    }
}
