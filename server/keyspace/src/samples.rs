//! Sample calls of every dialect, for tests of what is stored and counted for them.

#![allow(clippy::unwrap_used)]

use tollgate_dialects::Wording;

use crate::DialectCall;

/// Calls of every dialect, in which KEY and N are to be replaced.
pub const CALLS: &[&str] = &[
    "fixed_window 1 KEY 5 60",
    "token_bucket 1 KEY 5 60 2",
    "sliding_window 1 KEY 60000 5",
    "sliding_window 1 KEY 60000 500 90000 900 10N 50",
    "cl.throttle 1 KEY 5 5 60",
    "slot_window 1 KEY 1 ns [[5,60,1],[9,3600,60]] 1700000040 0",
    "slot_window 1 KEY 1 nsN [[5,60,1]] 1700000040 0",
    "ar1 1 KEY 1 ns [[5,2,1]] 1700000040 0",
    "rolling 2 KEYa KEYb 1 1 1700000040000000 0 0 5 9 6000 60000 10000 10000",
    "api_counter 1 {api:KEY} 5",
];

/// Parses a line of [`CALLS`].
///
/// # Panics
///
/// Panics if the line is not a call of a dialect.
pub fn parse_call(text: &str) -> DialectCall {
    let mut words = text.split(' ');
    let dialect = tollgate_dialects::find(words.next().unwrap()).unwrap();
    let count = words.next().unwrap().parse().unwrap();
    let words: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
    let (keys, args) = words.split_at(count);
    let slices = |all: &[Vec<u8>]| -> Vec<&'static [u8]> { all.iter().map(|one| &*one.clone().leak()).collect() };
    let call = (dialect.parse)(&slices(keys), &slices(args)).unwrap();
    DialectCall { dialect, call, db: 0, keys: keys.to_vec(), args: args.to_vec(), wording: Wording::Document }
}
