//! FUNCTION: the libraries that this server knows, loaded and listed as in Redis.

use super::dialects::Does;
use super::known::{Library, unknown};
use super::{Turn, lacking};
use crate::access::Scope;
use tollgate_kernel::matches;
use tollgate_keyspace::{Fault, quoted};

/// Returns the function that FCALL names.
pub(super) fn find(turn: &Turn<'_>) -> Result<Does, Fault> {
    let does = turn.shared.scripts.function(turn.args.at(1));
    does.ok_or_else(|| Fault::wrong("Function not found"))
}

/// `FUNCTION LOAD|LIST|DELETE|FLUSH`.
pub(super) fn function(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let args = turn.args;
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3..) => load(turn),
        (b"LIST", 2..) => list(turn),
        (b"DELETE", 3) => delete(turn),
        (b"FLUSH", 2) => flush(turn),
        (b"FLUSH", 3) if args.is(2, "ASYNC") || args.is(2, "SYNC") => flush(turn),
        (b"FLUSH", _) => Err(Fault::wrong("FUNCTION FLUSH only supports SYNC|ASYNC option")),
        (b"LOAD" | b"DELETE", _) => {
            let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
            Err(Fault::wrong(format!("wrong number of arguments for 'function|{name}' command")))
        }
        _ => {
            let known = "LOAD, LIST, DELETE or FLUSH";
            Err(Fault::wrong(format!("unknown subcommand {}. Expected FUNCTION {known}", quoted(args.at(1)))))
        }
    }
}

/// `FUNCTION LOAD [REPLACE] text`.
fn load(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let last = turn.args.len() - 1;
    for at in 2..last {
        if !turn.args.is(at, "REPLACE") {
            return Err(Fault::wrong(format!("Unknown option given: {}", quoted(turn.args.at(at)))));
        }
    }
    let text = std::str::from_utf8(turn.args.at(last)).ok();
    let library = text.and_then(|text| Some((Library::of(text)?, text)));
    let (library, text) = library.ok_or_else(|| unknown("in a library of another text"))?;
    if !turn.shared.scripts.load_library(library, text, last > 2) {
        return Err(Fault::wrong(format!("Library '{}' already exists", library.name())));
    }
    turn.out.bulk(library.name().as_bytes());
    Ok(())
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`.
fn list(turn: &mut Turn<'_>) -> Result<(), Fault> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < turn.args.len() {
        if !with_code && turn.args.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && turn.args.is(at, "LIBRARYNAME") {
            at += 1;
            let given = turn.args.get(at).filter(|pattern| pattern.len() <= 256);
            pattern = Some(given.ok_or_else(|| Fault::wrong("library name argument was not given"))?);
        } else {
            return Err(Fault::wrong(format!("Unknown argument {}", quoted(turn.args.at(at)))));
        }
        at += 1;
    }
    let mut libraries = turn.shared.scripts.libraries();
    libraries.retain(|(library, _)| pattern.is_none_or(|pattern| matches(pattern, library.name().as_bytes(), &mut 0)));
    turn.out.array(libraries.len());
    for (library, text) in libraries {
        describe(turn, library, with_code.then_some(&text));
    }
    Ok(())
}

fn describe(turn: &mut Turn<'_>, library: Library, text: Option<&str>) {
    let out = &mut *turn.out;
    out.map(3 + usize::from(text.is_some()));
    out.bulk(b"library_name");
    out.bulk(library.name().as_bytes());
    out.bulk(b"engine");
    out.bulk(b"LUA");
    out.bulk(b"functions");
    let functions = library.functions();
    out.array(functions.len());
    for (name, flags) in functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(name.as_bytes());
        out.bulk(b"description");
        out.nil();
        out.bulk(b"flags");
        out.set(flags.len());
        flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    }
    if let Some(text) = text {
        out.bulk(b"library_code");
        out.bulk(text.as_bytes());
    }
}

/// `FUNCTION DELETE library`: its functions are not found any more.
fn delete(turn: &mut Turn<'_>) -> Result<(), Fault> {
    need_admin(turn)?;
    let library = Library::ALL.into_iter().find(|library| library.name().as_bytes() == turn.args.at(2));
    if !library.is_some_and(|library| turn.shared.scripts.delete_library(library)) {
        return Err(Fault::wrong("Library not found"));
    }
    turn.out.simple("OK");
    Ok(())
}

/// `FUNCTION FLUSH`: deletes all libraries.
fn flush(turn: &mut Turn<'_>) -> Result<(), Fault> {
    need_admin(turn)?;
    for library in Library::ALL {
        turn.shared.scripts.delete_library(library);
    }
    turn.out.simple("OK");
    Ok(())
}

fn need_admin(turn: &Turn<'_>) -> Result<(), Fault> {
    if turn.session.scopes.has(Scope::Admin) { Ok(()) } else { Err(lacking(Scope::Admin.name(), turn.session)) }
}
