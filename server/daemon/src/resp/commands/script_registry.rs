//! The scripts and libraries that this server knows, and which of them are loaded.
//!
//! The server runs no Lua: a script is known by the SHA-1 of its text, and does what that script does in Redis. All
//! known ones are loaded from the start. SCRIPT FLUSH affects its connection only: that one sees no script until it
//! loads it again, and other connections see what they saw.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tollgate_dialects::{DIALECTS, SCRIPTS, Wording};
use tollgate_redis::lua::{CALLS, LuaNaming, LuaScript, VERSION};

use super::dialects::ScriptHandler;
use tollgate_keyspace::Fault;

/// The SHA-1 of the published library rdslim.
const RDSLIM: &str = "87613a9e5929aa39174139ffd5a204b9dcf75c6b";

/// The text that every script of Tollgate begins with.
const OURS: &str = "-- tollgate: ";

/// The most scripts that a connection loads again after SCRIPT FLUSH: with more, all are visible again.
const MAX_RELOADED: usize = 32;

/// The scripts that a connection sees as loaded.
#[derive(Debug, Default)]
pub(crate) struct ScriptView {
    /// Those that it loaded again after SCRIPT FLUSH; `None` if it did not flush and sees all.
    reloaded: Option<HashSet<String>>,
}

impl ScriptView {
    /// Hides all scripts.
    pub(super) fn flush(&mut self) {
        self.reloaded = Some(HashSet::new());
    }

    fn contains(&self, sha: &str) -> bool {
        self.reloaded.as_ref().is_none_or(|reloaded| reloaded.contains(sha))
    }

    fn add(&mut self, sha: &str) {
        let Some(reloaded) = &mut self.reloaded else { return };
        reloaded.insert(sha.to_owned());
        if reloaded.len() > MAX_RELOADED {
            self.reloaded = None;
        }
    }
}

/// The scripts and libraries that are loaded, server-wide.
#[derive(Debug, Default)]
pub(crate) struct ScriptRegistry {
    loaded: Mutex<LoadedScripts>,
}

#[derive(Debug)]
struct LoadedScripts {
    /// Tollgate's scripts for a few algorithms, of which there are hundreds: known once they were loaded.
    learned: HashMap<String, ScriptHandler>,
    libraries: HashMap<Library, Arc<str>>,
}

impl Default for LoadedScripts {
    fn default() -> Self {
        let libraries = [Library::Plain, Library::Versioned].into_iter().filter_map(|own| Some((own, own.text()?)));
        Self { learned: HashMap::new(), libraries: libraries.collect() }
    }
}

/// A library of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Library {
    /// Tollgate's, under the names of the documents.
    Plain,
    /// Tollgate's, under the names of this release.
    Versioned,
    /// The published one, which has `sliding_window`.
    Rdslim,
}

impl Library {
    /// All libraries.
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Versioned, Self::Rdslim];

    /// Returns the library with that text.
    pub(super) fn of(text: &str) -> Option<Self> {
        static KNOWN: LazyLock<[(String, Library); 2]> = LazyLock::new(|| {
            let sha = |names| LuaScript::new(tollgate_redis::lua::library(names).to_owned()).sha;
            [(sha(LuaNaming::Plain), Library::Plain), (sha(LuaNaming::Versioned), Library::Versioned)]
        });
        let sha = LuaScript::new(text.to_owned()).sha;
        if sha == RDSLIM {
            return Some(Self::Rdslim);
        }
        KNOWN.iter().find(|(known, _)| *known == sha).map(|(_, library)| *library)
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Plain => LuaNaming::Plain.library(),
            Self::Versioned => LuaNaming::Versioned.library(),
            Self::Rdslim => "rdslim".to_owned(),
        }
    }

    /// Returns its functions with their flags.
    pub(super) fn functions(self) -> Vec<(String, &'static [&'static str])> {
        let names = match self {
            Self::Rdslim => return vec![("sliding_window".to_owned(), &[])],
            Self::Plain => LuaNaming::Plain,
            Self::Versioned => LuaNaming::Versioned,
        };
        let calls = CALLS.iter().map(|call| match call.name {
            _ if call.reads_only => (call.name, &["no-writes"][..]),
            "tollgate_reset" => (call.name, &["allow-oom"][..]),
            name => (name, &[][..]),
        });
        let dialects = DIALECTS.iter().filter(|dialect| dialect.lua.is_some()).map(|dialect| (dialect.name, &[][..]));
        calls.chain(dialects).map(|(name, flags)| (names.function(name), flags)).collect()
    }

    fn text(self) -> Option<Arc<str>> {
        match self {
            Self::Plain => Some(tollgate_redis::lua::library(LuaNaming::Plain).into()),
            Self::Versioned => Some(tollgate_redis::lua::library(LuaNaming::Versioned).into()),
            Self::Rdslim => None,
        }
    }
}

/// Returns what a script does that is known by its SHA-1 before it is loaded.
fn builtin(sha: &str) -> Option<ScriptHandler> {
    static KNOWN: LazyLock<HashMap<String, ScriptHandler>> = LazyLock::new(|| {
        let dialect =
            |name: &str, wording| tollgate_dialects::find(name).map(|dialect| ScriptHandler::Dialect(dialect, wording));
        let published = SCRIPTS
            .iter()
            .filter_map(|script| Some((script.sha1.to_owned(), dialect(script.dialect, script.wording)?)));
        let native = CALLS.iter().filter_map(|call| {
            Some((tollgate_redis::lua::whole_script(call.name)?.sha.clone(), ScriptHandler::Native(call)))
        });
        let spoken = DIALECTS.iter().filter_map(|listed| {
            Some((tollgate_redis::lua::dialect_script(listed.name)?.sha, dialect(listed.name, Wording::Document)?))
        });
        published.chain(native).chain(spoken).collect()
    });
    KNOWN.get(sha).copied()
}

/// Returns what one of Tollgate's scripts for a few algorithms does, by its whole text.
fn partial_script(text: &str) -> Option<ScriptHandler> {
    let (name, _) = text.strip_prefix(OURS)?.split_once(' ')?;
    let call = CALLS.iter().find(|call| call.name == name)?;
    let line = text.lines().find_map(|line| line.strip_prefix("local algorithms = { "))?;
    let algorithms: Vec<&str> = line.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim())).collect();
    (tollgate_redis::lua::script(name, &algorithms)?.text == text).then_some(ScriptHandler::Native(call))
}

impl ScriptRegistry {
    fn lock(&self) -> MutexGuard<'_, LoadedScripts> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the script of that SHA-1 does, if it is loaded for a connection.
    pub(super) fn find(&self, sha: &[u8], view: &ScriptView) -> Option<ScriptHandler> {
        let sha = std::str::from_utf8(sha).ok()?.to_ascii_lowercase();
        builtin(&sha).or_else(|| self.lock().learned.get(&sha).copied()).filter(|_| view.contains(&sha))
    }

    /// Loads the script of that text; returns its SHA-1 and what it does.
    pub(super) fn load(&self, text: &[u8], view: &mut ScriptView) -> Result<(String, ScriptHandler), Fault> {
        let text = std::str::from_utf8(text).map_err(|_| unknown("in another encoding than UTF-8"))?;
        let sha = LuaScript::new(text.to_owned()).sha;
        let learned = || self.lock().learned.get(&sha).copied();
        let handler = builtin(&sha).or_else(learned).or_else(|| partial_script(text));
        let handler = handler.ok_or_else(|| unknown(&format!("with the SHA-1 {sha}")))?;
        if builtin(&sha).is_none() {
            self.lock().learned.insert(sha.clone(), handler);
        }
        view.add(&sha);
        Ok((sha, handler))
    }

    /// Returns what the function of that name, in either case, does, if a loaded library has it.
    pub(super) fn function(&self, name: &[u8]) -> Option<ScriptHandler> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (name, library) = match name.strip_suffix(VERSION) {
            Some(name) => (name, Library::Versioned),
            None => (name.as_str(), Library::Plain),
        };
        let loaded = self.lock();
        let has = |library| loaded.libraries.contains_key(&library);
        let in_rdslim = library == Library::Plain && name == "sliding_window" && has(Library::Rdslim);
        if !in_rdslim && !has(library) {
            return None;
        }
        let native = CALLS.iter().find(|call| call.name == name).map(ScriptHandler::Native);
        let dialect = || tollgate_dialects::find(name).filter(|dialect| dialect.lua.is_some());
        native.or_else(|| dialect().map(|dialect| ScriptHandler::Dialect(dialect, Wording::Document)))
    }

    /// Loads a library; returns `false` if it was there and may not be replaced.
    pub(super) fn load_library(&self, library: Library, text: &str, replace: bool) -> bool {
        let mut loaded = self.lock();
        let free = replace || !loaded.libraries.contains_key(&library);
        if free {
            loaded.libraries.insert(library, text.into());
        }
        free
    }

    /// Removes a library; returns whether it was there.
    pub(super) fn delete_library(&self, library: Library) -> bool {
        self.lock().libraries.remove(&library).is_some()
    }

    /// Returns the libraries that are loaded, with their texts.
    pub(super) fn libraries(&self) -> Vec<(Library, Arc<str>)> {
        let loaded = self.lock();
        Library::ALL
            .into_iter()
            .filter_map(|library| Some((library, loaded.libraries.get(&library)?.clone())))
            .collect()
    }
}

/// Returns the error of a script or library that is not known.
pub(super) fn unknown(which: &str) -> Fault {
    let mut dialects: Vec<&str> = SCRIPTS.iter().map(|script| script.dialect).collect();
    dialects.sort_unstable();
    Fault::wrong(format!(
        "this server runs no Lua: expected a script of Tollgate, or the published script of a limiter it speaks ({}), \
         found one {which}; run it in your Redis, which can be the store of this server too: --store redis://HOST",
        dialects.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_algorithms_is_recognised_by_its_text() {
        let (scripts, mut view) = (ScriptRegistry::default(), ScriptView::default());
        for algorithms in [&["gcra"][..], &["sliding"], &["fixed", "gcra"], &["decay", "estimate", "slots"]] {
            for call in CALLS {
                let script = tollgate_redis::lua::script(call.name, algorithms).unwrap();
                assert!(scripts.find(script.sha.as_bytes(), &view).is_none());
                let (sha, handler) = scripts.load(script.text.as_bytes(), &mut view).unwrap();
                assert!(matches!(handler, ScriptHandler::Native(found) if found.name == call.name));
                assert_eq!(sha, script.sha);
                assert!(scripts.find(script.sha.to_ascii_uppercase().as_bytes(), &view).is_some());
                let changed = script.text.replacen("floor", "ceil", 1);
                let refused = scripts.load(changed.as_bytes(), &mut view).unwrap_err().to_string();
                assert!(refused.contains("runs no Lua"));
            }
        }
    }

    #[test]
    fn a_connection_that_flushes_scripts_flushes_its_own() {
        let (scripts, [mut own, other]) = (ScriptRegistry::default(), [ScriptView::default(), ScriptView::default()]);
        let script = tollgate_redis::lua::whole_script("tollgate").unwrap();
        own.flush();
        assert!(scripts.find(script.sha.as_bytes(), &own).is_none());
        assert!(scripts.find(script.sha.as_bytes(), &other).is_some());
        scripts.load(script.text.as_bytes(), &mut own).unwrap();
        assert!(scripts.find(script.sha.as_bytes(), &own).is_some());
        // What a connection keeps of it is bounded.
        own.flush();
        (0..=MAX_RELOADED).for_each(|number| own.add(&number.to_string()));
        assert!(own.reloaded.is_none());
    }

    #[test]
    fn texts_fit_what_a_connection_may_send() {
        use crate::resp::decode::CommandBounds;
        let libraries = [LuaNaming::Plain, LuaNaming::Versioned].map(|names| tollgate_redis::lua::library(names).len());
        let whole = CALLS.iter().filter_map(|call| Some(tollgate_redis::lua::whole_script(call.name)?.text.len()));
        let spoken =
            DIALECTS.iter().filter_map(|dialect| Some(tollgate_redis::lua::dialect_script(dialect.name)?.text.len()));
        let longest = libraries.into_iter().chain(whole).chain(spoken).max().unwrap();
        assert!(longest <= CommandBounds::KNOWN.arg && longest + 4_096 <= CommandBounds::KNOWN.command, "{longest}");
        assert!(longest > 10_000);
    }
}
