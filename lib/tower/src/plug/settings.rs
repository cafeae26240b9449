//! The settings of a limiter: script, header names, options, key function, log level and response function. A
//! setting that is not given is taken from the limiter on which this one is based.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tollgate_dialects::Dialect;
use tollgate_kernel::{MAX_KEY, OnError};
use tracing::Level;

use super::reply::{PlugAnswer, PlugFailure, PlugReply};
use crate::key::{Key, KeyBuf, KeyError};

/// The maximum number of keys of one request.
pub(super) const MAX_KEYS: usize = 32;

pub(super) type PlugKeysFn = dyn Fn(&Parts) -> Result<Vec<Vec<u8>>, KeyError> + Send + Sync;
pub(super) type PlugRespondFn = dyn Fn(&PlugReply<'_>) -> Result<PlugAnswer, PlugFailure> + Send + Sync;

/// A limiter, or the settings in which a route differs from one.
///
/// ```
/// use tollgate_tower::{HeaderKey, plug::PlugSettings};
/// let key = HeaderKey::new("x-api-key")?;
/// let strict = PlugSettings::of("token_bucket").opts([15, 60, 3]).key(key).log(tracing::Level::WARN);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "a limiter limits nothing until it is added or built"]
pub struct PlugSettings {
    pub(super) base: Option<Box<str>>,
    pub(super) script: Option<PlugScript>,
    pub(super) headers: Option<Vec<String>>,
    pub(super) opts: Option<Vec<String>>,
    pub(super) takes: Option<usize>,
    pub(super) keys: Option<Arc<PlugKeysFn>>,
    pub(super) log: Option<Option<Level>>,
    pub(super) respond: Option<Arc<PlugRespondFn>>,
    pub(super) on_error: Option<OnError>,
}

/// The script that decides.
#[derive(Clone)]
pub(super) enum PlugScript {
    BuiltIn(&'static Dialect),
    Lua(Arc<str>),
}

impl PlugSettings {
    /// Creates a limiter with this Lua script.
    pub fn script(lua: impl Into<String>) -> Self {
        Self::default().lua(lua)
    }

    /// Creates a limiter based on the one of this name, from which it differs in the settings given here.
    pub fn of(limiter: &str) -> Self {
        Self::default().limiter(limiter)
    }

    /// Sets the limiter on which this one is based.
    pub fn limiter(self, name: &str) -> Self {
        Self { base: Some(name.into()), ..self }
    }

    /// Sets the Lua script that decides, in Redis or Valkey. Its `KEYS` are the keys of the request, its `ARGV` the
    /// options, and it returns `{'allow' or 'block', {header, …}, …}`. `KEYS` must contain every key that it uses.
    /// It runs atomically.
    pub fn lua(self, lua: impl Into<String>) -> Self {
        Self { script: Some(PlugScript::Lua(lua.into().into())), ..self }
    }

    /// Sets the names of the headers, by the position of their value in the script's reply.
    pub fn headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self { headers: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the options of the script: texts or integers.
    pub fn opts<O: Into<PlugOption>>(self, opts: impl IntoIterator<Item = O>) -> Self {
        Self { opts: Some(opts.into_iter().map(|opt| opt.into().0).collect()), ..self }
    }

    /// Sets the number of options that the script takes; any other number is an error when the limiter is built.
    /// The built-in limiters have their own.
    pub fn takes(self, opts: usize) -> Self {
        Self { takes: Some(opts), ..self }
    }

    /// Sets the key under which a request is counted. In Redis the state is stored under exactly this key: begin it
    /// with the name of the limiter, so that no other limiter uses the same one.
    pub fn key(self, key: impl Key) -> Self {
        let one = move |parts: &Parts| {
            let mut written = KeyBuf::new();
            key.write(parts, &mut written)?;
            Ok(vec![written.as_bytes().to_vec()])
        };
        Self { keys: Some(Arc::new(one)), ..self }
    }

    /// Sets a function that returns all keys that the script uses, at most 32; `None` means that the request lacks
    /// what they are made of.
    pub fn keys<K: AsRef<[u8]>>(self, keys: impl Fn(&Parts) -> Option<Vec<K>> + Send + Sync + 'static) -> Self {
        let missing = || KeyError::Missing("expected a request that tells whose it is".to_owned());
        let all = move |parts: &Parts| {
            let keys = keys(parts).ok_or_else(missing)?;
            Ok(keys.iter().map(|key| key.as_ref().to_vec()).collect())
        };
        Self { keys: Some(Arc::new(all)), ..self }
    }

    /// Sets the level at which failures are logged; `None` turns logging off. The default is error.
    pub fn log(self, level: impl Into<Option<Level>>) -> Self {
        Self { log: Some(level.into()), ..self }
    }

    /// Sets the function that determines the response, instead of [`PlugReply::default_answer`]. It receives
    /// everything that the script returned. If it returns an error, the error is logged and `on_error` decides.
    pub fn respond(
        self,
        respond: impl Fn(&PlugReply<'_>) -> Result<PlugAnswer, PlugFailure> + Send + Sync + 'static,
    ) -> Self {
        Self { respond: Some(Arc::new(respond)), ..self }
    }

    /// Sets what happens to a request if the limiter fails: the store does not answer, the script ends with an error or
    /// returns something else than an answer, or the key function fails.
    ///
    /// * [`OnError::Allow`], the default: the request passes, as PlugLimit documents it.
    /// * [`OnError::Deny`]: it is answered with 503.
    /// * [`OnError::Local`], for built-in limiters over a store: while the store fails, this process decides by the
    ///   store's `share` of the limit. Any other failure lets the request pass.
    ///
    /// Each failure is logged, counted in [`PlugCounts`](super::PlugCounts), and the
    /// [source](tollgate_kernel::Source) of the answer says who decided.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error: Some(on_error), ..self }
    }

    /// Returns these settings, completed by those of `base`.
    pub(super) fn with_base(self, base: &Self) -> Self {
        // The number of options of another script does not apply to this one.
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
            on_error: self.on_error.or(base.on_error),
        }
    }
}

impl fmt::Debug for PlugSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let script = match &self.script {
            Some(PlugScript::BuiltIn(dialect)) => dialect.name,
            Some(PlugScript::Lua(_)) => "Lua",
            None => "",
        };
        f.debug_struct("PlugSettings")
            .field("base", &self.base)
            .field("script", &script)
            .field("headers", &self.headers)
            .field("opts", &self.opts)
            .finish_non_exhaustive()
    }
}

/// An option of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlugOption(pub(super) String);

macro_rules! opts {
    ($($from:ty),+) => {$(
        impl From<$from> for PlugOption {
            fn from(opt: $from) -> Self {
                Self(opt.to_string())
            }
        }
    )+};
}

opts!(&str, String, i32, i64, u32, u64, usize);

/// Checks the keys that a key function returned.
pub(super) fn check_keys(keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, KeyError> {
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(KeyError::Setup(format!("expected 1 to {MAX_KEYS} keys, found {}", keys.len())));
    }
    if keys.iter().any(Vec::is_empty) {
        return Err(KeyError::Missing("expected a key of at least one byte".to_owned()));
    }
    if keys.iter().any(|key| key.len() > MAX_KEY) {
        return Err(KeyError::TooLong);
    }
    Ok(keys)
}
