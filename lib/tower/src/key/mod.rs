//! The key under which a request is counted, made from its head.
//!
//! Each part writes its kind before its value (`address:`, `header:x-api-key:`), so that a client that chooses a
//! value cannot imitate a key of another kind. The parts of a combination are joined by `|`, which is escaped in
//! values, so that no two combinations have the same key.
//!
//! | file | what it is |
//! |---|---|
//! | `address.rs` | the client's address, behind trusted proxies |
//! | `parts.rs` | a header, a token, the path, an extension, a function |
//! | `combined.rs` | several parts, or one where another is missing |

mod address;
mod combined;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt;

use http::request::Parts;
use tollgate_kernel::MAX_KEY;

pub use address::{ClientIp, Peer};
pub use combined::FallbackKey;
pub use parts::{ExtensionKey, HeaderKey, KeyFn, PathKey, TokenKey, key_fn};

/// Makes the key of a request.
pub trait Key: Send + Sync + 'static {
    /// Appends the key of the request with this head. Law: requests that must be counted separately get different
    /// keys.
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError>;

    /// Returns this key, with `other` as the fallback for requests that lack what this one is made of.
    fn or<K: Key>(self, other: K) -> FallbackKey<Self, K>
    where
        Self: Sized,
    {
        FallbackKey(self, other)
    }
}

/// The number of bytes that a key stores without an allocation: enough for an address or a token of usual length. A
/// larger buffer would have to be zeroed and moved for every request.
const INLINE: usize = 96;

/// A buffer for a key of at most 512 bytes, which allocates only for long keys.
#[derive(Clone)]
pub struct KeyBuf {
    inline: [u8; INLINE],
    len: usize,
    /// The whole key, once it is longer than `inline`.
    long: Vec<u8>,
}

impl KeyBuf {
    /// Creates an empty buffer.
    pub const fn new() -> Self {
        Self { inline: [0; INLINE], len: 0, long: Vec::new() }
    }

    /// Appends bytes. Returns an error if the key exceeds the maximum length.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), KeyError> {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end) {
            Some(free) => free.copy_from_slice(bytes),
            None if end > MAX_KEY => return Err(KeyError::TooLong),
            None => self.push_long(bytes),
        }
        self.len = end;
        Ok(())
    }

    #[cold]
    fn push_long(&mut self, bytes: &[u8]) {
        if self.len <= INLINE {
            self.long.clear();
            self.long.extend_from_slice(self.inline.get(..self.len).unwrap_or_default());
        }
        self.long.extend_from_slice(bytes);
    }

    /// Returns the bytes written so far.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        let all = if self.len <= INLINE { self.inline.as_slice() } else { self.long.as_slice() };
        all.get(..self.len).unwrap_or_default()
    }

    /// Truncates the key to `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        if self.len > INLINE {
            self.long.truncate(len);
            if let (Some(free), Some(kept)) = (self.inline.get_mut(..len), self.long.get(..len)) {
                free.copy_from_slice(kept);
            }
        }
        self.len = len;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBuf({:?})", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Writes the key of a request into a buffer of the caller, since keys are large to move. An empty key is an error.
#[inline]
pub(crate) fn write(key: &dyn Key, parts: &Parts, into: &mut KeyBuf) -> Result<(), KeyError> {
    key.write(parts, into)?;
    if into.as_bytes().is_empty() {
        return Err(KeyError::Missing("expected a key of at least one byte".to_owned()));
    }
    Ok(())
}

/// The reason why a request has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The request lacks what its key is made of, or contains it twice: answered with 400.
    Missing(String),
    /// The key would be longer than 512 bytes: answered with 400.
    TooLong,
    /// The service is set up incorrectly: answered with 500.
    Setup(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) | Self::Setup(what) => f.write_str(what),
            Self::TooLong => write!(f, "expected a key of at most {MAX_KEY} bytes, found a longer one"),
        }
    }
}

impl std::error::Error for KeyError {}
