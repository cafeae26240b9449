//! What is measured: a call, its arguments, its keys.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Value;
use tollgate_dialects::Dialect;
use tollgate_redis::lua::{LuaNaming, LuaScript};

use super::dialects::{MEASURED, refuses};
use crate::error::CliError;
use crate::policy::{self, ModeArg};
use crate::redis::libraries::{self, BOTH, LibraryState};
use crate::server::Fleet;

/// A policy or a dialect.
pub(crate) struct BenchSubject {
    /// The text as given.
    pub(crate) title: String,
    pub(crate) script: LuaScript,
    dialect: Option<&'static Dialect>,
    /// The text of the policy; empty for a dialect.
    policy: String,
    call: &'static str,
    args: Vec<BenchArg>,
    naming: KeyNaming,
}

/// An argument after the key.
enum BenchArg {
    Text(String),
    /// The time, in units of this many microseconds.
    Now(u128),
}

/// The scheme of key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyNaming {
    State,
    Plain,
    Token,
}

/// Whether a function or a script was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPreference {
    Either,
    Function,
    Script,
}

/// Whether a command, a function or a script is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// TG.CHECK of a Tollgate server.
    Command,
    /// The function of this name.
    Function(String),
    Script,
}

impl BenchSubject {
    /// Returns the dialect of that name, or else the policy of the text.
    pub(crate) fn new(what: &str, args: &[String]) -> Result<Self, CliError> {
        let dialect = MEASURED.iter().find(|measured| measured.name == what);
        let Some((dialect, script)) =
            dialect.and_then(|dialect| Some((dialect, tollgate_redis::lua::dialect_script(what)?)))
        else {
            return Self::policy(what, args);
        };
        let given: Vec<&str> = args.iter().map(String::as_str).collect();
        let args = if given.is_empty() { dialect.args } else { given.as_slice() };
        Ok(Self {
            title: format!("{what} {}", args.join(" ")),
            script,
            dialect: tollgate_dialects::find(what),
            policy: String::new(),
            call: dialect.name,
            args: args.iter().map(|arg| BenchArg::parse(arg)).collect(),
            naming: if what == "api_counter" { KeyNaming::Token } else { KeyNaming::Plain },
        })
    }

    fn policy(what: &str, args: &[String]) -> Result<Self, CliError> {
        let policy = policy::parse(what, ModeArg::default())?;
        let expected = "none: only dialects have them";
        let script = match tollgate_redis::lua::script("tollgate", &tollgate_redis::lua::algorithms(&policy)) {
            Some(script) if args.is_empty() => (*script).clone(),
            _ => return Err(CliError::Argument { what: "arguments behind --", found: args.join(" "), expected }),
        };
        Ok(Self {
            title: policy.to_string(),
            script,
            dialect: None,
            policy: policy.to_string(),
            call: "tollgate",
            args: vec![BenchArg::Text(tollgate_redis::lua::compact(&policy))],
            naming: KeyNaming::State,
        })
    }

    /// Chooses a function of a library that is current on every primary, if the request allows it, or else the script.
    pub(crate) fn form(&self, fleet: &mut Fleet, preference: CallPreference) -> Result<CallForm, CliError> {
        if preference == CallPreference::Script {
            return Ok(CallForm::Script);
        }
        if fleet.is_tollgate {
            // Such a server has all functions, and for policies a command of its own.
            let is_command = self.dialect.is_none() && preference == CallPreference::Either;
            return Ok(if is_command { CallForm::Command } else { CallForm::Function(self.call.to_owned()) });
        }
        for names in BOTH.into_iter().rev() {
            if is_everywhere(fleet, names) {
                return Ok(CallForm::Function(names.function(self.call)));
            }
        }
        match preference {
            CallPreference::Function => Err(CliError::NotInstalled),
            _ => Ok(CallForm::Script),
        }
    }

    /// Returns whether a reply is a refusal.
    pub(crate) fn refuses(&self, reply: &Value) -> bool {
        refuses(self.dialect, reply)
    }

    /// Returns the keys of a run.
    pub(crate) fn keys(&self, form: &CallForm, prefix: &str, count: u64) -> Vec<Vec<u8>> {
        let key = |number: u64| match self.naming {
            KeyNaming::State if *form != CallForm::Command => format!("tg:{{{prefix}:{number}}}"),
            KeyNaming::State | KeyNaming::Plain => format!("{prefix}:{number}"),
            KeyNaming::Token => format!("{{api:{prefix}:{number}}}"),
        };
        (0..count).map(|number| key(number).into_bytes()).collect()
    }

    /// Returns the command that removes everything that a key may have left on the server.
    pub(crate) fn removal(&self, key: &[u8], is_tollgate: bool) -> Vec<Vec<u8>> {
        if is_tollgate && self.dialect.is_none() {
            // The key within the name of its state.
            let own = key.strip_prefix(b"tg:{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or(key);
            return vec![b"TG.RESET".to_vec(), own.to_vec(), self.policy.clone().into_bytes()];
        }
        let mut words = vec![b"UNLINK".to_vec()];
        words.extend(self.names(key));
        words
    }

    /// Returns the names of everything that a key may have left on the server.
    pub(crate) fn names(&self, key: &[u8]) -> Vec<Vec<u8>> {
        if self.naming != KeyNaming::Token {
            return [Some(key.to_vec()), self.derived_name(key)].into_iter().flatten().collect();
        }
        let minutes = (0..60).map(|minute| format!(":{minute}"));
        minutes.chain([":data".to_owned()]).map(|end| [key, end.as_bytes()].concat()).collect()
    }

    /// Returns the name that a dialect derives from a key for its state.
    fn derived_name(&self, key: &[u8]) -> Option<Vec<u8>> {
        let args: Vec<String> = self.args.iter().map(BenchArg::text).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let call = (self.dialect?.parse)(&[key], &args).ok()?;
        call.state_name().map(<[u8]>::to_vec)
    }

    /// Replaces `words` with the words of one call.
    pub(crate) fn words<'a>(&'a self, form: &'a CallForm, key: &'a [u8], words: &mut Vec<std::borrow::Cow<'a, [u8]>>) {
        words.clear();
        match form {
            CallForm::Command => {
                let call = [b"TG.CHECK".as_slice(), key, self.policy.as_bytes()];
                return words.extend(call.map(std::borrow::Cow::Borrowed));
            }
            CallForm::Function(name) => words.extend([b"FCALL".as_slice().into(), name.as_bytes().into()]),
            CallForm::Script => words.extend([b"EVALSHA".as_slice().into(), self.script.sha.as_bytes().into()]),
        }
        words.extend([b"1".as_slice().into(), key.into()]);
        words.extend(self.args.iter().map(|arg| match arg {
            BenchArg::Text(text) => text.as_bytes().into(),
            BenchArg::Now(unit) => now(*unit).into_bytes().into(),
        }));
    }
}

impl CallForm {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Function(_) => "function",
            Self::Script => "script",
        }
    }
}

impl BenchArg {
    fn parse(text: &str) -> Self {
        match text {
            "@now_us" => Self::Now(1),
            "@now_ms" => Self::Now(1_000),
            "@now_s" => Self::Now(1_000_000),
            text => Self::Text(text.to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Now(unit) => now(*unit),
        }
    }
}

fn now(unit: u128) -> String {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() / unit).to_string()
}

fn is_everywhere(fleet: &mut Fleet, names: LuaNaming) -> bool {
    let current = |state| matches!(state, Ok(LibraryState::Current));
    fleet.primaries.iter_mut().all(|node| current(libraries::compare(&mut node.connection, names)))
}
