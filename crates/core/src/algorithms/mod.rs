//! The algorithms: one file each, listed once in the registry below.
//!
//! An algorithm is its validated numbers and a few pure functions of (numbers, state, time): how
//! much has room now, how long until so much fits, what the state is after a charge. What these
//! share is worked out once, in a look. Deciding and
//! charging are apart, so that peeks, partial grants and all-or-none over several limits need no
//! second path; `combine.rs` puts them together. Each reads its own clock from its state: see
//! [`Algorithm::correct`].
//!
//! Beside each file is its Lua twin, the same functions in the same order, for the homes in Redis.
//!
//! To add one: write its two files, implement [`Algorithm`], add its line to the registry. Policy text,
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

use crate::options::{Options, Problem, Takes};
use crate::request::Mode;
use crate::units::{Micros, Timestamp, Wait};
use crate::words::{Log, Reader, Words, Writer};

/// How one kind of limit decides. `t` is always the home's clock, as read; units are plain counts.
pub trait Algorithm: Sized + Clone + Debug + PartialEq {
    /// The name in policy text, metrics and state.
    const NAME: &'static str;
    /// The same functions in Lua, from the file beside this one.
    const LUA: &'static str;
    /// Which options it takes, and whether policy text may name it.
    const TAKES: Takes;
    /// Whether waiting can make what fits now not fit any more.
    const LOSES_ROOM: bool = false;
    /// Whether what is reported as remaining is the room.
    const REMAINING_IS_ROOM: bool = true;
    /// Whether two words can hold a state.
    const PACKS: bool = false;

    /// What one key remembers, besides a log. The default is a key never seen; a state in which
    /// nothing is used must decide like it.
    type State: Words;
    /// The entries of an event log, `()` for the algorithms without one.
    type Log: Log;

    /// Checks the numbers. The only way to build one, so nothing below checks again.
    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, Problem>;
    /// The count, the period and the options it was built from, defaults left out.
    fn numbers(&self) -> (u64, Micros, Options);

    /// The clock rule. A state within one window or refill ahead of `t` stays as it is: its
    /// functions take the later of the two. A state further ahead is moved back to `t`, keeping
    /// what was consumed.
    fn correct(&self, state: &mut Self::State, log: &Self::Log, t: Timestamp);

    /// What the functions below share, worked out once.
    type Look: Copy;
    /// Looks at a state at `t`.
    fn look(&self, state: &Self::State, log: &Self::Log, t: Timestamp) -> Self::Look;

    /// The units that fit; below zero where more than the limit was consumed.
    fn room(&self, state: &Self::State, look: &Self::Look) -> i64;
    /// Whether `units` fit. The same as comparing the room, where that can be had for less.
    fn fits(&self, state: &Self::State, look: &Self::Look, units: u64) -> bool {
        self.room(state, look) >= units as i64
    }
    /// The units to report as remaining.
    fn remaining(&self, state: &Self::State, look: &Self::Look) -> i64 {
        self.room(state, look)
    }
    /// The least time from `t`, the time of the look, after which `units` fit if nobody else comes.
    fn wait(&self, state: &Self::State, log: &Self::Log, look: &Self::Look, t: Timestamp, units: u64) -> Wait;
    /// The time from `t`, the time of the look, until a key never seen would decide alike.
    fn reset_after(&self, state: &Self::State, log: &Self::Log, look: &Self::Look, t: Timestamp) -> Micros;
    /// Records `units`, at least one, whether they fit or not; answers how many it recorded.
    fn charge(&self, state: &mut Self::State, log: &mut Self::Log, look: &Self::Look, t: Timestamp, units: u64) -> u64;
    /// Gives back what is still held of `units` charged at `at`, which is not after `t`; answers
    /// how many whole units.
    fn refund(&self, state: &mut Self::State, log: &mut Self::Log, t: Timestamp, units: u64, at: Timestamp) -> u64;

    /// The units held at `t`, a fraction where the algorithm has fractions.
    fn held(&self, state: &Self::State, log: &Self::Log, t: Timestamp) -> f64;
    /// The most units admitted in any half-open interval of length `span`: the promise.
    fn most_in(&self, span: Micros) -> u64;
    /// The promise in words, one sentence a line.
    fn promise(&self) -> Vec<String>;
    /// The bytes a key's log needs at most.
    fn log_bytes_at_most(&self) -> u64 {
        0
    }

    /// Whether two words hold a state, so that a store needs nothing else for a key. A state that
    /// has grown out of them does not pack.
    fn packs(&self) -> bool {
        Self::PACKS
    }
    /// The state in two words; no two words but zeros are a key never seen.
    fn pack(&self, state: &Self::State) -> Option<[u64; 2]> {
        let _ = state;
        None
    }
    /// A request for one unit that charges it if it fits, on a packed state: the same as the functions
    /// above put together, where that can be had for less. Nothing where it cannot.
    #[inline(always)]
    fn step_one(&self, words: [u64; 2], t: Timestamp) -> Option<(Step, [u64; 2])> {
        let _ = (words, t);
        None
    }
    /// The state that [`Algorithm::pack`] made these words of.
    fn unpack(&self, words: [u64; 2]) -> Self::State {
        let _ = words;
        Self::State::default()
    }
}

/// A request as an algorithm sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
    pub(crate) peek: bool,
    /// The units waits are told for.
    pub(crate) needs: u64,
}

impl Ask {
    /// Whether it is for one unit, charged if it fits, and waits are for one.
    #[inline(always)]
    fn is_for_one(&self) -> bool {
        self.cost == 1 && self.needs == 1 && !self.peek && self.mode != Mode::Uniform
    }

    /// The units to charge.
    pub(crate) fn charges(&self, granted: u64) -> u64 {
        match self.mode {
            _ if self.peek => 0,
            Mode::Uniform => self.cost,
            Mode::Binary | Mode::Nary => granted,
        }
    }
}

/// What comes of a request to one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub(crate) fits: bool,
    pub(crate) granted: u64,
    pub(crate) settled: Settled,
}

/// Decides for one limit alone, as `combine.rs` does for several in two rounds.
#[inline(always)]
fn step<A: Algorithm>(rule: &A, state: &mut A::State, log: &mut A::Log, t: Timestamp, ask: Ask) -> Step {
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
        // Where not even one unit fits nothing remains, and how far below is not told.
        let wait = rule.wait(state, log, &look, t, ask.needs);
        let settled = Settled { recorded: 0, remaining: 0, wait, reset_after: rule.reset_after(state, log, &look, t) };
        return Step { fits, granted, settled };
    }
    let settled = settle(rule, state, log, look, t, charge, ask.needs, Micros::ZERO);
    Step { fits, granted, settled }
}

/// Charges `units`, if any, and tells how the limit then stands. Waits are for `needs` units, and the
/// algorithm is asked no earlier than `ready` from now.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a limit's four parts, and what is asked of it")]
fn settle<A: Algorithm>(
    rule: &A,
    state: &mut A::State,
    log: &mut A::Log,
    mut look: A::Look,
    t: Timestamp,
    units: u64,
    needs: u64,
    ready: Micros,
) -> Settled {
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
    Settled { recorded, remaining, wait, reset_after: rule.reset_after(state, log, &look, t) }
}

/// How a limit stands after a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    pub(crate) recorded: u64,
    pub(crate) remaining: i64,
    /// From the moment the algorithm was asked for.
    pub(crate) wait: Wait,
    pub(crate) reset_after: Micros,
}

/// `held` as the signed room below `count`.
fn room_below(count: u64, held: u64) -> i64 {
    // Counts and units are at most 2^53.
    count as i64 - held as i64
}

/// Units held after `units` more, counting exactly up to 2^53.
fn add_units(held: u64, units: u64) -> u64 {
    held.saturating_add(units).min(crate::units::EXACT)
}

/// The most units in any half-open interval if at most `count` fall into each window, windows
/// follow one another, and each lasts `window`.
fn most_in_windows(count: u64, window: Micros, span: Micros) -> u64 {
    let edges = span.get().saturating_sub(1).div_ceil(window.get());
    if span == Micros::ZERO { 0 } else { count.saturating_mul(edges + 1) }
}

/// Lists the algorithms: a variant each of [`Rule`] (the numbers) and of [`Memory`] (the state),
/// with the functions of [`Algorithm`] for both.
macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident = $algorithm:ty,)+) => {
        /// An algorithm with its numbers.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Rule { $($(#[$doc])* $variant($algorithm),)+ }

        /// What one limit remembers of one key.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Memory {
            $($(#[$doc])* $variant(<$algorithm as Algorithm>::State, <$algorithm as Algorithm>::Log),)+
        }

        /// One line of the registry, for those who only read it.
        #[derive(Clone, Copy)]
        pub struct Listed {
            /// The algorithm's name.
            pub name: &'static str,
            /// Its twin in Lua.
            pub lua: &'static str,
            /// The options it takes.
            pub takes: Takes,
            /// Builds it: see [`Algorithm::build`].
            pub build: fn(u64, Micros, &Options) -> Result<Rule, Problem>,
        }

        /// All algorithms, in the order of the registry.
        pub static ALGORITHMS: &[Listed] = &[$(Listed {
            name: <$algorithm>::NAME,
            lua: <$algorithm>::LUA,
            takes: <$algorithm>::TAKES,
            build: |count, period, options| <$algorithm>::build(count, period, options).map(Rule::$variant),
        },)+];

        impl Rule {
            /// The algorithm's name.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$algorithm>::NAME,)+ }
            }

            /// The options the algorithm takes.
            pub fn takes(&self) -> Takes {
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

            /// What a key never seen remembers.
            pub fn fresh(&self) -> Memory {
                match self { $(Self::$variant(_) => Memory::$variant(Default::default(), Default::default()),)+ }
            }

            /// Whether `memory` is this algorithm's.
            pub fn owns(&self, memory: &Memory) -> bool {
                match (self, memory) { $((Self::$variant(_), Memory::$variant(..)) => true,)+ _ => false }
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

            /// Corrects the clock, then sees whether `units` fit.
            pub(crate) fn fits(&self, memory: &mut Memory, t: Timestamp, units: u64) -> bool {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => {
                        rule.correct(state, log, t);
                        rule.fits(state, &rule.look(state, log, t), units)
                    })+
                    (_, memory) => self.fits_afresh(memory, t, units),
                }
            }

            /// A memory of another algorithm: the name of the limit stayed, its kind changed.
            #[cold]
            fn fits_afresh(&self, memory: &mut Memory, t: Timestamp, units: u64) -> bool {
                *memory = self.fresh();
                self.fits(memory, t, units)
            }

            /// See [`settle`].
            pub(crate) fn settle(&self, memory: &mut Memory, t: Timestamp, units: u64, needs: u64, ready: Micros) -> Settled {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => {
                        let look = rule.look(state, log, t);
                        settle(rule, state, log, look, t, units, needs, ready)
                    })+
                    // Never so: whoever settles has seen whether it fits.
                    _ => Settled { recorded: 0, remaining: 0, wait: Wait::NONE, reset_after: Micros::ZERO },
                }
            }

            /// All of a decision for a policy of this one limit: see [`step`].
            pub(crate) fn step(&self, memory: &mut Memory, t: Timestamp, ask: Ask) -> Step {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => step(rule, state, log, t, ask),)+
                    (_, memory) => {
                        *memory = self.fresh();
                        self.step(memory, t, ask)
                    }
                }
            }

            pub(crate) fn refund(&self, memory: &mut Memory, t: Timestamp, units: u64, at: Timestamp) -> u64 {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => rule.refund(state, log, t, units, at),)+
                    _ => 0,
                }
            }

            pub(crate) fn room(&self, memory: &Memory, t: Timestamp) -> i64 {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => rule.room(state, &rule.look(state, log, t)),)+
                    _ => self.room(&self.fresh(), t),
                }
            }

            pub(crate) fn wait(&self, memory: &Memory, t: Timestamp, units: u64) -> Wait {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => {
                        rule.wait(state, log, &rule.look(state, log, t), t, units)
                    })+
                    _ => self.wait(&self.fresh(), t, units),
                }
            }

            pub(crate) fn reset_after(&self, memory: &Memory, t: Timestamp) -> Micros {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => {
                        rule.reset_after(state, log, &rule.look(state, log, t), t)
                    })+
                    _ => Micros::ZERO,
                }
            }

            pub(crate) fn remaining(&self, memory: &Memory, t: Timestamp) -> i64 {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => rule.remaining(state, &rule.look(state, log, t)),)+
                    _ => self.remaining(&self.fresh(), t),
                }
            }

            /// The units held at `t`: see [`Algorithm::held`].
            pub fn held(&self, memory: &Memory, t: Timestamp) -> f64 {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, log)) => rule.held(state, log, t),)+
                    _ => 0.0,
                }
            }
        }

        impl Rule {
            /// See [`Algorithm::packs`].
            pub(crate) fn packs(&self) -> bool {
                match self { $(Self::$variant(rule) => rule.packs(),)+ }
            }

            /// As [`Rule::step`], on a packed state; nothing if the state it makes does not pack.
            #[inline(always)]
            pub(crate) fn step_packed(&self, words: [u64; 2], t: Timestamp, ask: Ask) -> Option<(Step, [u64; 2])> {
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

            pub(crate) fn pack(&self, memory: &Memory) -> Option<[u64; 2]> {
                match (self, memory) {
                    $((Self::$variant(rule), Memory::$variant(state, _)) => rule.pack(state),)+
                    _ => None,
                }
            }

            pub(crate) fn unpack(&self, words: [u64; 2]) -> Memory {
                match self {
                    $(Self::$variant(rule) => Memory::$variant(rule.unpack(words), Default::default()),)+
                }
            }

            /// The memory a [`Memory::write`] wrote, if it is one of this algorithm.
            pub(crate) fn read(&self, from: &mut Reader<'_>) -> Option<Memory> {
                match self {
                    $(Self::$variant(_) => {
                        let state = Words::read(from)?;
                        Some(Memory::$variant(state, Log::read(from, &state)?))
                    })+
                }
            }
        }

        impl Memory {
            /// Bytes of heap memory, the value itself not counted.
            pub fn heap_bytes(&self) -> usize {
                match self { $(Self::$variant(_, log) => log.bytes(),)+ }
            }

            /// Whether there is a log beside the state.
            #[inline]
            pub(crate) fn has_log(&self) -> bool {
                match self { $(Self::$variant(_, log) => log.is_log(),)+ }
            }

            /// The bytes that the next charge may take.
            #[inline]
            pub(crate) fn growth(&self) -> usize {
                match self { $(Self::$variant(_, log) => log.growth(),)+ }
            }

            /// Halves a log by letting two neighbours leave together, with the later one. What was
            /// consumed stays, and no interval admits more; refusals may come early. A log that has
            /// room for another entry, or is short, stays as it is.
            pub(crate) fn thin(&mut self) {
                match self { $(Self::$variant(state, log) => log.thin(state),)+ }
            }

            /// The same without its log.
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
    /// A steady rate with a burst, from one moment.
    Gcra = gcra::Gcra,
    /// A counter per window.
    Fixed = fixed::Fixed,
    /// A window that opens with a burst and fills at a rate.
    Bucket = bucket::Bucket,
    /// A sliding window of time slots.
    Slots = slots::Slots,
    /// Two counters, the previous one weighted.
    Estimate = estimate::Estimate,
    /// A moving average that fades by a factor a slot.
    Decay = decay::Decay,
    /// A sliding window on a grid with half a bucket of slack; through its dialect only.
    Rolling = rolling::Rolling,
}
