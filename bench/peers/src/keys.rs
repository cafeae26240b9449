//! Keys: 16 bytes of ASCII such as `user:00000012345`.

use std::fmt::Write;

pub(crate) const LENGTH: usize = 16;

/// The keys of some calls in the order of the calls, in one text. Reading the next key then costs
/// no cache miss of its own, as in a server that has just read it from a request.
pub(crate) struct Keys(String);

impl Keys {
    pub(crate) fn of(indices: impl ExactSizeIterator<Item = u64>) -> Self {
        let mut text = String::with_capacity(indices.len() * LENGTH);
        indices.for_each(|index| append(&mut text, index));
        Self(text)
    }

    pub(crate) fn list(&self) -> Vec<&str> {
        (0..self.0.len()).step_by(LENGTH).map(|at| &self.0[at..at + LENGTH]).collect()
    }
}

/// Every one of `count` keys once. They are made one at a time and not kept, so that memory
/// measured around this is the limiter's.
pub(crate) fn every(count: u64, mut each: impl FnMut(&str)) {
    let mut text = String::with_capacity(LENGTH);
    for index in 0..count {
        text.clear();
        append(&mut text, index);
        each(&text);
    }
}

/// A key as the array that limiters with inline keys take. No bytes are copied.
#[inline]
pub(crate) fn inline(key: &str) -> &[u8; LENGTH] {
    key.as_bytes().try_into().expect("keys are made here and 16 bytes long")
}

fn append(text: &mut String, index: u64) {
    write!(text, "user:{index:011}").expect("a String takes all that is written");
}
