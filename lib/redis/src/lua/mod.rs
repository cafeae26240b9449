//! The Lua that decides inside Redis, assembled from the twins: scripts, and a library of functions.
//!
//! A script contains only what its call needs, because every call of a script creates its closures again. The
//! library contains everything, once. Apart from the last lines the text is the same.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tollgate_dialects::{ARGUMENTS_LUA, DIALECTS, Dialect};
use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::lua::{COMBINE, LOG, PARSE, RING, SPACING, UNITS};
use tollgate_kernel::{AlgorithmOptions, Alignment, Limit, Micros, Policy};

/// The beginning of every script: it binds the functions that the twins may call.
pub const BIND: &str = include_str!("bind.lua");
const FIELDS: &str = include_str!("fields.lua");
const CHUNKS: &str = include_str!("chunks.lua");
const ANSWERS: &str = include_str!("answers.lua");
const ENVELOPE: &str = include_str!("envelope.lua");
const CLOCK: &str = include_str!("clock.lua");
const COMPILE: &str = include_str!("compile.lua");
const KEYS: &str = include_str!("keys.lua");

/// The suffix of the functions that this release calls, and of their library. It changes whenever their arguments
/// or replies change, so that two releases can run side by side.
pub const VERSION: &str = "_0_1";

/// A native call.
#[derive(Clone, Copy, Debug)]
pub struct LuaCall {
    /// The name of the function or script.
    pub name: &'static str,
    /// Its keys and arguments, for help texts.
    pub usage: &'static str,
    /// Whether it never writes.
    pub reads_only: bool,
    file: &'static str,
}

const CHECK: &str = include_str!("check.lua");

/// All native calls.
pub static CALLS: &[LuaCall] = &[
    LuaCall {
        name: "tollgate",
        usage: "KEY policy [COST n] [MODE binary|nary|uniform] [FULL]",
        reads_only: false,
        file: CHECK,
    },
    LuaCall {
        name: "tollgate_peek",
        usage: "KEY policy [COST n] [MODE binary|nary|uniform] [FULL]",
        reads_only: true,
        file: CHECK,
    },
    LuaCall { name: "tollgate_reset", usage: "KEY policy", reads_only: false, file: include_str!("reset.lua") },
    LuaCall {
        name: "tollgate_refund",
        usage: "KEY policy n at_us",
        reads_only: false,
        file: include_str!("refund.lua"),
    },
    LuaCall {
        name: "tollgate_all",
        usage: "KEY... (policy cost)...",
        reads_only: false,
        file: include_str!("all.lua"),
    },
];

/// A script and its SHA-1, by which Redis identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaScript {
    /// The whole text.
    pub text: String,
    /// The SHA-1 of the text, in hexadecimal.
    pub sha: String,
}

impl LuaScript {
    /// Creates a script from its text.
    pub fn new(text: String) -> Self {
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { text, sha }
    }
}

/// The naming scheme of a library's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaNaming {
    /// The names used in the documentation, for use by people; the library is called `tollgate`.
    Plain,
    /// The plain names followed by [`VERSION`], for this release's own store.
    Versioned,
    /// The names for tests, with the caller's clock: see [`with_callers_clock`].
    Testing,
}

impl LuaNaming {
    /// Returns the name of the library.
    pub fn library(self) -> String {
        format!("tollgate{}", self.suffix())
    }

    /// Returns the name of a function.
    pub fn function(self, name: &str) -> String {
        format!("{name}{}", self.suffix())
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Versioned => VERSION,
            Self::Testing => "_testing",
        }
    }
}

/// Returns the text of the library, as FUNCTION LOAD takes it.
pub fn library(names: LuaNaming) -> &'static str {
    static PLAIN: LazyLock<String> = LazyLock::new(|| write_library(LuaNaming::Plain));
    static VERSIONED: LazyLock<String> = LazyLock::new(|| write_library(LuaNaming::Versioned));
    static TESTING: LazyLock<String> = LazyLock::new(|| with_callers_clock(&write_library(LuaNaming::Testing)));
    match names {
        LuaNaming::Plain => &PLAIN,
        LuaNaming::Versioned => &VERSIONED,
        LuaNaming::Testing => &TESTING,
    }
}

/// Returns the script of a native call for policies with these algorithms. The script accepts a policy as text only
/// if `algorithms` includes every algorithm that can be written as text.
pub fn script(call: &str, algorithms: &[&str]) -> Option<Arc<LuaScript>> {
    static MADE: Mutex<BTreeMap<String, Arc<LuaScript>>> = Mutex::new(BTreeMap::new());
    let call = CALLS.iter().find(|listed| listed.name == call)?;
    let used: Vec<&str> = in_text().filter(|name| algorithms.contains(name)).collect();
    let name = format!("{} {}", call.name, used.join(" "));
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::clone(made.entry(name).or_insert_with(|| Arc::new(LuaScript::new(write_native(call, &used))))))
}

/// Returns the script of a native call for every policy, textual or compact.
pub fn whole_script(call: &str) -> Option<Arc<LuaScript>> {
    script(call, &in_text().collect::<Vec<_>>())
}

/// Returns the script of a dialect.
pub fn dialect_script(name: &str) -> Option<LuaScript> {
    let dialect = tollgate_dialects::find(name)?;
    let lua = dialect.lua?;
    let mut text = format!("-- tollgate: {} {}\n", dialect.name, dialect.usage);
    text += &base(lua.algorithms);
    text += ARGUMENTS_LUA;
    lua.files.iter().for_each(|file| text += file);
    let _ = writeln!(text, "bind()\nreturn answer({}, KEYS, ARGV)", lua.run);
    Some(LuaScript::new(text))
}

/// Returns the script that runs commands on plain keys: see `keys.lua`.
pub(crate) fn keys_script() -> Arc<LuaScript> {
    static MADE: LazyLock<Arc<LuaScript>> = LazyLock::new(|| {
        let text = ["-- tollgate: keys\n", BIND, KEYS, "bind()\nreturn on_keys(KEYS, ARGV)\n"].concat();
        Arc::new(LuaScript::new(text))
    });
    Arc::clone(&MADE)
}

/// Returns a policy in the form that the scripts read fastest: see `compile.lua`.
pub fn compact(policy: &Policy) -> String {
    let limits: Vec<String> = policy.limits().iter().map(|limit| compact_limit(limit)).collect();
    format!("[{}]", limits.join(","))
}

/// Returns the names of a policy's algorithms.
pub fn algorithms(policy: &Policy) -> Vec<&'static str> {
    policy.limits().iter().map(|limit| limit.rule().name()).collect()
}

/// Replaces the clock of a script or library by its caller's clock: the time is then the last argument. This is for
/// tests; no installed script uses it.
pub fn with_callers_clock(text: &str) -> String {
    let line = CLOCK.lines().last().unwrap_or_default();
    let day = 86_400_000;
    text.replace(line, &format!("local function clock(args) return tonumber(table.remove(args)), {day}, {day} end"))
}

fn compact_limit(limit: &Limit) -> String {
    let (count, period, options) = limit.rule().numbers();
    let name = limit.rule().name();
    // Each algorithm takes at most one of these.
    let option = match limit.rule().takes() {
        AlgorithmOptions { burst: true, .. } => options.burst.unwrap_or(count).to_string(),
        AlgorithmOptions { grain: true, .. } => options.grain.map_or(1, Micros::get).to_string(),
        AlgorithmOptions { resolution: true, .. } => options.resolution.unwrap_or_default().get().to_string(),
        AlgorithmOptions { factor: true, .. } => options.factor.unwrap_or_default().to_string(),
        _ => u8::from(options.align == Some(Alignment::Clock)).to_string(),
    };
    let spacing = limit.spacing().unwrap_or_default().get();
    format!(r#"["{name}",{count},{},{option},{spacing},"{}"]"#, period.get(), tag(limit))
}

/// Returns the name under which the record of a limit is stored: a part of the SHA-1 of its id, followed by the
/// letter of its algorithm if the id does not contain the algorithm.
pub fn tag(limit: &Limit) -> String {
    let mut tag = sha1_smol::Sha1::from(limit.id().as_str()).digest().to_string();
    tag.truncate(8);
    if limit.given_name().is_some() {
        tag.push(letter(limit.rule().name()));
    }
    tag
}

/// Returns the letter of an algorithm; each algorithm has its own.
fn letter(algorithm: &str) -> char {
    let place = ALGORITHMS.iter().position(|listed| listed.name == algorithm).unwrap_or_default();
    char::from(b'a' + u8::try_from(place).unwrap_or_default())
}

fn in_text() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().filter(|listed| listed.takes.in_text).map(|listed| listed.name)
}

/// Returns the code that every call with these algorithms needs.
fn base(algorithms: &[&str]) -> String {
    let mut text = [BIND, UNITS, SPACING, FIELDS].concat();
    let used: Vec<_> = ALGORITHMS.iter().filter(|listed| algorithms.contains(&listed.name)).collect();
    if used.iter().any(|listed| listed.has_log) {
        text += RING;
        text += LOG;
        text += CHUNKS;
    }
    used.iter().for_each(|listed| text += listed.lua);
    text + COMBINE + ANSWERS + ENVELOPE + CLOCK
}

/// Returns the Lua tables of the algorithms and of their letters, by name.
fn registry(algorithms: &[&str]) -> String {
    let (mut tables, mut letters) = (String::new(), String::new());
    for name in algorithms {
        let _ = write!(tables, "{name} = {name}, ");
        let _ = write!(letters, "{name} = '{}', ", letter(name));
    }
    format!("local algorithms = {{ {tables}}}\nlocal letters = {{ {letters}}}\n")
}

fn write_native(call: &LuaCall, algorithms: &[&str]) -> String {
    let mut text = format!("-- tollgate: {} {}\n", call.name, call.usage);
    text += &base(algorithms);
    text += &registry(algorithms);
    if algorithms.len() == in_text().count() {
        text += PARSE;
    }
    text += COMPILE;
    text += call.file;
    let _ = writeln!(text, "bind()\nreturn answer({}, KEYS, ARGV)", call.name);
    text
}

fn write_library(names: LuaNaming) -> String {
    let all: Vec<&str> = ALGORITHMS.iter().map(|listed| listed.name).collect();
    let mut text = format!("#!lua name={}\n", names.library());
    text += &base(&all);
    text += &registry(&in_text().collect::<Vec<_>>());
    text += PARSE;
    text += COMPILE;
    text += "local function register(name, run, flags)\n  redis.register_function({\n    function_name = name, \
             flags = flags,\n    callback = function(keys, args)\n      if not call then bind() end\n      return answer(run, keys, args)\n    end,\n  })\nend\n";
    let mut loaded: Vec<&str> = Vec::new();
    let mut take = |text: &mut String, file: &'static str| {
        if !loaded.contains(&file) {
            loaded.push(file);
            *text += file;
        }
    };
    for call in CALLS {
        take(&mut text, call.file);
        let flags = match call.name {
            _ if call.reads_only => "{ 'no-writes' }",
            // A reset frees memory.
            "tollgate_reset" => "{ 'allow-oom' }",
            _ => "{}",
        };
        let _ = writeln!(text, "register('{}', {}, {flags})", names.function(call.name), call.name);
    }
    take(&mut text, ARGUMENTS_LUA);
    for Dialect { name, lua, .. } in DIALECTS {
        let Some(lua) = lua else { continue };
        lua.files.iter().for_each(|file| take(&mut text, file));
        let _ = writeln!(text, "register('{}', {}, {{}})", names.function(name), lua.run);
    }
    text
}
