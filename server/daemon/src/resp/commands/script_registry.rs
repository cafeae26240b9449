//! The scripts and libraries that this server knows, and which of them are loaded.
//!
//! The server runs no Lua: a script is known by the SHA-1 of its text, and does what that script does in Redis. Texts
//! that differ from a known one in line ends and trailing blanks alone are known too, once they were loaded. All known
//! ones are loaded from the start. SCRIPT FLUSH affects its connection only: that one sees no script until it loads it
//! again, and other connections see what they saw.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tollgate_dialects::{DIALECTS, Dialect, PublishedKind, SCRIPTS, Wording, normalized, published};
use tollgate_redis::lua::{CALLS, LuaNaming, LuaScript, VERSION};

use super::dialects::ScriptHandler;
use tollgate_keyspace::Fault;

/// The text that every script of Tollgate begins with.
const OURS: &str = "-- tollgate: ";

/// The most scripts that a connection remembers to have loaded itself. After SCRIPT FLUSH, all are visible again when
/// it loads more.
const MAX_OWN: usize = 32;

/// The most scripts that the server remembers as loaded, beyond those that are known from the start.
const MAX_LEARNED: usize = 1_024;

/// A script that does what a dialect does, named by an operator: a private variant of a published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptAlias {
    /// The SHA-1 of its text, as clients send it or in normal form, in lower case.
    pub sha1: String,
    /// The dialect that it speaks.
    pub dialect: &'static str,
    /// Whether it refuses in the word of the dialect's document ("block") instead of the published script's ("deny").
    pub blocks: bool,
}

impl ScriptAlias {
    fn handler(&self) -> Option<ScriptHandler> {
        let wording = if self.blocks { Wording::Document } else { Wording::Script };
        Some(ScriptHandler::Dialect(tollgate_dialects::find(self.dialect)?, wording))
    }
}

/// Parses `SHA=DIALECT` or `SHA=DIALECT:block`.
impl std::str::FromStr for ScriptAlias {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sha1, dialect) = text.split_once('=').ok_or("expected SHA1=DIALECT, such as 1533c107…=slot_window")?;
        if sha1.len() != 40 || !sha1.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("expected the SHA-1 of a script, 40 hexadecimal digits, found {sha1:?}"));
        }
        let (dialect, blocks) = match dialect.strip_suffix(":block") {
            Some(dialect) => (dialect, true),
            None => (dialect, false),
        };
        let spoken =
            || SCRIPTS.iter().filter(|script| script.kind == PublishedKind::Script).map(|script| script.dialect);
        let known = spoken().find(|known| *known == dialect).ok_or_else(|| {
            let mut all: Vec<&str> = spoken().collect();
            all.dedup();
            format!("expected a dialect that scripts speak ({}), found {dialect:?}", all.join(", "))
        })?;
        Ok(Self { sha1: sha1.to_ascii_lowercase(), dialect: known, blocks })
    }
}

/// The scripts that a connection sees as loaded.
#[derive(Debug, Default)]
pub(crate) struct ScriptView {
    /// Whether it flushed, so that it sees only those that it loaded itself.
    is_flushed: bool,
    own: HashMap<String, ScriptHandler>,
}

impl ScriptView {
    /// Hides all scripts.
    pub(super) fn flush(&mut self) {
        (self.is_flushed, self.own) = (true, HashMap::new());
    }

    fn contains(&self, sha: &str) -> bool {
        !self.is_flushed || self.own.contains_key(sha)
    }

    fn add(&mut self, sha: &str, handler: ScriptHandler) {
        if self.own.len() < MAX_OWN {
            self.own.insert(sha.to_owned(), handler);
        } else if !self.own.contains_key(sha) {
            self.is_flushed = false;
        }
    }
}

/// The scripts and libraries that are loaded, server-wide.
#[derive(Debug, Default)]
pub(crate) struct ScriptRegistry {
    /// Those that the operator named.
    aliases: HashMap<String, ScriptHandler>,
    loaded: Mutex<LoadedScripts>,
}

#[derive(Debug)]
struct LoadedScripts {
    /// Variants of known texts, and Tollgate's scripts for a few algorithms: known by their SHA-1 once they were loaded.
    learned: HashMap<String, ScriptHandler>,
    libraries: HashMap<Library, Arc<str>>,
    /// Whether the library of seed redis-limiter was loaded, whose trigger this server has built in.
    has_triggers: bool,
}

impl Default for LoadedScripts {
    fn default() -> Self {
        let libraries = [Library::Plain, Library::Versioned].into_iter().filter_map(|own| Some((own, own.text()?)));
        Self { learned: HashMap::new(), libraries: libraries.collect(), has_triggers: false }
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

    /// Returns the library with that text, or with one that differs in line ends and trailing blanks alone.
    pub(super) fn of(text: &str) -> Option<Self> {
        static KNOWN: LazyLock<[(String, Library); 2]> = LazyLock::new(|| {
            let sha = |names| sha_of_normalized(tollgate_redis::lua::library(names));
            [(sha(LuaNaming::Plain), Library::Plain), (sha(LuaNaming::Versioned), Library::Versioned)]
        });
        let sha = sha_of_normalized(text);
        if published(PublishedKind::Library, &sha).is_some() {
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

/// Returns the SHA-1 of a text in normal form.
fn sha_of_normalized(text: &str) -> String {
    LuaScript::new(normalized(text)).sha
}

/// Returns what a script does that is known by its SHA-1 before it is loaded: that of its text, or of its text in
/// normal form.
fn builtin(sha: &str) -> Option<ScriptHandler> {
    static OWN: LazyLock<HashMap<String, ScriptHandler>> = LazyLock::new(|| {
        let native = CALLS
            .iter()
            .filter_map(|call| Some((tollgate_redis::lua::whole_script(call.name)?, ScriptHandler::Native(call))));
        let spoken = DIALECTS.iter().filter_map(|dialect: &'static Dialect| {
            let handler = ScriptHandler::Dialect(dialect, Wording::Document);
            Some((tollgate_redis::lua::dialect_script(dialect.name)?, handler))
        });
        let both = |(script, handler): (LuaScript, ScriptHandler)| {
            let normal = sha_of_normalized(&script.text);
            [(script.sha, handler), (normal, handler)]
        };
        native.map(|(script, handler)| (LuaScript::clone(&script), handler)).chain(spoken).flat_map(both).collect()
    });
    let published = || {
        let script = published(PublishedKind::Script, sha)?;
        Some(ScriptHandler::Dialect(tollgate_dialects::find(script.dialect)?, script.wording))
    };
    OWN.get(sha).copied().or_else(published)
}

/// Returns what one of Tollgate's scripts for a few algorithms does, by its whole text in normal form.
fn partial_script(text: &str) -> Option<ScriptHandler> {
    let (name, _) = text.strip_prefix(OURS)?.split_once(' ')?;
    let call = CALLS.iter().find(|call| call.name == name)?;
    let line = text.lines().find_map(|line| line.strip_prefix("local algorithms = { "))?;
    let algorithms: Vec<&str> = line.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim())).collect();
    (normalized(&tollgate_redis::lua::script(name, &algorithms)?.text) == text).then_some(ScriptHandler::Native(call))
}

impl ScriptRegistry {
    /// Creates a registry that also knows the scripts that the operator named.
    pub(crate) fn new(aliases: &[ScriptAlias]) -> Self {
        // The table of known scripts takes tens of milliseconds to make, which no caller should wait for.
        let _ = builtin("");
        let aliases = aliases.iter().filter_map(|alias| Some((alias.sha1.clone(), alias.handler()?)));
        Self { aliases: aliases.collect(), loaded: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, LoadedScripts> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a script does that is known without being loaded.
    fn known(&self, sha: &str) -> Option<ScriptHandler> {
        builtin(sha).or_else(|| self.aliases.get(sha).copied())
    }

    /// Returns what the script of that SHA-1 does, if it is loaded for a connection.
    pub(super) fn find(&self, sha: &[u8], view: &ScriptView) -> Option<ScriptHandler> {
        let sha = std::str::from_utf8(sha).ok()?.to_ascii_lowercase();
        let learned = || self.lock().learned.get(&sha).copied();
        let own = || view.own.get(&sha).copied();
        self.known(&sha).or_else(learned).or_else(own).filter(|_| view.contains(&sha))
    }

    /// Loads the script of that text; returns its SHA-1 and what it does.
    pub(super) fn load(&self, text: &[u8], view: &mut ScriptView) -> Result<(String, ScriptHandler), Fault> {
        let text = std::str::from_utf8(text).map_err(|_| unknown("in another encoding than UTF-8"))?;
        let sha = LuaScript::new(text.to_owned()).sha;
        let known = self.known(&sha);
        let handler = known.or_else(|| self.lock().learned.get(&sha).copied()).or_else(|| self.by_text(text));
        let handler = handler.ok_or_else(|| unknown(&format!("with the SHA-1 {sha}")))?;
        if known.is_none() {
            self.learn(&sha, handler);
        }
        view.add(&sha, handler);
        Ok((sha, handler))
    }

    /// Returns what a script does by its text, apart from line ends and trailing blanks.
    fn by_text(&self, text: &str) -> Option<ScriptHandler> {
        let text = normalized(text);
        partial_script(&text).or_else(|| self.known(&LuaScript::new(text).sha))
    }

    /// Remembers a script that was loaded. There are any number of variants of a text; when there are too many, a
    /// variant is known to the connections that loaded it.
    fn learn(&self, sha: &str, handler: ScriptHandler) {
        let mut loaded = self.lock();
        if loaded.learned.len() < MAX_LEARNED {
            loaded.learned.insert(sha.to_owned(), handler);
        }
    }

    /// Loads the published library of triggers; returns whether the text is one. Its usage data is kept anyway.
    pub(super) fn load_triggers(&self, text: &[u8]) -> bool {
        let text = std::str::from_utf8(text).ok();
        let is_known = text.is_some_and(|text| published(PublishedKind::Triggers, &sha_of_normalized(text)).is_some());
        if is_known {
            self.lock().has_triggers = true;
        }
        is_known
    }

    /// Returns whether the library of triggers is loaded.
    pub(super) fn has_triggers(&self) -> bool {
        self.lock().has_triggers
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
    dialects.dedup();
    Fault::wrong(format!(
        "this server runs no Lua: expected a script of Tollgate, or the published script of a limiter it speaks ({}), \
         found one {which}; tell it what a variant of your own does: --script SHA1=DIALECT",
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
        let handler = scripts.find(script.sha.as_bytes(), &other).unwrap();
        (0..=MAX_OWN).for_each(|number| own.add(&number.to_string(), handler));
        assert!(!own.is_flushed && own.own.len() == MAX_OWN);
    }

    /// The ways in which editors and tools change a text.
    fn variants(text: &str) -> [String; 6] {
        [
            text.trim_end_matches('\n').to_owned(),
            format!("{text}\n\n"),
            format!("\n \n{text}"),
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r"),
            text.replace('\n', " \t\n"),
        ]
    }

    #[test]
    fn line_ends_and_trailing_blanks_make_no_other_script() {
        let (scripts, other) = (ScriptRegistry::default(), ScriptView::default());
        let spoken = DIALECTS
            .iter()
            .filter_map(|dialect| Some((tollgate_redis::lua::dialect_script(dialect.name)?.text, dialect.name)));
        let native =
            CALLS.iter().map(|call| (tollgate_redis::lua::whole_script(call.name).unwrap().text.clone(), call.name));
        let few = [(tollgate_redis::lua::script("tollgate", &["gcra", "sliding"]).unwrap().text.clone(), "tollgate")];
        for (text, name) in spoken.chain(native).chain(few) {
            for variant in variants(&text) {
                let mut view = ScriptView::default();
                let (sha, handler) = scripts.load(variant.as_bytes(), &mut view).unwrap();
                assert_eq!(sha, LuaScript::new(variant).sha);
                let found = match handler {
                    ScriptHandler::Dialect(dialect, wording) => {
                        assert_eq!(wording, Wording::Document);
                        dialect.name
                    }
                    ScriptHandler::Native(call) => call.name,
                };
                assert_eq!(found, name);
                // Other connections find it by its own SHA-1 from now on.
                assert!(scripts.find(sha.as_bytes(), &other).is_some());
            }
            // Anything else is another script.
            for (from, to) in [(" + ", " - "), ("<", "<="), ("local", "local ")] {
                let changed = text.replacen(from, to, 1);
                if changed != text {
                    let _ = scripts.load(changed.as_bytes(), &mut ScriptView::default()).unwrap_err();
                }
            }
        }
    }

    #[test]
    fn libraries_are_known_by_their_text_apart_from_line_ends_and_blanks() {
        for (naming, library) in [(LuaNaming::Plain, Library::Plain), (LuaNaming::Versioned, Library::Versioned)] {
            let text = tollgate_redis::lua::library(naming);
            assert!(variants(text).iter().all(|variant| Library::of(variant) == Some(library)));
            assert_eq!(Library::of(&text.replacen(" + ", " - ", 1)), None);
        }
        assert!(!ScriptRegistry::default().load_triggers(b"#!js name=limiter api_version=1.0"));
    }

    #[test]
    fn what_callers_load_is_bounded_and_a_connection_finds_its_own() {
        let (scripts, text) = (ScriptRegistry::default(), tollgate_redis::lua::dialect_script("ar1").unwrap().text);
        let variant = |number: usize| format!("{text}{}", "\n".repeat(number + 1));
        let shas: Vec<String> = (0..2 * MAX_LEARNED)
            .map(|number| scripts.load(variant(number).as_bytes(), &mut ScriptView::default()).unwrap().0)
            .collect();
        assert_eq!(scripts.lock().learned.len(), MAX_LEARNED);
        let (mut own, last) = (ScriptView::default(), shas.last().unwrap().as_bytes());
        assert!(scripts.find(last, &own).is_none());
        scripts.load(variant(2 * MAX_LEARNED - 1).as_bytes(), &mut own).unwrap();
        assert!(scripts.find(last, &own).is_some());
    }

    #[test]
    fn published_revisions_refuse_in_their_own_word() {
        for (sha, name, wording) in [
            ("55ba4f2b9f5502abca03fca95fc9e3f2e504bd50", "fixed_window", Wording::Script),
            ("74ef5ffac2da91ee3348aa0fc36460ccf4e026e6", "fixed_window", Wording::Document),
            ("e94ec70d014de3d05d42fa2a73e3fa43b5d321d0", "token_bucket", Wording::Document),
            ("9CE7F2CF727BC1543212214CE938455743EE5D38", "sliding_window", Wording::Script),
        ] {
            let found = ScriptRegistry::default().find(sha.as_bytes(), &ScriptView::default());
            assert!(
                matches!(found, Some(ScriptHandler::Dialect(dialect, said)) if dialect.name == name && said == wording)
            );
        }
    }

    #[test]
    fn a_private_variant_does_what_the_operator_says() {
        let text = "return redis.call('INCR', KEYS[1])\n";
        let sha = |text: &str| LuaScript::new(text.to_owned()).sha;
        for named in [sha(text), sha(text.trim_end()).to_ascii_uppercase()] {
            let alias: ScriptAlias = format!("{named}=fixed_window:block").parse().unwrap();
            let scripts = ScriptRegistry::new(&[alias]);
            let (_, handler) = scripts.load(text.as_bytes(), &mut ScriptView::default()).unwrap();
            assert!(
                matches!(handler, ScriptHandler::Dialect(found, Wording::Document) if found.name == "fixed_window")
            );
            assert!(scripts.find(sha(text).as_bytes(), &ScriptView::default()).is_some());
        }
        for wrong in ["", "abc=ar1", "=ar1", "1533c10715a2840138ba6a19f2bbd52e8ba389fd=nothing"] {
            assert!(wrong.parse::<ScriptAlias>().unwrap_err().starts_with("expected "), "{wrong}");
        }
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
