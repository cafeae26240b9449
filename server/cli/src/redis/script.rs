//! `tollgate redis script` and `compact`: the Lua and the policies, to be sent by hand or by other clients.

use clap::Args;
use serde::Serialize;
use tollgate_redis::lua::{CALLS, LuaNaming, LuaScript, VERSION};

use crate::error::CliError;
use crate::policy::{self, ModeArg};
use crate::text;

const EXAMPLES: &str = "\
Examples:
  tollgate redis script
  tollgate redis script tollgate > tollgate.lua
  redis-cli --eval tollgate.lua 'tg:{user:42}' , 100/min
  tollgate redis script tollgate --policy \"10/s gcra\" > smaller.lua
  redis-cli --eval smaller.lua 'tg:{user:42}' , \"$(tollgate redis compact '10/s gcra')\"
  tollgate redis script library | redis-cli -x FUNCTION LOAD REPLACE

A script of --policy holds only that policy's algorithms, which makes a call of
it cheaper; it takes policies in the form that tollgate redis compact prints.
Exit code: 0 done, 2 error.";

const KEYS: &str = "\
KEY of a tollgate call is tg:{KEY}NAME: { } and % of the key are written %7B
%7D %25, NAME is the policy's name, mostly empty. With --json: their SHA-1.
";

const COMPACT: &str = "\
Examples:
  tollgate redis compact \"100/min, 1000/h\"

Every call takes the policy as text or in this form, which is read faster.
Exit code: 0 done, 2 error.";

/// What `tollgate redis script` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScriptArgs {
    /// A call, a dialect, or library; without it, the list of them
    name: Option<String>,

    /// Only what this policy needs; for calls
    #[arg(long, requires = "name")]
    policy: Option<String>,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What `tollgate redis compact` takes.
#[derive(Args, Debug)]
#[command(after_help = COMPACT)]
pub(crate) struct CompactArgs {
    /// A policy such as "100/min, 1000/h"
    policy: String,
}

/// A script that can be printed.
#[derive(Serialize)]
pub(super) struct NamedScript {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) sha: String,
    #[serde(skip)]
    pub(super) text: String,
}

/// Returns the script of every call and of every dialect that has one.
pub(super) fn all() -> Vec<NamedScript> {
    let calls = CALLS.iter().map(|call| (call.name, call.usage));
    let dialects = tollgate_dialects::DIALECTS.iter().map(|dialect| (dialect.name, dialect.usage));
    let listed = |(name, usage)| {
        let LuaScript { text, sha } = standalone(name)?;
        Some(NamedScript { name, usage, sha, text })
    };
    calls.chain(dialects).filter_map(listed).collect()
}

/// Returns the standalone script of a call or a dialect.
pub(crate) fn standalone(name: &str) -> Option<LuaScript> {
    let call = tollgate_redis::lua::whole_script(name).map(|script| (*script).clone());
    call.or_else(|| tollgate_redis::lua::dialect_script(name))
}

/// Runs `tollgate redis script`.
pub(crate) fn run(args: &ScriptArgs) -> Result<String, CliError> {
    let Some(name) = &args.name else {
        return Ok(if args.json { list_json() } else { list() });
    };
    let (text, sha) = script_text(name, args.policy.as_deref())?;
    if !args.json {
        return Ok(text);
    }
    Ok(format!("{}\n", serde_json::json!({ "name": name, "sha": sha, "text": text })))
}

/// Runs `tollgate redis compact`.
pub(crate) fn compact(args: &CompactArgs) -> Result<String, CliError> {
    let policy = policy::parse(&args.policy, ModeArg::default())?;
    Ok(tollgate_redis::lua::compact(&policy) + "\n")
}

/// Returns the text, and its SHA-1 if it is a script.
fn script_text(name: &str, policy: Option<&str>) -> Result<(String, Option<String>), CliError> {
    let unknown = |expected| CliError::Argument { what: "script", found: name.to_owned(), expected };
    let library = match name.strip_prefix("library") {
        Some("") => Some(LuaNaming::Plain),
        Some(suffix) if suffix == VERSION => Some(LuaNaming::Versioned),
        _ => None,
    };
    let script = match (library, policy) {
        (Some(names), None) => return Ok((tollgate_redis::lua::library(names).to_owned(), None)),
        (None, None) => standalone(name),
        (_, Some(policy)) => {
            let policy = policy::parse(policy, ModeArg::default())?;
            let script = tollgate_redis::lua::script(name, &tollgate_redis::lua::algorithms(&policy));
            let script = script.ok_or_else(|| unknown("with --policy, a call such as tollgate or tollgate_peek"))?;
            Some((*script).clone())
        }
    };
    let script = script.ok_or_else(|| unknown("a name that tollgate redis script lists"))?;
    Ok((script.text, Some(script.sha)))
}

fn list() -> String {
    let row = |name: &str, usage: &str| text::hanging(&format!("  {name:<15}  "), usage);
    let mut lines = row("name", "keys and arguments");
    all().iter().for_each(|script| lines += &row(script.name, script.usage));
    lines += &row("library", "all of them as functions, for FUNCTION LOAD");
    let same = format!("the same, their names ending in {VERSION}, as the store calls them");
    lines += &row(&format!("library{VERSION}"), &same);
    lines + "\n" + KEYS
}

fn list_json() -> String {
    #[derive(Serialize)]
    struct ScriptListDocument {
        scripts: Vec<NamedScript>,
    }
    text::json(&ScriptListDocument { scripts: all() })
}
