//! Keys made of one part of a request's head.

use std::fmt;
use std::marker::PhantomData;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue, InvalidHeaderName};
use http::request::Parts;

use super::{Key, KeyBuf, KeyError};

/// The key `header:x-api-key:VALUE`. The header must occur once: of several, the application might read a different
/// one than this layer.
#[derive(Clone, Debug)]
pub struct HeaderKey(HeaderName);

impl HeaderKey {
    /// Creates a key from the header of this name.
    pub fn new(name: &str) -> Result<Self, InvalidHeaderName> {
        Ok(Self(HeaderName::try_from(name)?))
    }
}

impl Key for HeaderKey {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let value = single_header(parts, &self.0)?;
        key.push(b"header:")?;
        key.push(self.0.as_str().as_bytes())?;
        key.push(b":")?;
        key.push(value.as_bytes())
    }
}

/// The key `token:VALUE` of an `Authorization: Bearer VALUE`. The token is not verified: put the layer behind the
/// one that verifies it, or limit addresses too, since any client can invent tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenKey(());

impl TokenKey {
    /// Creates a key from the bearer token.
    pub fn bearer() -> Self {
        Self(())
    }
}

impl Key for TokenKey {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let value = single_header(parts, &AUTHORIZATION)?.as_bytes();
        let (scheme, token) = value.split_at_checked(7).unwrap_or((value, b""));
        let token = token.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer ") || token.is_empty() {
            return Err(KeyError::Missing("authorization: expected Bearer and a token".to_owned()));
        }
        key.push(b"token:")?;
        key.push(token)
    }
}

/// The key `path:/v1/users`: the path of the request, or its first segments. Without a bound on the segments the
/// client chooses the key, so combine it with one that identifies the client.
#[derive(Clone, Copy, Debug)]
pub struct PathKey {
    segments: usize,
}

impl PathKey {
    /// Uses the whole path.
    pub fn whole() -> Self {
        Self { segments: usize::MAX }
    }

    /// Uses the first segments: with 1, `/users/42` and `/users/43` are both `/users`.
    pub fn segments(segments: usize) -> Self {
        Self { segments }
    }
}

impl Key for PathKey {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let path = parts.uri.path();
        let end = path.match_indices('/').nth(self.segments).map_or(path.len(), |(end, _)| end);
        key.push(b"path:")?;
        key.push(path.get(..end).unwrap_or(path).as_bytes())
    }
}

/// A key made of an extension of the request, which a layer before this one inserted: a user, a tenant.
pub struct ExtensionKey<T>(PhantomData<fn() -> T>);

impl<T> ExtensionKey<T> {
    /// Creates a key from the bytes of the extension of this type.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for ExtensionKey<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for ExtensionKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", std::any::type_name::<T>())
    }
}

impl<T: AsRef<[u8]> + Send + Sync + 'static> Key for ExtensionKey<T> {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let missing = || KeyError::Setup(format!("expected an extension {}", std::any::type_name::<T>()));
        let value = parts.extensions.get::<T>().ok_or_else(missing)?;
        key.push(b"extension:")?;
        key.push(value.as_ref())
    }
}

/// A key made by a function: see [`key_fn`].
#[derive(Clone, Copy, Debug)]
pub struct KeyFn<F>(F);

/// Creates a key from the bytes that `make` returns, unchanged; `None` means that the request lacks what the key is
/// made of.
///
/// ```
/// let tenant = tollgate_tower::key_fn(|parts: &http::request::Parts| parts.uri.host().map(str::to_owned));
/// ```
pub fn key_fn<F, K>(make: F) -> KeyFn<F>
where
    F: Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    K: AsRef<[u8]>,
{
    KeyFn(make)
}

impl<F, K> Key for KeyFn<F>
where
    F: Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    K: AsRef<[u8]>,
{
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        let made = (self.0)(parts);
        let missing = || KeyError::Missing("expected a request that tells whose it is".to_owned());
        key.push(made.ok_or_else(missing)?.as_ref())
    }
}

fn single_header<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a HeaderValue, KeyError> {
    let mut values = parts.headers.get_all(name).iter().filter(|value| !value.is_empty());
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(KeyError::Missing(format!("{name}: expected this header"))),
        (Some(_), Some(_)) => Err(KeyError::Missing(format!("{name}: expected this header once, found it twice"))),
    }
}
