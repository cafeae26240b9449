//! Tollgate's function libraries on a server: their functions, and whether they are installed.

use redis::Value;
use tollgate_redis::lua::{CALLS, Names};

use super::Taken;
use crate::server::value::{entry, items, text};
use crate::server::{Trouble, Wire};

/// Both libraries, in the order of the output.
pub(crate) const BOTH: [Names; 2] = [Names::Plain, Names::Versioned];

/// How a library on a server compares with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The same text, to the byte.
    Current,
    /// Another text under the same name.
    Different,
    /// No library of that name.
    Missing,
}

/// Returns the names of a library's functions.
pub(crate) fn functions(names: Names) -> Vec<String> {
    let calls = CALLS.iter().map(|call| call.name);
    let dialects = tollgate_dialects::DIALECTS.iter().filter(|dialect| dialect.lua.is_some());
    calls.chain(dialects.map(|dialect| dialect.name)).map(|name| names.function(name)).collect()
}

/// Compares the library on a server with ours.
pub(crate) fn standing(wire: &mut Wire, names: Names) -> Result<Standing, Trouble> {
    let listed = wire.ask(&["FUNCTION", "LIST", "LIBRARYNAME", &names.library(), "WITHCODE"])?;
    let Some(library) = items(&listed).first() else { return Ok(Standing::Missing) };
    let code = entry(library, "library_code").and_then(text);
    Ok(if code.as_deref() == Some(tollgate_redis::lua::library(names)) {
        Standing::Current
    } else {
        Standing::Different
    })
}

/// Returns the other libraries that have functions with names of this one.
pub(crate) fn taken(wire: &mut Wire, names: Names) -> Result<Vec<Taken>, Trouble> {
    let ours = functions(names);
    let listed = wire.ask(&["FUNCTION", "LIST"])?;
    let node = wire.place().to_owned();
    let holds = |library: &Value| {
        let name = entry(library, "library_name").and_then(text)?;
        let held = entry(library, "functions").map(items).unwrap_or_default();
        let held = held.iter().filter_map(|function| entry(function, "name").and_then(text));
        let functions: Vec<String> = held.filter(|function| ours.contains(function)).collect();
        let others = name != names.library() && !functions.is_empty();
        others.then(|| Taken { node: node.clone(), library: name, functions })
    };
    Ok(items(&listed).iter().filter_map(holds).collect())
}

/// Loads the library, replacing the one of the same name.
pub(crate) fn load(wire: &mut Wire, names: Names) -> Result<(), Trouble> {
    wire.ask(&["FUNCTION", "LOAD", "REPLACE", tollgate_redis::lua::library(names)]).map(|_| ())
}
