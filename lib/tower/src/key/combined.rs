//! Keys made of several parts, and keys with a fallback.

use http::request::Parts;

use super::{Key, KeyBuf, KeyError};

/// A key with a fallback for requests that lack what the first is made of: see [`Key::or`].
#[derive(Clone, Copy, Debug)]
pub struct FallbackKey<A, B>(pub(super) A, pub(super) B);

impl<A: Key, B: Key> Key for FallbackKey<A, B> {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let start = key.len();
        match self.0.write(parts, key) {
            Err(KeyError::Missing(_)) => {
                key.truncate(start);
                self.1.write(parts, key)
            }
            result => result,
        }
    }
}

/// Appends what `part` writes, with `|` and `\` escaped.
fn write_escaped(part: &dyn Key, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
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
    ($($name:ident $index:tt),+) => {
        /// All parts, joined by `|`.
        impl<First: Key, $($name: Key),+> Key for (First, $($name),+) {
            fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
                write_escaped(&self.0, parts, key)?;
                $(
                    key.push(b"|")?;
                    write_escaped(&self.$index, parts, key)?;
                )+
                Ok(())
            }
        }
    };
}

tuples!(B 1);
tuples!(B 1, C 2);
tuples!(B 1, C 2, D 3);
