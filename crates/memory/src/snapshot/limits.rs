//! Policies and limits as words.

use std::sync::Arc;

use tollgate_core::{Align, Limit, Micros, Mode, Options, Policy, Reader, Writer, algorithms::ALGORITHMS};

/// Written for an option that was not given.
const NONE: u64 = u64::MAX;
/// More bytes than any name has.
const LONGEST_TEXT: u64 = 256;

pub(super) fn write_policy(policy: &Policy, to: &mut Writer) {
    write_text(policy.name(), to);
    to.put(Mode::ALL.iter().position(|mode| *mode == policy.mode()).unwrap_or_default() as u64);
    to.put(policy.limits().len() as u64);
    policy.limits().iter().for_each(|limit| write_limit(limit, to));
}

pub(super) fn read_policy(from: &mut Reader<'_>) -> Option<Policy> {
    let name = read_text(from)?;
    let mode = *Mode::ALL.get(usize::try_from(from.take()?).ok()?)?;
    let count = from.at_most(tollgate_core::MOST_LIMITS as u64)?;
    let limits: Vec<Limit> = (0..count).map(|_| read_limit(from)).collect::<Option<_>>()?;
    let policy = Policy::new(limits).ok()?.with_mode(mode);
    if name.is_empty() { Some(policy) } else { policy.with_name(&name).ok() }
}

pub(super) fn write_limit(limit: &Limit, to: &mut Writer) {
    let (count, period, options) = limit.rule().numbers();
    write_text(limit.rule().name(), to);
    to.put(count);
    to.put(period.get());
    let align = options.align.map(|align| u64::from(align == Align::Clock));
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
        micros(limit.spacing()),
    ] {
        to.put(option.unwrap_or(NONE));
    }
    write_text(limit.given_name().unwrap_or_default(), to);
}

pub(super) fn read_limit(from: &mut Reader<'_>) -> Option<Limit> {
    let algorithm = read_text(from)?;
    let (count, period) = (from.take()?, Micros::new(from.take()?));
    let mut option = || from.take().map(|word| (word != NONE).then_some(word));
    let [burst, grain, resolution, factor, align, buckets, level, spacing] =
        [option()?, option()?, option()?, option()?, option()?, option()?, option()?, option()?];
    let align = match align {
        None => None,
        Some(0) => Some(Align::First),
        Some(1) => Some(Align::Clock),
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
    let known = ALGORITHMS.iter().any(|listed| listed.name == algorithm);
    let limit = known.then(|| Limit::build(&algorithm, count, period, &options).ok())??;
    let limit = spacing.map_or(Ok(limit.clone()), |spacing| limit.spaced(Micros::new(spacing))).ok()?;
    let name = read_text(from)?;
    if name.is_empty() { Some(limit) } else { limit.named(&name).ok() }
}

/// Whether the limits can be read back as they are: those that only a dialect can build cannot.
pub(super) fn can_be_written<'a>(limits: impl IntoIterator<Item = &'a Arc<Limit>>) -> bool {
    limits.into_iter().all(|limit| {
        let mut to = Writer::default();
        write_limit(limit, &mut to);
        read_limit(&mut Reader::new(&to.into_bytes())).as_ref() == Some(&**limit)
    })
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
    let len = from.at_most(LONGEST_TEXT)? as usize;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(from.take()?.to_le_bytes());
    }
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}
