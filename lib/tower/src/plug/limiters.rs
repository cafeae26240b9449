//! The limiters of an application, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;
use tollgate_memory::{DEFAULT_CAP, Memory};

use super::builder::PlugBuilder;
use super::error::PlugError;
use super::fields;
use super::plug_limiter::{PlugEngine, PlugLimiter};
use super::settings::{PlugScript, PlugSettings};

/// The maximum length of a name.
const MAX_NAME: usize = 64;
/// The maximum number of header names and of options of a limiter.
const MAX: usize = fields::MAX_FIELDS;
/// The two built-in limiters of PlugLimit, and the names of their headers.
const BUILT_IN: [(&str, &[&str]); 2] = [
    ("fixed_window", &["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining"]),
    ("token_bucket", &["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining", "retry-after"]),
];

pub(super) type Switch = dyn Fn() -> bool + Send + Sync;

/// A registry of limiters by name, and the store in which they decide. **Off until switched on**: see
/// [`Limiters::enabled`].
///
/// `fixed_window` (limit, seconds) and `token_bucket` (limit, seconds, burst) are built in.
#[derive(Clone)]
#[must_use = "limiters limit nothing until one of them is put before a service"]
pub struct Limiters {
    home: PlugHome,
    settings: BTreeMap<Arc<str>, PlugSettings>,
    pub(super) enabled: Option<Arc<Switch>>,
}

/// The store in which the limiters decide.
#[derive(Clone)]
enum PlugHome {
    Memory(Memory),
    #[cfg(feature = "redis")]
    Redis(tollgate::redis::Redis),
}

impl Limiters {
    /// Creates limiters that decide in this process: the built-in ones, and those based on them.
    pub fn memory() -> Self {
        Self::embedded(Memory::new(DEFAULT_CAP))
    }

    /// Like [`Limiters::memory`], with an embedded store that has its own clock or memory limit.
    pub fn embedded(memory: Memory) -> Self {
        Self::at(PlugHome::Memory(memory))
    }

    /// Creates limiters whose scripts run in Redis or Valkey. A Tollgate server runs the built-in ones, but no Lua.
    #[cfg(feature = "redis")]
    pub fn over(store: tollgate::redis::Redis) -> Self {
        Self::at(PlugHome::Redis(store))
    }

    fn at(home: PlugHome) -> Self {
        let built_in = |(name, headers): (&str, &[&str])| {
            let dialect = tollgate_dialects::find(name)?;
            let settings = PlugSettings { script: Some(PlugScript::BuiltIn(dialect)), ..PlugSettings::default() };
            Some((name.into(), settings.headers(headers.iter().copied())))
        };
        Self { home, settings: BUILT_IN.into_iter().filter_map(built_in).collect(), enabled: None }
    }

    /// Sets a switch that is called for each request: while it returns false, and if it is not set, every request
    /// passes unchanged.
    pub fn enabled(self, enabled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { enabled: Some(Arc::new(enabled)), ..self }
    }

    /// Adds a limiter.
    pub fn add(mut self, name: &str, settings: PlugSettings) -> Result<Self, PlugError> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(word) {
            return Err(PlugError::Name(name.to_owned()));
        }
        if self.settings.contains_key(name) {
            return Err(PlugError::Duplicate(name.to_owned()));
        }
        let settings = match settings.base.clone() {
            Some(base) => settings.with_base(self.find(&base)?),
            None => settings,
        };
        self.script(name, &settings)?;
        headers(name, &settings)?;
        if settings.opts.is_some() {
            options(name, &settings)?;
        }
        self.settings.insert(name.into(), settings);
        Ok(self)
    }

    /// Returns the limiter of that name for a service or a route, which may replace each of its settings.
    pub fn plug(&self, name: &str) -> PlugBuilder {
        PlugBuilder::new(self.clone(), PlugSettings::of(name))
    }

    /// Returns the names of the limiters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.keys().map(|name| &**name)
    }

    fn find(&self, name: &str) -> Result<&PlugSettings, PlugError> {
        let known = || self.names().map(str::to_owned).collect();
        self.settings.get(name).ok_or_else(|| PlugError::Unknown { name: name.to_owned(), known: known() })
    }

    /// Prepares a limiter to decide.
    pub(super) fn prepare(&self, settings: PlugSettings) -> Result<PlugLimiter, PlugError> {
        let name = settings.base.clone().unwrap_or_default();
        let settings = settings.with_base(self.find(&name)?);
        let opts = options(&name, &settings)?;
        let engine = self.engine(&name, &settings, &opts)?;
        let headers = headers(&name, &settings)?;
        let Some(keys) = settings.keys.clone() else { return Err(PlugError::Key(name.into())) };
        Ok(PlugLimiter::new(name, engine, headers, opts, keys, settings.log, settings.respond))
    }

    fn script<'a>(&self, name: &str, settings: &'a PlugSettings) -> Result<&'a PlugScript, PlugError> {
        let wrong = |expected| Err(PlugError::Script(name.to_owned(), expected));
        match (&settings.script, &self.home) {
            (None, _) => wrong("Lua, or the name of a limiter that this one is like"),
            (Some(PlugScript::Lua(lua)), _) if lua.trim().is_empty() => wrong("Lua, found an empty text"),
            (Some(PlugScript::Lua(_)), PlugHome::Memory(_)) => {
                wrong("a limiter like fixed_window or token_bucket: Lua runs in Redis, see Limiters::over")
            }
            (Some(script), _) => Ok(script),
        }
    }

    fn engine(&self, name: &str, settings: &PlugSettings, opts: &[String]) -> Result<PlugEngine, PlugError> {
        match (self.script(name, settings)?, &self.home) {
            (PlugScript::BuiltIn(dialect), PlugHome::Memory(memory)) => {
                let args: Vec<&[u8]> = opts.iter().map(String::as_bytes).collect();
                let call = (dialect.parse)(&[b"key"], &args).map_err(|error| PlugError::dialect(name, error))?;
                let policy = memory.prepare(call.policy())?;
                Ok(PlugEngine::Memory { memory: memory.clone(), policy, call: Arc::new(call) })
            }
            #[cfg(feature = "redis")]
            (PlugScript::BuiltIn(dialect), PlugHome::Redis(store)) => {
                let script = tollgate::redis::lua::dialect_script(dialect.name);
                let text = script.map(|script| script.text).unwrap_or_default();
                Ok(PlugEngine::redis(store, text, true))
            }
            #[cfg(feature = "redis")]
            (PlugScript::Lua(lua), PlugHome::Redis(store)) => Ok(PlugEngine::redis(store, lua.to_string(), false)),
            (PlugScript::Lua(_), PlugHome::Memory(_)) => {
                Err(PlugError::Script(name.to_owned(), "a limiter without Lua"))
            }
        }
    }
}

fn headers(name: &str, settings: &PlugSettings) -> Result<Vec<HeaderName>, PlugError> {
    let wrong = |why: String| PlugError::Header(name.to_owned(), why);
    let given = settings.headers.as_deref().unwrap_or_default();
    if given.len() > MAX {
        return Err(wrong(format!("expected at most {MAX} names, found {}", given.len())));
    }
    let mut names = Vec::with_capacity(given.len());
    for text in given {
        let header = fields::parse_name(text.as_bytes()).map_err(wrong)?;
        if names.contains(&header) {
            return Err(wrong(format!("expected each name once, found {header} twice")));
        }
        names.push(header);
    }
    Ok(names)
}

/// Returns the options after checking their number and, for built-in limiters, their kind.
fn options(name: &str, settings: &PlugSettings) -> Result<Vec<String>, PlugError> {
    let opts = settings.opts.clone().unwrap_or_default();
    let wrong = |why: String| Err(PlugError::Options(name.to_owned(), why));
    if opts.len() > MAX {
        return wrong(format!("expected at most {MAX}, found {}", opts.len()));
    }
    if let Some(PlugScript::BuiltIn(dialect)) = settings.script {
        let args: Vec<&[u8]> = opts.iter().map(String::as_bytes).collect();
        (dialect.parse)(&[b"key"], &args).map_err(|error| PlugError::dialect(name, error))?;
    } else if let Some(takes) = settings.takes
        && takes != opts.len()
    {
        return wrong(format!("expected {takes}, found {}", opts.len()));
    }
    Ok(opts)
}

impl fmt::Debug for Limiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiters").field("settings", &self.settings).finish_non_exhaustive()
    }
}
