//! What a limiter is told: script, header names, options, key function, log level and response function. Each may be
//! left to the limiter it is made of.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tollgate_core::LONGEST_KEY;
use tollgate_dialects::Dialect;
use tracing::Level;

use super::said::{Answer, Failure, Said};
use crate::key::{Key, KeyBuf, KeyError};

/// The most keys of one request.
pub(super) const MOST_KEYS: usize = 32;

pub(super) type Keys = dyn Fn(&Parts) -> Result<Vec<Vec<u8>>, KeyError> + Send + Sync;
pub(super) type Responding = dyn Fn(&Said<'_>) -> Result<Answer, Failure> + Send + Sync;

/// A limiter, or what of one is different for a route.
///
/// ```
/// use tollgate_tower::{Header, plug::Named};
/// let strict = Named::of("token_bucket").opts([15, 60, 3]).key(Header::new("x-api-key")?).log(tracing::Level::WARN);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a limiter limits nothing until it is added or built"]
pub struct Named {
    pub(super) base: Option<Box<str>>,
    pub(super) script: Option<Script>,
    pub(super) headers: Option<Vec<String>>,
    pub(super) opts: Option<Vec<String>>,
    pub(super) takes: Option<usize>,
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) log: Option<Option<Level>>,
    pub(super) respond: Option<Arc<Responding>>,
}

/// What decides.
#[derive(Clone)]
pub(super) enum Script {
    BuiltIn(&'static Dialect),
    Lua(Arc<str>),
}

impl Named {
    /// A limiter of this Lua.
    pub fn script(lua: impl Into<String>) -> Self {
        Self::default().lua(lua)
    }

    /// A limiter like the one of this name, but for what is said here.
    pub fn of(limiter: &str) -> Self {
        Self::default().limiter(limiter)
    }

    /// Which limiter this is like, but for what is said here.
    pub fn limiter(self, name: &str) -> Self {
        Self { base: Some(name.into()), ..self }
    }

    /// The Lua that decides, in Redis or Valkey: its `KEYS` are the keys of the request, its `ARGV` the options, and
    /// it answers `{'allow' or 'block', {header, …}, …}`. It names every key it touches, and all of it is one step.
    pub fn lua(self, lua: impl Into<String>) -> Self {
        Self { script: Some(Script::Lua(lua.into().into())), ..self }
    }

    /// The names of the headers, by the place of their value in the script's answer.
    pub fn headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self { headers: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// The options of the script: texts or integers.
    pub fn opts<O: Into<Opt>>(self, opts: impl IntoIterator<Item = O>) -> Self {
        Self { opts: Some(opts.into_iter().map(|opt| opt.into().0).collect()), ..self }
    }

    /// How many options the script takes: another number is an error when the limiter is built. The built-in limiters
    /// know theirs.
    pub fn takes(self, opts: usize) -> Self {
        Self { takes: Some(opts), ..self }
    }

    /// Who is limited. In Redis the state is at this key as it is: begin it with the name of the limiter, so that no
    /// other limiter uses it too.
    pub fn key(self, key: impl Key) -> Self {
        let one = move |parts: &Parts| {
            let mut written = KeyBuf::new();
            key.write(parts, &mut written)?;
            Ok(vec![written.as_bytes().to_vec()])
        };
        Self { keys: Some(Arc::new(one)), ..self }
    }

    /// All keys that the script uses, at most 32; `None` if the request lacks what they are made of.
    pub fn keys<K: AsRef<[u8]>>(self, keys: impl Fn(&Parts) -> Option<Vec<K>> + Send + Sync + 'static) -> Self {
        let missing = || KeyError::Missing("expected a request that tells whose it is".to_owned());
        let all = move |parts: &Parts| {
            let keys = keys(parts).ok_or_else(missing)?;
            Ok(keys.iter().map(|key| key.as_ref().to_vec()).collect())
        };
        Self { keys: Some(Arc::new(all)), ..self }
    }

    /// At which level failures are logged, or not at all; as errors if not given.
    pub fn log(self, level: impl Into<Option<Level>>) -> Self {
        Self { log: Some(level.into()), ..self }
    }

    /// What is answered, instead of [`Said::usual`]. It gets all that the script answered; an error is logged, and
    /// the request passes.
    pub fn respond(self, respond: impl Fn(&Said<'_>) -> Result<Answer, Failure> + Send + Sync + 'static) -> Self {
        Self { respond: Some(Arc::new(respond)), ..self }
    }

    /// This, and where it says nothing, `base`.
    pub(super) fn over(self, base: &Self) -> Self {
        // What another script takes says nothing about this one.
        let takes = if self.script.is_some() { self.takes } else { self.takes.or(base.takes) };
        let base = base.clone();
        Self {
            base: None,
            script: self.script.or(base.script),
            headers: self.headers.or(base.headers),
            opts: self.opts.or(base.opts),
            takes,
            keys: self.keys.or(base.keys),
            log: self.log.or(base.log),
            respond: self.respond.or(base.respond),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let script = match &self.script {
            Some(Script::BuiltIn(dialect)) => dialect.name,
            Some(Script::Lua(_)) => "Lua",
            None => "",
        };
        f.debug_struct("Named")
            .field("base", &self.base)
            .field("script", &script)
            .field("headers", &self.headers)
            .field("opts", &self.opts)
            .finish_non_exhaustive()
    }
}

/// An option of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt(pub(super) String);

macro_rules! opts {
    ($($from:ty),+) => {$(
        impl From<$from> for Opt {
            fn from(opt: $from) -> Self {
                Self(opt.to_string())
            }
        }
    )+};
}

opts!(&str, String, i32, i64, u32, u64, usize);

/// Checks what a key function gave.
pub(super) fn checked(keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, KeyError> {
    if keys.is_empty() || keys.len() > MOST_KEYS {
        return Err(KeyError::Setup(format!("expected 1 to {MOST_KEYS} keys, found {}", keys.len())));
    }
    if keys.iter().any(Vec::is_empty) {
        return Err(KeyError::Missing("expected a key of at least one byte".to_owned()));
    }
    if keys.iter().any(|key| key.len() > LONGEST_KEY) {
        return Err(KeyError::TooLong);
    }
    Ok(keys)
}
