//! The limiters of an application, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use http::header::HeaderName;
use tollgate_kernel::OnError;
use tollgate_memory::{DEFAULT_CAP, Memory};

use super::builder::PlugBuilder;
use super::counts::{PlugCounters, PlugCounts};
use super::error::PlugError;
use super::fields;
use super::plug_limiter::{LocalEngine, PlugCore, PlugEngine, PlugLimiter};
use super::settings::{PlugScript, PlugSettings};
use crate::log::FailureLog;

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
    counters: Arc<PlugCounters>,
    /// The SHA-1 of scripts that the server was asked about and can run.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only stores are asked and stood in for"))]
    loaded: BTreeSet<String>,
}

/// The store in which the limiters decide.
#[derive(Clone)]
enum PlugHome {
    Memory(Memory),
    #[cfg(feature = "redis")]
    Redis {
        store: tollgate::redis::Redis,
        /// Decides while the store fails, for limiters whose `on_error` is local.
        standin: Memory,
    },
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

    /// Creates limiters whose scripts run in Redis or Valkey. A Tollgate server runs the built-in ones and the scripts that it
    /// knows: a limiter with other Lua is not built over it. See [`PlugBuilder::load`].
    #[cfg(feature = "redis")]
    pub fn over(store: tollgate::redis::Redis) -> Self {
        Self::at(PlugHome::Redis { store, standin: Memory::new(DEFAULT_CAP) })
    }

    fn at(home: PlugHome) -> Self {
        let built_in = |(name, headers): (&str, &[&str])| {
            let dialect = tollgate_dialects::find(name)?;
            let settings = PlugSettings { script: Some(PlugScript::BuiltIn(dialect)), ..PlugSettings::default() };
            Some((name.into(), settings.headers(headers.iter().copied())))
        };
        let settings = BUILT_IN.into_iter().filter_map(built_in).collect();
        Self { home, settings, enabled: None, counters: Arc::default(), loaded: BTreeSet::new() }
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

    /// Returns what each limiter that was built did so far, by its name. Clones and layers count together.
    pub fn counts(&self) -> BTreeMap<String, PlugCounts> {
        self.counters.read()
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
        let on_error = settings.on_error.unwrap_or(OnError::Allow);
        let standin = if on_error == OnError::Local { Some(self.standin(&name, &settings, &opts)?) } else { None };
        let log = settings.log.map_or_else(FailureLog::default, FailureLog::at);
        let (counts, respond) = (self.counters.of(&name), settings.respond);
        Ok(PlugLimiter::new(PlugCore { name, engine, headers, opts, keys, log, respond, on_error, standin, counts }))
    }

    /// Returns what decides in the place of the store for a limiter whose `on_error` is local.
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "only stores have a stand-in"))]
    fn standin(&self, name: &str, settings: &PlugSettings, opts: &[String]) -> Result<LocalEngine, PlugError> {
        match (self.script(name, settings)?, &self.home) {
            #[cfg(feature = "redis")]
            (PlugScript::BuiltIn(dialect), PlugHome::Redis { store, standin }) => {
                LocalEngine::new(name, dialect, &scaled(opts, store.share()), standin)
            }
            (_, PlugHome::Memory(_)) => {
                Err(PlugError::OnError(name.to_owned(), "allow or deny: this process decides already"))
            }
            #[cfg(feature = "redis")]
            (PlugScript::Lua(_), PlugHome::Redis { .. }) => {
                Err(PlugError::OnError(name.to_owned(), "allow or deny: Lua runs in the store alone"))
            }
        }
    }

    /// Asks the server whether it can run the script of a limiter.
    #[cfg(feature = "redis")]
    pub(super) async fn load(&mut self, settings: PlugSettings) -> Result<(), PlugError> {
        let name = settings.base.clone().unwrap_or_default();
        let settings = settings.with_base(self.find(&name)?);
        let (PlugScript::Lua(lua), PlugHome::Redis { store, .. }) = (self.script(&name, &settings)?, &self.home) else {
            return Ok(());
        };
        let script = tollgate::redis::CustomScript::new(&**lua);
        store.load_script(&script).await.map_err(|error| PlugError::Server(name.into(), error.to_string()))?;
        self.loaded.insert(script.sha().to_owned());
        Ok(())
    }

    /// Checks that the server runs Lua, or knows this one.
    #[cfg(feature = "redis")]
    fn check_server(&self, name: &str, store: &tollgate::redis::Redis, lua: &str) -> Result<(), PlugError> {
        let script = tollgate::redis::CustomScript::new(lua);
        if store.runs_scripts() || script.is_spoken() || self.loaded.contains(script.sha()) {
            return Ok(());
        }
        let why = format!(
            "expected Lua that a Tollgate server knows, which runs none: the published script of a limiter, found one with \
             the SHA-1 {}; use Limiters::over your Redis, or if the server was told what it does (--script SHA1=DIALECT), \
             ask it with load() before build()",
            script.sha()
        );
        Err(PlugError::Server(name.to_owned(), why))
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
                Ok(PlugEngine::Memory(Box::new(LocalEngine::new(name, dialect, opts, memory)?)))
            }
            #[cfg(feature = "redis")]
            (PlugScript::BuiltIn(dialect), PlugHome::Redis { store, .. }) => {
                let script = tollgate::redis::lua::dialect_script(dialect.name);
                let text = script.map(|script| script.text).unwrap_or_default();
                Ok(PlugEngine::redis(store, text, true))
            }
            #[cfg(feature = "redis")]
            (PlugScript::Lua(lua), PlugHome::Redis { store, .. }) => {
                self.check_server(name, store, lua)?;
                Ok(PlugEngine::redis(store, lua.to_string(), false))
            }
            (PlugScript::Lua(_), PlugHome::Memory(_)) => {
                Err(PlugError::Script(name.to_owned(), "a limiter without Lua"))
            }
        }
    }
}

/// Returns the options of a built-in limiter for one of several processes: limit and burst times `share`, rounded down and
/// at least 1. Windows stay as they are.
#[cfg(feature = "redis")]
fn scaled(opts: &[String], share: f64) -> Vec<String> {
    let part = |(place, opt): (usize, &String)| match opt.parse::<u64>() {
        // Limits are below 2^53, so the product is exact enough to round down.
        Ok(count) if place != 1 && count > 0 => ((count as f64 * share) as u64).max(1).to_string(),
        _ => opt.clone(),
    };
    opts.iter().enumerate().map(part).collect()
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
