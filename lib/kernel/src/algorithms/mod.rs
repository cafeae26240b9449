//! The algorithms: one file each, listed once in the registry below.
//!
//! An algorithm is its validated numbers and a few pure functions of (numbers, state, time): how many units fit now,
//! how long until a number of units fits, what the state is after a charge. What these functions share is computed
//! once, in a look. Deciding and charging are separate, so that peeks, partial grants and all-or-none over several
//! limits need no second code path; `combine.rs` puts them together. Each algorithm reads its own clock from its state:
//! see [`Algorithm::correct`].
//!
//! | file | what it is |
//! |---|---|
//! | `sliding.rs` | at most N in every interval of length W |
//! | `gcra.rs` | a steady rate with a burst |
//! | `fixed.rs` | a counter per window |
//! | `bucket.rs` | PlugLimit's token bucket |
//! | `slots.rs` | a sliding window of time slots |
//! | `estimate.rs` | two counters, the previous one weighted |
//! | `decay.rs` | a moving average that fades |
//! | `rolling.rs` | a sliding window on a grid, for its dialect alone |
//!
//! Beside each file is its Lua twin for the homes in Redis: the functions of [`Algorithm`] that decide, in the same order.
//!
//! To add an algorithm, write its two files, implement [`Algorithm`] and add its line to the registry. Policy text,
//! explanations, the laws and the scripts find it there.

pub mod bucket;
pub mod decay;
pub mod estimate;
pub mod fixed;
pub mod gcra;
pub mod rolling;
pub mod sliding;
pub mod slots;

use std::fmt::Debug;

use crate::options::{AlgorithmOptions, LimitError, Options};
use crate::request::Mode;
use crate::units::{Micros, Timestamp, Wait};
use crate::words::{Log, Reader, Words, Writer};

/// The decision rules of one kind of limit. `t` is always the reading of the home's clock; units are plain counts.
pub trait Algorithm: Sized + Clone + Debug + PartialEq {
    /// The name in policy text, metrics and state.
    const NAME: &'static str;
    /// The source of the same functions in Lua, from the file beside this one.
    const LUA: &'static str;
    /// The options the algorithm takes, and whether policy text may name it.
    const TAKES: AlgorithmOptions;
    /// Whether a request that fits now may no longer fit after waiting.
    const LOSES_ROOM: bool = false;
    /// Whether the units reported as remaining equal the room.
    const REMAINING_IS_ROOM: bool = true;
    /// Whether two words can hold a state.
    const PACKS: bool = false;

    /// The state of one key, without its log. The default is a key that was never seen; a state in which nothing is
    /// used must decide like it.
    type State: Words;
    /// The entries of an event log; `()` for algorithms without one.
    type Log: Log;

    /// Checks the numbers and builds the algorithm, so that the functions below need not check them again.
    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError>;
    /// Returns the count, the period and the options it was built from, without options at their defaults.
    fn numbers(&self) -> (u64, Micros, Options);

    /// Applies the clock rule. A state at most one window or refill ahead of `t` stays as it is, and its functions use
    /// the later of the two times. A state further ahead is moved back to `t`, keeping what was consumed.
    fn correct(&self, state: &mut Self::State, log: &Self::Log, t: Timestamp);

    /// What the functions below share, computed once.
    type Look: Copy;
    /// Computes the look of a state at `t`.
    fn look(&self, state: &Self::State, log: &Self::Log, t: Timestamp) -> Self::Look;

    /// Returns the number of units that fit; negative if more than the limit was consumed.
    fn room(&self, state: &Self::State, look: &Self::Look) -> i64;
    /// Returns whether `units` fit. The result is the same as comparing with the room, but may be cheaper to compute.
    fn fits(&self, state: &Self::State, look: &Self::Look, units: u64) -> bool {
        self.room(state, look) >= units as i64
    }
    /// Returns the units to report as remaining.
    fn remaining(&self, state: &Self::State, look: &Self::Look) -> i64 {
        self.room(state, look)
    }
    /// Returns the least time from `t`, the time of the look, after which `units` fit if there are no other requests.
    fn wait(&self, state: &Self::State, log: &Self::Log, look: &Self::Look, t: Timestamp, units: u64) -> Wait;
    /// Returns the time from `t`, the time of the look, until a key that was never seen would decide the same.
    fn reset_after(&self, state: &Self::State, log: &Self::Log, look: &Self::Look, t: Timestamp) -> Micros;
    /// Records `units`, at least one, whether they fit or not, and returns how many were recorded.
    fn charge(&self, state: &mut Self::State, log: &mut Self::Log, look: &Self::Look, t: Timestamp, units: u64) -> u64;
    /// Gives back what is still held of `units` charged at `at`, which is not after `t`, and returns the number of
    /// whole units given back.
    fn refund(&self, state: &mut Self::State, log: &mut Self::Log, t: Timestamp, units: u64, at: Timestamp) -> u64;

    /// Returns the units held at `t`, with a fraction where the algorithm has fractions.
    fn held(&self, state: &Self::State, log: &Self::Log, t: Timestamp) -> f64;
    /// Returns the most units admitted in any half-open interval of length `span`: the promise.
    fn most_in(&self, span: Micros) -> u64;
    /// Returns the promise in words, one sentence per line.
    fn promise(&self) -> Vec<String>;
    /// Returns the most bytes that a key's log can need.
    fn log_bytes_at_most(&self) -> u64 {
        0
    }

    /// Returns whether two words hold a state, so that a store needs nothing else for a key. A state that has outgrown
    /// two words does not pack.
    fn packs(&self) -> bool {
        Self::PACKS
    }
    /// Returns the state in two words, if it packs. Only zeros stand for a key that was never seen.
    fn pack(&self, state: &Self::State) -> Option<[u64; 2]> {
        let _ = state;
        None
    }
    /// Decides a request for one unit on a packed state and charges it if it fits. The result is the same as that of
    /// the functions above put together, but cheaper to compute. Returns `None` where this is not possible.
    #[inline(always)]
    fn step_one(&self, words: [u64; 2], t: Timestamp) -> Option<(LimitOutcome, [u64; 2])> {
        let _ = (words, t);
        None
    }
    /// Returns the state that [`Algorithm::pack`] packed into these words.
    fn unpack(&self, words: [u64; 2]) -> Self::State {
        let _ = words;
        Self::State::default()
    }
}

/// A request in the form in which algorithms receive it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedRequest {
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
    pub(crate) peek: bool,
    /// The number of units that reported waits are for.
    pub(crate) needs: u64,
}

impl ResolvedRequest {
    /// Returns whether the request is for one unit, charged if it fits, with waits reported for one unit.
    #[inline(always)]
    fn is_for_one(&self) -> bool {
        self.cost == 1 && self.needs == 1 && !self.peek && self.mode != Mode::Uniform
    }

    /// Returns the units to charge.
    pub(crate) fn charges(&self, granted: u64) -> u64 {
        match self.mode {
            _ if self.peek => 0,
            Mode::Uniform => self.cost,
            Mode::Binary | Mode::Nary => granted,
        }
    }
}

/// The result of a request to one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitOutcome {
    pub(crate) fits: bool,
    pub(crate) granted: u64,
    pub(crate) settled: LimitSettlement,
}

/// Decides for one limit alone, as `combine.rs` does for several limits in two rounds.
#[inline(always)]
fn step<A: Algorithm>(
    rule: &A,
    state: &mut A::State,
    log: &mut A::Log,
    t: Timestamp,
    ask: ResolvedRequest,
) -> LimitOutcome {
    rule.correct(state, log, t);
    let look = rule.look(state, log, t);
    let fits = rule.fits(state, &look, ask.cost);
    let granted = match ask.mode {
        _ if fits => ask.cost,
        Mode::Nary => rule.room(state, &look).max(0).cast_unsigned(),
        Mode::Binary | Mode::Uniform => 0,
    };
    let charge = ask.charges(granted);
    if !fits && ask.cost == 1 && ask.mode != Mode::Uniform && A::REMAINING_IS_ROOM {
        // If not even one unit fits, nothing remains, and how far below zero it is is not reported.
        let wait = rule.wait(state, log, &look, t, ask.needs);
        let settled =
            LimitSettlement { recorded: 0, remaining: 0, wait, reset_after: rule.reset_after(state, log, &look, t) };
        return LimitOutcome { fits, granted, settled };
    }
    let settled = settle(rule, state, log, look, t, charge, ask.needs, Micros::ZERO);
    LimitOutcome { fits, granted, settled }
}

/// Charges `units`, if any, and returns the standing of the limit afterwards. Waits are for `needs` units, and the
/// algorithm computes them for a time no earlier than `ready` from now.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the four parts of a limit, and the numbers of a request")]
fn settle<A: Algorithm>(
    rule: &A,
    state: &mut A::State,
    log: &mut A::Log,
    mut look: A::Look,
    t: Timestamp,
    units: u64,
    needs: u64,
    ready: Micros,
) -> LimitSettlement {
    let mut recorded = 0;
    if units > 0 {
        recorded = rule.charge(state, log, &look, t, units);
        look = rule.look(state, log, t);
    }
    let wait = if ready == Micros::ZERO {
        rule.wait(state, log, &look, t, needs)
    } else {
        let then = t.plus(ready);
        rule.wait(state, log, &rule.look(state, log, then), then, needs)
    };
    let remaining = rule.remaining(state, &look);
    LimitSettlement { recorded, remaining, wait, reset_after: rule.reset_after(state, log, &look, t) }
}

/// The standing of a limit after a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitSettlement {
    pub(crate) recorded: u64,
    pub(crate) remaining: i64,
    /// Counted from the time for which the algorithm computed it.
    pub(crate) wait: Wait,
    pub(crate) reset_after: Micros,
}

/// Returns the signed room that `held` leaves below `count`.
fn room_below(count: u64, held: u64) -> i64 {
    // Counts and units are at most 2^53.
    count as i64 - held as i64
}

/// Returns the units held after `units` more, counting exactly up to 2^53.
fn add_units(held: u64, units: u64) -> u64 {
    held.saturating_add(units).min(crate::units::EXACT)
}

/// Returns the most units in any half-open interval if windows of length `window` follow one another and at most
/// `count` units fall into each.
fn most_in_windows(count: u64, window: Micros, span: Micros) -> u64 {
    let edges = span.get().saturating_sub(1).div_ceil(window.get());
    if span == Micros::ZERO { 0 } else { count.saturating_mul(edges + 1) }
}

/// Lists the algorithms: generates one variant each of [`Rule`] (the numbers) and of [`AlgorithmMemory`] (the state),
/// with the functions of [`Algorithm`] for both.
macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $algorithm:ty,)+) => {
        /// An algorithm with its numbers.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Rule { $($(#[$doc])* $variant($algorithm),)+ }

        /// The state of one key under one limit.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AlgorithmMemory {
            $($(#[$doc])* $variant(<$algorithm as Algorithm>::State, <$algorithm as Algorithm>::Log),)+
        }

        /// A line of the registry, for code that only reads it.
        #[derive(Clone, Copy)]
        pub struct AlgorithmInfo {
            /// The algorithm's name.
            pub name: &'static str,
            /// The source of its Lua twin.
            pub lua: &'static str,
            /// The options it takes.
            pub takes: AlgorithmOptions,
            /// Whether the state of a key has a log, which grows with the charges.
            pub has_log: bool,
            /// Builds it: see [`Algorithm::build`].
            pub build: fn(u64, Micros, &Options) -> Result<Rule, LimitError>,
        }

        /// All algorithms, in the order of the registry.
        pub static ALGORITHMS: &[AlgorithmInfo] = &[$(AlgorithmInfo {
            name: <$algorithm>::NAME,
            lua: <$algorithm>::LUA,
            takes: <$algorithm>::TAKES,
            has_log: <<$algorithm as Algorithm>::Log as Log>::IS_LOG,
            build: |count, period, options| <$algorithm>::build(count, period, options).map(Rule::$variant),
        },)+];

        impl Rule {
            /// Returns the algorithm's name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$algorithm>::NAME,)+ }
            }

            /// Returns the options the algorithm takes.
            pub fn takes(&self) -> AlgorithmOptions {
                match self { $(Self::$variant(_) => <$algorithm>::TAKES,)+ }
            }

            /// See [`Algorithm::LOSES_ROOM`].
            pub fn loses_room(&self) -> bool {
                match self { $(Self::$variant(_) => <$algorithm>::LOSES_ROOM,)+ }
            }

            /// See [`Algorithm::numbers`].
            pub fn numbers(&self) -> (u64, Micros, Options) {
                match self { $(Self::$variant(rule) => rule.numbers(),)+ }
            }

            /// Returns the memory of a key that was never seen.
            pub fn fresh(&self) -> AlgorithmMemory {
                match self {
                    $(Self::$variant(_) => AlgorithmMemory::$variant(Default::default(), Default::default()),)+
                }
            }

            /// Returns whether `memory` belongs to this algorithm.
            pub fn owns(&self, memory: &AlgorithmMemory) -> bool {
                match (self, memory) { $((Self::$variant(_), AlgorithmMemory::$variant(..)) => true,)+ _ => false }
            }

            /// See [`Algorithm::most_in`].
            pub fn most_in(&self, span: Micros) -> u64 {
                match self { $(Self::$variant(rule) => rule.most_in(span),)+ }
            }

            /// See [`Algorithm::promise`].
            pub fn promise(&self) -> Vec<String> {
                match self { $(Self::$variant(rule) => rule.promise(),)+ }
            }

            /// See [`Algorithm::log_bytes_at_most`].
            pub fn log_bytes_at_most(&self) -> u64 {
                match self { $(Self::$variant(rule) => rule.log_bytes_at_most(),)+ }
            }

            /// Corrects the clock and returns whether `units` fit.
            pub(crate) fn fits(&self, memory: &mut AlgorithmMemory, t: Timestamp, units: u64) -> bool {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.correct(state, log, t);
                        rule.fits(state, &rule.look(state, log, t), units)
                    })+
                    (_, memory) => self.fits_afresh(memory, t, units),
                }
            }

            /// Replaces the memory of another algorithm: the limit kept its name but changed its algorithm.
            #[cold]
            fn fits_afresh(&self, memory: &mut AlgorithmMemory, t: Timestamp, units: u64) -> bool {
                *memory = self.fresh();
                self.fits(memory, t, units)
            }

            /// See [`settle`].
            pub(crate) fn settle(
                &self,
                memory: &mut AlgorithmMemory,
                t: Timestamp,
                units: u64,
                needs: u64,
                ready: Micros,
            ) -> LimitSettlement {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        let look = rule.look(state, log, t);
                        settle(rule, state, log, look, t, units, needs, ready)
                    })+
                    // Never reached: `fits` is called before and replaces the memory of another algorithm.
                    _ => LimitSettlement { recorded: 0, remaining: 0, wait: Wait::NONE, reset_after: Micros::ZERO },
                }
            }

            /// Makes the whole decision for a policy of this one limit: see [`step`].
            pub(crate) fn step(&self, memory: &mut AlgorithmMemory, t: Timestamp, ask: ResolvedRequest) -> LimitOutcome {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => step(rule, state, log, t, ask),)+
                    (_, memory) => {
                        *memory = self.fresh();
                        self.step(memory, t, ask)
                    }
                }
            }

            pub(crate) fn refund(&self, memory: &mut AlgorithmMemory, t: Timestamp, units: u64, at: Timestamp) -> u64 {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.refund(state, log, t, units, at)
                    })+
                    _ => 0,
                }
            }

            pub(crate) fn room(&self, memory: &AlgorithmMemory, t: Timestamp) -> i64 {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.room(state, &rule.look(state, log, t))
                    })+
                    _ => self.room(&self.fresh(), t),
                }
            }

            pub(crate) fn wait(&self, memory: &AlgorithmMemory, t: Timestamp, units: u64) -> Wait {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.wait(state, log, &rule.look(state, log, t), t, units)
                    })+
                    _ => self.wait(&self.fresh(), t, units),
                }
            }

            pub(crate) fn reset_after(&self, memory: &AlgorithmMemory, t: Timestamp) -> Micros {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.reset_after(state, log, &rule.look(state, log, t), t)
                    })+
                    _ => Micros::ZERO,
                }
            }

            pub(crate) fn remaining(&self, memory: &AlgorithmMemory, t: Timestamp) -> i64 {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => {
                        rule.remaining(state, &rule.look(state, log, t))
                    })+
                    _ => self.remaining(&self.fresh(), t),
                }
            }

            /// Returns the units held at `t`: see [`Algorithm::held`].
            pub fn held(&self, memory: &AlgorithmMemory, t: Timestamp) -> f64 {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, log)) => rule.held(state, log, t),)+
                    _ => 0.0,
                }
            }
        }

        impl Rule {
            /// See [`Algorithm::packs`].
            pub(crate) fn packs(&self) -> bool {
                match self { $(Self::$variant(rule) => rule.packs(),)+ }
            }

            /// As [`Rule::step`], on a packed state. Returns `None` if the resulting state does not pack.
            #[inline(always)]
            pub(crate) fn step_packed(
                &self,
                words: [u64; 2],
                t: Timestamp,
                ask: ResolvedRequest,
            ) -> Option<(LimitOutcome, [u64; 2])> {
                match self {
                    $(Self::$variant(rule) => {
                        if !<$algorithm>::PACKS {
                            return None;
                        }
                        if ask.is_for_one()
                            && let Some(done) = rule.step_one(words, t)
                        {
                            return Some(done);
                        }
                        let mut state = rule.unpack(words);
                        let step = step(rule, &mut state, &mut Default::default(), t, ask);
                        Some((step, rule.pack(&state)?))
                    })+
                }
            }

            pub(crate) fn pack(&self, memory: &AlgorithmMemory) -> Option<[u64; 2]> {
                match (self, memory) {
                    $((Self::$variant(rule), AlgorithmMemory::$variant(state, _)) => rule.pack(state),)+
                    _ => None,
                }
            }

            pub(crate) fn unpack(&self, words: [u64; 2]) -> AlgorithmMemory {
                match self {
                    $(Self::$variant(rule) => AlgorithmMemory::$variant(rule.unpack(words), Default::default()),)+
                }
            }

            /// Reads what [`AlgorithmMemory::write`] wrote, if it is a memory of this algorithm.
            pub(crate) fn read(&self, from: &mut Reader<'_>) -> Option<AlgorithmMemory> {
                match self {
                    $(Self::$variant(_) => {
                        let state = Words::read(from)?;
                        Some(AlgorithmMemory::$variant(state, Log::read(from, &state)?))
                    })+
                }
            }
        }

        impl AlgorithmMemory {
            /// Returns the bytes of heap memory, not counting the value itself.
            pub fn heap_bytes(&self) -> usize {
                match self { $(Self::$variant(_, log) => log.bytes(),)+ }
            }

            /// Returns whether there is a log beside the state.
            #[inline]
            pub(crate) fn has_log(&self) -> bool {
                match self { $(Self::$variant(..) => <<$algorithm as Algorithm>::Log as Log>::IS_LOG,)+ }
            }

            /// Returns the bytes of heap memory of the log, if there is one beside the state.
            #[inline]
            pub(crate) fn log_bytes(&self) -> Option<usize> {
                match self {
                    $(Self::$variant(_, log) => {
                        <<$algorithm as Algorithm>::Log as Log>::IS_LOG.then(|| log.bytes())
                    })+
                }
            }

            /// Returns the bytes that the next charge may take.
            #[inline]
            pub(crate) fn growth(&self) -> usize {
                match self { $(Self::$variant(_, log) => log.growth(),)+ }
            }

            /// Halves a log by merging pairs of neighbouring entries, which then leave together at the time of the
            /// later one. What was consumed stays, and no interval admits more; refusals may come early. A log that has
            /// room for another entry, or is short, is not changed.
            pub(crate) fn thin(&mut self) {
                match self { $(Self::$variant(state, log) => log.thin(state),)+ }
            }

            /// Returns the same memory without its log.
            pub(crate) fn head(&self) -> Self {
                match self { $(Self::$variant(state, _) => Self::$variant(*state, Default::default()),)+ }
            }

            /// See [`Words::latest`].
            pub(crate) fn latest(&self) -> Timestamp {
                match self { $(Self::$variant(state, _) => state.latest(),)+ }
            }

            pub(crate) fn write(&self, to: &mut Writer) {
                match self {
                    $(Self::$variant(state, log) => {
                        state.write(to);
                        log.write(state, to);
                    })+
                }
            }
        }
    };
}

registry! {
    /// Exact over every interval, from an event log.
    Sliding = sliding::Sliding,
    /// A steady rate with a burst; the state is one point in time.
    Gcra = gcra::Gcra,
    /// A counter per window.
    Fixed = fixed::Fixed,
    /// A window that opens with a burst and fills at a rate.
    Bucket = bucket::Bucket,
    /// A sliding window of time slots.
    Slots = slots::Slots,
    /// Two counters, the previous one weighted.
    Estimate = estimate::Estimate,
    /// A moving average that is divided by a factor at each slot.
    Decay = decay::Decay,
    /// A sliding window on a grid with half a bucket of slack; available only through its dialect.
    Rolling = rolling::Rolling,
}
