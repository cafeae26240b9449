//! Limits, policies and the states of keys as words: the contents of snapshots and journals.
//!
//! Every limit has a written form, including those that only a dialect can build, and reads back equal. Words that were
//! not written by this module are refused. Detecting that takes no more memory than a small multiple of their own size.
//!
//! ```text
//! limit    algorithm (text), count, period, then burst, grain, resolution, factor (bits of a double),
//!          align, buckets, level (bits), spacing, all ones where there is none, then the name (text)
//! policy   name (text), mode and on_error, number of limits, limits
//! state    number of cells, then a limit and its cell each
//! text     length in bytes, then as many words as it takes
//! ```

use std::sync::Arc;

use crate::algorithms::{Algorithm, Rule, sliding::Sliding, slots::Slots};
use crate::limit::{Limit, MAX_NAME};
use crate::options::{Alignment, Options};
use crate::policy::{MAX_LIMITS, OnError, Policy};
use crate::request::Mode;
use crate::state::KeyState;
use crate::units::Micros;
use crate::words::{Reader, Writer};

/// Written for an option that was not given.
const NONE: u64 = u64::MAX;
/// The position of `on_error` in the word of the mode.
const ON_ERROR_SHIFT: u32 = 8;
/// More cells than a state keeps: those of a policy, and twice as many others.
const MAX_CELLS: u64 = 4 * MAX_LIMITS as u64;

impl Limit {
    /// Writes the whole limit: see [`Limit::from_words`].
    pub fn write(&self, to: &mut Writer) {
        let (count, period, options) = self.rule().numbers();
        write_text(self.rule().name(), to);
        to.put(count);
        to.put(period.get());
        let align = options.align.map(|align| u64::from(align == Alignment::Clock));
        let micros = |option: Option<Micros>| option.map(Micros::get);
        let bits = |option: Option<f64>| option.map(f64::to_bits);
        for option in [
            options.burst,
            micros(options.grain),
            micros(options.resolution),
            bits(options.factor),
            align,
            options.buckets,
            bits(options.level),
            micros(self.spacing()),
        ] {
            to.put(option.unwrap_or(NONE));
        }
        write_text(self.given_name().unwrap_or_default(), to);
    }

    /// Reads the limit that [`Limit::write`] wrote. ([`Limit::read`] reads the state of a key under it.)
    pub fn from_words(from: &mut Reader<'_>) -> Option<Self> {
        let algorithm = read_text(from)?;
        let (count, period) = (from.take()?, Micros::new(from.take()?));
        let mut option = || from.take().map(|word| (word != NONE).then_some(word));
        let [burst, grain, resolution, factor, align, buckets, level, spacing] =
            [option()?, option()?, option()?, option()?, option()?, option()?, option()?, option()?];
        let align = match align {
            None => None,
            Some(0) => Some(Alignment::First),
            Some(1) => Some(Alignment::Clock),
            Some(_) => return None,
        };
        let options = Options {
            burst,
            grain: grain.map(Micros::new),
            resolution: resolution.map(Micros::new),
            factor: factor.map(f64::from_bits),
            align,
            buckets,
            level: level.map(f64::from_bits),
        };
        let built = Self::build(&algorithm, count, period, &options).ok();
        let limit = built.or_else(|| by_a_dialect(&algorithm, count, period, &options))?;
        let limit = match spacing {
            Some(spacing) => limit.spaced(Micros::new(spacing)).ok()?,
            None => limit,
        };
        let name = read_text(from)?;
        if name.is_empty() { Some(limit) } else { limit.named(&name).ok() }
    }
}

/// Builds a limit that only a dialect builds.
fn by_a_dialect(algorithm: &str, count: u64, period: Micros, options: &Options) -> Option<Limit> {
    let rule = match (algorithm, options.resolution) {
        (Sliding::NAME, _) if options.grain.is_none() => Sliding::of_single_units(count, period).map(Rule::Sliding),
        (Slots::NAME, Some(resolution)) => Slots::unrefunded(count, period, resolution).map(Rule::Slots),
        _ => return None,
    };
    rule.map(Limit::new).ok()
}

impl Policy {
    /// Writes the whole policy: see [`Policy::read`].
    pub fn write(&self, to: &mut Writer) {
        write_text(self.name(), to);
        let mode = Mode::ALL.iter().position(|mode| *mode == self.mode()).unwrap_or_default() as u64;
        let on_error = OnError::ALL.iter().position(|other| *other == self.on_error()).unwrap_or_default() as u64;
        to.put(on_error << ON_ERROR_SHIFT | mode);
        to.put(self.limits().len() as u64);
        self.limits().iter().for_each(|limit| limit.write(to));
    }

    /// Reads the policy that [`Policy::write`] wrote.
    ///
    /// ```
    /// use tollgate_kernel::{Policy, Reader, Writer};
    /// let policy: Policy = "1/5s, 5/h".parse().unwrap();
    /// let mut to = Writer::default();
    /// policy.write(&mut to);
    /// assert_eq!(Policy::read(&mut Reader::new(&to.into_bytes())), Some(policy));
    /// ```
    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        let name = read_text(from)?;
        let word = usize::try_from(from.take()?).ok()?;
        let mode = *Mode::ALL.get(word & ((1 << ON_ERROR_SHIFT) - 1))?;
        let on_error = *OnError::ALL.get(word >> ON_ERROR_SHIFT)?;
        let count = from.at_most(MAX_LIMITS as u64)?;
        let limits: Vec<Limit> = (0..count).map(|_| Limit::from_words(from)).collect::<Option<_>>()?;
        let policy = Self::new(limits).ok()?.with_mode(mode).with_on_error(on_error);
        if name.is_empty() { Some(policy) } else { policy.with_name(&name).ok() }
    }
}

impl KeyState {
    /// Writes the whole state: see [`KeyState::read`].
    pub fn write(&self, to: &mut Writer) {
        to.put(self.each().count() as u64);
        for (limit, cell) in self.each() {
            limit.write(to);
            cell.write(to);
        }
    }

    /// Reads the state that [`KeyState::write`] wrote.
    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        Self::read_sharing(from, Arc::new)
    }

    /// As [`KeyState::read`], with the limits that `share` returns: many keys have the same limits, which take more
    /// memory than the cells stored under them.
    pub fn read_sharing(from: &mut Reader<'_>, mut share: impl FnMut(Limit) -> Arc<Limit>) -> Option<Self> {
        let mut state = Self::default();
        for _ in 0..from.at_most(MAX_CELLS)? {
            let limit = share(Limit::from_words(from)?);
            let cell = limit.read(from)?;
            state.keep(limit, cell);
        }
        // Stores account for the size of a state, and one that was read takes no more than one that was not.
        state.shrink();
        Some(state)
    }
}

fn write_text(text: &str, to: &mut Writer) {
    to.put(text.len() as u64);
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        to.put(u64::from_le_bytes(word));
    }
}

fn read_text(from: &mut Reader<'_>) -> Option<String> {
    let len = from.at_most(MAX_NAME as u64)? as usize;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(from.take()?.to_le_bytes());
    }
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}
