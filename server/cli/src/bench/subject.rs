//! What is measured: a call, its arguments, its keys.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Value;
use tollgate_redis::lua::{Names, Script};

use super::dialects::{MEASURED, first_is_zero};
use crate::error::Error;
use crate::policy::{self, ModeArg};
use crate::redis::libraries::{self, BOTH, Standing};
use crate::server::Fleet;

/// A policy or a dialect.
pub(crate) struct Subject {
    /// The text as given.
    pub(crate) title: String,
    pub(crate) script: Script,
    pub(crate) refuses: fn(&Value) -> bool,
    call: &'static str,
    args: Vec<Arg>,
    naming: Naming,
}

/// An argument after the key.
enum Arg {
    Text(String),
    /// The time, in units of this many microseconds.
    Now(u128),
}

/// The scheme of key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    State,
    Plain,
    Token,
}

/// Whether a function or a script was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Either,
    Function,
    Script,
}

/// Whether a function or a script is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function of this name.
    Function(String),
    Script,
}

impl Subject {
    /// Returns the dialect of that name, or else the policy of the text.
    pub(crate) fn new(what: &str, args: &[String]) -> Result<Self, Error> {
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
            refuses: dialect.refuses,
            call: dialect.name,
            args: args.iter().map(|arg| Arg::read(arg)).collect(),
            naming: if what == "api_counter" { Naming::Token } else { Naming::Plain },
        })
    }

    fn policy(what: &str, args: &[String]) -> Result<Self, Error> {
        let policy = policy::parse(what, ModeArg::default())?;
        let expected = "none: only dialects have them";
        let script = match tollgate_redis::lua::script("tollgate", &tollgate_redis::lua::algorithms(&policy)) {
            Some(script) if args.is_empty() => (*script).clone(),
            _ => return Err(Error::Argument { what: "arguments behind --", found: args.join(" "), expected }),
        };
        Ok(Self {
            title: policy.to_string(),
            script,
            refuses: first_is_zero,
            call: "tollgate",
            args: vec![Arg::Text(tollgate_redis::lua::compact(&policy))],
            naming: Naming::State,
        })
    }

    /// Chooses a function of a library that is current on every primary, if the request allows it, or else the script.
    pub(crate) fn form(&self, fleet: &mut Fleet, wish: Wish) -> Result<Form, Error> {
        if wish == Wish::Script {
            return Ok(Form::Script);
        }
        for names in BOTH.into_iter().rev() {
            if is_everywhere(fleet, names) {
                return Ok(Form::Function(names.function(self.call)));
            }
        }
        match wish {
            Wish::Function => Err(Error::NotInstalled),
            _ => Ok(Form::Script),
        }
    }

    /// Returns the keys of a run.
    pub(crate) fn keys(&self, prefix: &str, count: u64) -> Vec<Vec<u8>> {
        let key = |number: u64| match self.naming {
            Naming::State => format!("tg:{{{prefix}:{number}}}"),
            Naming::Plain => format!("{prefix}:{number}"),
            Naming::Token => format!("{{api:{prefix}:{number}}}"),
        };
        (0..count).map(|number| key(number).into_bytes()).collect()
    }

    /// Returns the names of everything that a key may have left on the server.
    pub(crate) fn names(&self, key: &[u8]) -> Vec<Vec<u8>> {
        if self.naming != Naming::Token {
            return vec![key.to_vec()];
        }
        let minutes = (0..60).map(|minute| format!(":{minute}"));
        minutes.chain([":data".to_owned()]).map(|end| [key, end.as_bytes()].concat()).collect()
    }

    /// Replaces `words` with the words of one call.
    pub(crate) fn words<'a>(&'a self, form: &'a Form, key: &'a [u8], words: &mut Vec<std::borrow::Cow<'a, [u8]>>) {
        words.clear();
        match form {
            Form::Function(name) => words.extend([b"FCALL".as_slice().into(), name.as_bytes().into()]),
            Form::Script => words.extend([b"EVALSHA".as_slice().into(), self.script.sha.as_bytes().into()]),
        }
        words.extend([b"1".as_slice().into(), key.into()]);
        words.extend(self.args.iter().map(|arg| match arg {
            Arg::Text(text) => text.as_bytes().into(),
            Arg::Now(unit) => now(*unit).into_bytes().into(),
        }));
    }
}

impl Form {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Function(_) => "function",
            Self::Script => "script",
        }
    }
}

impl Arg {
    fn read(text: &str) -> Self {
        match text {
            "@now_us" => Self::Now(1),
            "@now_ms" => Self::Now(1_000),
            "@now_s" => Self::Now(1_000_000),
            text => Self::Text(text.to_owned()),
        }
    }
}

fn now(unit: u128) -> String {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() / unit).to_string()
}

fn is_everywhere(fleet: &mut Fleet, names: Names) -> bool {
    let current = |standing| matches!(standing, Ok(Standing::Current));
    fleet.primaries.iter_mut().all(|node| current(libraries::standing(&mut node.wire, names)))
}
