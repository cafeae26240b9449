//! A limit: an algorithm with its numbers, perhaps a spacing and a name. Built once, valid ever
//! after.

use std::fmt;

use crate::algorithms::{ALGORITHMS, Ask, Memory, Rule, Settled, Step};
use crate::options::{Align, Options, Part, Problem};
use crate::spacing;
use crate::text::print;
use crate::units::{EXACT, Micros, Timestamp, Wait};
use crate::words::{Reader, Writer};

/// The longest name of a limit or policy, in bytes.
pub const LONGEST_NAME: usize = 64;

/// Written for a last charge that was not.
const NEVER: u64 = u64::MAX;

/// Whether `name` is a WORD: letters, digits, `-` and `_`.
pub fn is_word(name: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(ok)
}

/// A count per period under an algorithm.
///
/// ```
/// let policy: tollgate_core::Policy = "10/s gcra burst=20".parse().unwrap();
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

/// What the state of a limit is filed under: its name, else algorithm, period, resolution, align
/// and factor. So a changed count, burst, grain or spacing keeps what was consumed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitId(Box<str>);

impl LimitId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Limit {
    /// A limit by the algorithm called `algorithm`.
    pub fn build(algorithm: &str, count: u64, period: Micros, options: &Options) -> Result<Self, Problem> {
        let Some(listed) = ALGORITHMS.iter().find(|listed| listed.name == algorithm) else {
            return Err(Problem::new(Part::Option("algorithm"), "the name of an algorithm", "100/min gcra"));
        };
        (listed.build)(count, period, options).map(Self::new)
    }

    /// A limit by this rule.
    pub fn new(rule: Rule) -> Self {
        let id = shape(&rule);
        let (count, period, _) = rule.numbers();
        Self { rule, count, period, spacing: None, name: None, id }
    }

    /// The same with a least time between charges.
    pub fn spaced(mut self, spacing: Micros) -> Result<Self, Problem> {
        if spacing.get() >= EXACT {
            return Err(Problem::new(Part::Option("spacing"), "a spacing below 2^53us", "100/s spacing=10ms"));
        }
        self.spacing = (spacing > Micros::ZERO).then_some(spacing);
        Ok(self)
    }

    /// The same under a name, which then identifies its state.
    pub fn named(mut self, name: &str) -> Result<Self, Problem> {
        if !is_word(name) {
            let expected = "a name of 1 to 64 letters, digits, - and _";
            return Err(Problem::new(Part::Option("name"), expected, "5/h name=login"));
        }
        self.id = LimitId(name.into());
        self.name = Some(name.into());
        Ok(self)
    }

    /// The algorithm with its numbers.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The least time between charges.
    pub fn spacing(&self) -> Option<Micros> {
        self.spacing
    }

    /// What the state is filed under.
    pub fn id(&self) -> &LimitId {
        &self.id
    }

    /// The count.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The period.
    pub fn period(&self) -> Micros {
        self.period
    }

    /// The name it was given.
    pub fn given_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What it is called: its name, else its text without spaces.
    pub fn name(&self) -> String {
        match &self.name {
            Some(name) => name.to_string(),
            None => self.to_string().replace(' ', ""),
        }
    }

    /// What a key never seen remembers.
    pub fn fresh(&self) -> Cell {
        Cell { memory: self.rule.fresh(), last: None }
    }

    /// Returns whether `cell`, charged under the limit `held`, is what a key remembers of this one: they have one
    /// id and one algorithm.
    pub fn finds(&self, held: &Self, cell: &Cell) -> bool {
        held.id() == self.id() && self.rule.owns(&cell.memory)
    }

    /// Returns whether a cell still matters at `t`: if not, a key never seen decides alike.
    pub fn remembers(&self, cell: &Cell, t: Timestamp) -> bool {
        self.reset_after(cell, t) > Micros::ZERO
    }

    /// Whether what it remembers of a key is a log, which grows with what is charged.
    pub fn has_log(&self) -> bool {
        self.rule.log_bytes_at_most() > 0
    }

    /// Returns the bytes that the limit itself takes, for stores that keep limits which callers bring.
    pub fn bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.len());
        size_of::<Self>() + self.id.as_str().len() + name
    }

    /// The bytes a key takes at most under this limit, in process.
    pub fn bytes_at_most(&self) -> u64 {
        self.rule.log_bytes_at_most() + (size_of::<Cell>() + size_of::<usize>()) as u64
    }

    /// Corrects the clock, then sees whether `units` fit; no units fit any spacing.
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

    /// The units that fit a request for at least one.
    pub(crate) fn room(&self, cell: &Cell, t: Timestamp) -> u64 {
        if self.ready(cell, t) { self.rule.room(&cell.memory, t).max(0).cast_unsigned() } else { 0 }
    }

    /// Whether the last charge was long enough ago.
    #[inline]
    fn ready(&self, cell: &Cell, t: Timestamp) -> bool {
        self.spacing.is_none_or(|spacing| spacing::wait(cell.last, t, spacing) == Micros::ZERO)
    }

    /// How long the spacing has a request for `units` wait.
    #[inline]
    fn spaced_for(&self, cell: &Cell, t: Timestamp, units: u64) -> Micros {
        match self.spacing {
            Some(spacing) if units > 0 => spacing::wait(cell.last, t, spacing),
            _ => Micros::ZERO,
        }
    }

    /// The least time after which `units` fit. The spacing only grows easier, but an algorithm may
    /// not, so it is asked as of when the spacing is over.
    pub(crate) fn wait(&self, cell: &Cell, t: Timestamp, units: u64) -> Wait {
        let spaced = self.spaced_for(cell, t, units);
        self.rule.wait(&cell.memory, t.plus(spaced), units).plus(spaced)
    }

    /// Charges `units`, if any, and tells how the limit then stands, waits being for `needs` units.
    #[inline]
    pub(crate) fn settle(&self, cell: &mut Cell, t: Timestamp, units: u64, needs: u64) -> Settled {
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

    /// All of a decision for a policy of this one limit, if it has no spacing.
    pub(crate) fn step(&self, cell: &mut Cell, t: Timestamp, ask: Ask) -> Option<Step> {
        self.spacing.is_none().then(|| self.rule.step(&mut cell.memory, t, ask))
    }

    /// Whether two words hold what this limit remembers of a key, so that a store needs no more.
    pub fn packs(&self) -> bool {
        self.spacing.is_none() && self.rule.packs()
    }

    /// A cell in two words, unless it has grown out of them. Zeros are a key never seen.
    pub fn pack(&self, cell: &Cell) -> Option<[u64; 2]> {
        if self.spacing.is_some() { None } else { self.rule.pack(&cell.memory) }
    }

    /// The cell that [`Limit::pack`] made these words of.
    pub fn unpack(&self, words: [u64; 2]) -> Cell {
        Cell { memory: self.rule.unpack(words), last: None }
    }

    /// The cell that [`Cell::write`] wrote; nothing if it is none of this limit's.
    pub fn read(&self, from: &mut Reader<'_>) -> Option<Cell> {
        let last = match from.take()? {
            NEVER => None,
            last => Some(Timestamp::new(last)?),
        };
        Some(Cell { memory: self.rule.read(from)?, last })
    }

    /// As [`Limit::step`], on a packed cell.
    #[inline(always)]
    pub(crate) fn step_packed(&self, words: [u64; 2], t: Timestamp, ask: Ask) -> Option<(Step, [u64; 2])> {
        self.rule.step_packed(words, t, ask)
    }

    pub(crate) fn remaining(&self, cell: &Cell, t: Timestamp) -> i64 {
        self.rule.remaining(&cell.memory, t)
    }

    /// Returns the time until a cell is as new.
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
    if options.align == Some(Align::Clock) {
        id += "/clock";
    }
    if let Some(factor) = options.factor {
        id += &format!("/{factor}");
    }
    LimitId(id.into())
}

/// Canonical text: what the parser makes the same limit of.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::limit(f, self)
    }
}

/// What one limit remembers of one key: the algorithm's state and the last charge.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub(crate) memory: Memory,
    /// Kept only under a limit with a spacing.
    pub(crate) last: Option<Timestamp>,
}

impl Cell {
    /// The algorithm's state.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same without its log: another charge makes another of it.
    pub(crate) fn head(&self) -> Self {
        Self { memory: self.memory.head(), last: self.last }
    }

    /// Bytes of heap memory, the value itself not counted.
    pub fn heap_bytes(&self) -> usize {
        self.memory.heap_bytes()
    }

    /// Whether it is a log, which grows with what is charged.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.memory.has_log()
    }

    /// Returns the bytes of heap memory that the next charge may take: none unless its log is full.
    #[inline]
    pub fn growth(&self) -> usize {
        self.memory.growth()
    }

    /// A time not after the latest charge, and close to it where the algorithm remembers that: what a
    /// clock that never goes back reads at least.
    pub fn latest(&self) -> Timestamp {
        self.memory.latest().max(self.last.unwrap_or_default())
    }

    /// Makes sure that the next charge takes no more memory: a log that is full and not short is
    /// halved, two neighbours leaving together with the later one. What was consumed stays, and no
    /// interval admits more; refusals may come early.
    pub fn thin(&mut self) {
        self.memory.thin();
    }

    /// Writes all of it: see [`Limit::read`].
    pub fn write(&self, to: &mut Writer) {
        to.put(self.last.map_or(NEVER, Timestamp::get));
        self.memory.write(to);
    }
}
