//! Keys made of several parts, and keys with a fallback.

use http::request::Parts;

use super::{Key, KeyBuf, KeyError};

/// A key with a fallback for requests that lack what the first is made of: see [`Key::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(pub(super) A, pub(super) B);

impl<A: Key, B: Key> Key for Or<A, B> {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let begun = key.len();
        match self.0.write(parts, key) {
            Err(KeyError::Missing(_)) => {
                key.cut(begun);
                self.1.write(parts, key)
            }
            done => done,
        }
    }
}

/// Appends what `part` writes, with `|` and `\` escaped.
fn escaped(part: &dyn Key, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
    let mut value = KeyBuf::new();
    part.write(parts, &mut value)?;
    for piece in value.as_bytes().chunk_by(|before, after| ![before, after].iter().any(|b| matches!(b, b'|' | b'\\'))) {
        if matches!(piece, [b'|' | b'\\']) {
            key.push(b"\\")?;
        }
        key.push(piece)?;
    }
    Ok(())
}

macro_rules! tuples {
    ($($name:ident $place:tt),+) => {
        /// All parts, joined by `|`.
        impl<First: Key, $($name: Key),+> Key for (First, $($name),+) {
            fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
                escaped(&self.0, parts, key)?;
                $(
                    key.push(b"|")?;
                    escaped(&self.$place, parts, key)?;
                )+
                Ok(())
            }
        }
    };
}

tuples!(B 1);
tuples!(B 1, C 2);
tuples!(B 1, C 2, D 3);
