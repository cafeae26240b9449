//! Reads arguments: bytes become numbers within their range, or an error that names the argument.

use tollgate_kernel::{Cost, EXACT};

use crate::error::DialectError;
use crate::number::ExactDecimal;

/// The longest period of the kernel, in whole seconds.
pub(crate) const MAX_SECONDS: u64 = (EXACT - 1) / 1_000_000;

/// Returns the only key of a call.
pub(crate) fn one_key<'a>(keys: &[&'a [u8]]) -> Result<&'a [u8], DialectError> {
    match keys {
        [key] => Ok(key),
        _ => Err(DialectError::number("keys", "1", keys.len())),
    }
}

/// Parses an integer from `least` to `most`.
pub(crate) fn integer(name: &str, text: &[u8], least: u64, most: u64) -> Result<u64, DialectError> {
    let number = ExactDecimal::parse(text).and_then(ExactDecimal::whole);
    let in_range = number.filter(|number| (least..=most).contains(number));
    in_range.ok_or_else(|| DialectError::new(name, format!("an integer from {least} to {most}"), text))
}

/// Parses a cost of at least `least` units.
pub(crate) fn cost(name: &str, text: &[u8], least: u64) -> Result<Cost, DialectError> {
    let most = EXACT - 1;
    let cost = Cost::new(integer(name, text, least, most)?);
    cost.ok_or_else(|| DialectError::new(name, format!("an integer of at most {most}"), text))
}

/// Parses a number whose range the caller checks.
pub(crate) fn decimal(name: &str, text: &[u8], expected: &str) -> Result<ExactDecimal, DialectError> {
    ExactDecimal::parse(text).ok_or_else(|| DialectError::new(name, expected, text))
}
