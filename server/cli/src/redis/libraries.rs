//! Tollgate's function libraries on a server: their functions, and whether they are installed.

use redis::Value;
use tollgate_redis::lua::{CALLS, LuaNaming};

use super::NameConflict;
use crate::server::value::{entry, items, text};
use crate::server::{ServerConnection, ServerError};

/// Both libraries, in the order of the output.
pub(crate) const BOTH: [LuaNaming; 2] = [LuaNaming::Plain, LuaNaming::Versioned];

/// How a library on a server compares with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LibraryState {
    /// The same text, to the byte.
    Current,
    /// Another text under the same name.
    Different,
    /// No library of that name.
    Missing,
}

/// Returns the names of a library's functions.
pub(crate) fn functions(names: LuaNaming) -> Vec<String> {
    let calls = CALLS.iter().map(|call| call.name);
    let dialects = tollgate_dialects::DIALECTS.iter().filter(|dialect| dialect.lua.is_some());
    calls.chain(dialects.map(|dialect| dialect.name)).map(|name| names.function(name)).collect()
}

/// Compares the library on a server with ours.
pub(crate) fn compare(connection: &mut ServerConnection, names: LuaNaming) -> Result<LibraryState, ServerError> {
    let listed = connection.ask(&["FUNCTION", "LIST", "LIBRARYNAME", &names.library(), "WITHCODE"])?;
    let Some(library) = items(&listed).first() else { return Ok(LibraryState::Missing) };
    let code = entry(library, "library_code").and_then(text);
    Ok(if code.as_deref() == Some(tollgate_redis::lua::library(names)) {
        LibraryState::Current
    } else {
        LibraryState::Different
    })
}

/// Returns the other libraries that have functions with names of this one.
pub(crate) fn conflicts(connection: &mut ServerConnection, names: LuaNaming) -> Result<Vec<NameConflict>, ServerError> {
    let ours = functions(names);
    let listed = connection.ask(&["FUNCTION", "LIST"])?;
    let node = connection.place().to_owned();
    let holds = |library: &Value| {
        let name = entry(library, "library_name").and_then(text)?;
        let held = entry(library, "functions").map(items).unwrap_or_default();
        let held = held.iter().filter_map(|function| entry(function, "name").and_then(text));
        let functions: Vec<String> = held.filter(|function| ours.contains(function)).collect();
        let others = name != names.library() && !functions.is_empty();
        others.then(|| NameConflict { node: node.clone(), library: name, functions })
    };
    Ok(items(&listed).iter().filter_map(holds).collect())
}

/// Loads the library, replacing the one of the same name.
pub(crate) fn load(connection: &mut ServerConnection, names: LuaNaming) -> Result<(), ServerError> {
    connection.ask(&["FUNCTION", "LOAD", "REPLACE", tollgate_redis::lua::library(names)]).map(|_| ())
}
