//! FUNCTION: the libraries that this server knows, loaded and listed as in Redis. TFUNCTION: the one library of triggers
//! whose work this server does anyway.

use super::forward::forward;
use super::script_registry::Library;
use super::{CommandContext, HomeRequest, missing_scope};
use crate::access::Scope;
use tollgate_kernel::matches;
use tollgate_keyspace::{Fault, quoted};
use tollgate_redis::ForwardedCommand;

/// `FUNCTION LOAD|LIST|DELETE|FLUSH`.
pub(super) fn function(ctx: &mut CommandContext<'_>) -> Result<Option<HomeRequest>, Fault> {
    let args = ctx.args;
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3..) => return load(ctx),
        (b"LIST", 2..) => list(ctx)?,
        (b"DELETE", 3) => delete(ctx)?,
        (b"FLUSH", 2) => flush(ctx)?,
        (b"FLUSH", 3) if args.is(2, "ASYNC") || args.is(2, "SYNC") => flush(ctx)?,
        (b"FLUSH", _) => return Err(Fault::wrong("FUNCTION FLUSH only supports SYNC|ASYNC option")),
        (b"LOAD" | b"DELETE", _) => {
            let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
            return Err(Fault::wrong(format!("wrong number of arguments for 'function|{name}' command")));
        }
        _ => {
            let known = "LOAD, LIST, DELETE or FLUSH";
            return Err(Fault::wrong(format!("unknown subcommand {}. Expected FUNCTION {known}", quoted(args.at(1)))));
        }
    }
    Ok(None)
}

/// `FUNCTION LOAD [REPLACE] text`.
fn load(ctx: &mut CommandContext<'_>) -> Result<Option<HomeRequest>, Fault> {
    let last = ctx.args.len() - 1;
    for at in 2..last {
        if !ctx.args.is(at, "REPLACE") {
            return Err(Fault::wrong(format!("Unknown option given: {}", quoted(ctx.args.at(at)))));
        }
    }
    let text = std::str::from_utf8(ctx.args.at(last)).ok();
    let library = text.and_then(|text| Some((Library::of(text)?, text)));
    let Some((library, text)) = library else {
        let fault = Fault::wrong(
            "this server runs no Lua: expected Tollgate's library or a published revision of rdslim, found another text",
        );
        return Ok(Some(HomeRequest::Forward(Box::new(forward(ctx, ForwardedCommand::Function, &[], fault)?))));
    };
    if !ctx.shared.scripts.load_library(library, text, last > 2) {
        return Err(Fault::wrong(format!("Library '{}' already exists", library.name())));
    }
    ctx.out.bulk(library.name().as_bytes());
    Ok(None)
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`.
fn list(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < ctx.args.len() {
        if !with_code && ctx.args.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && ctx.args.is(at, "LIBRARYNAME") {
            at += 1;
            let given = ctx.args.get(at).filter(|pattern| pattern.len() <= 256);
            pattern = Some(given.ok_or_else(|| Fault::wrong("library name argument was not given"))?);
        } else {
            return Err(Fault::wrong(format!("Unknown argument {}", quoted(ctx.args.at(at)))));
        }
        at += 1;
    }
    let mut libraries = ctx.shared.scripts.libraries();
    libraries.retain(|(library, _)| pattern.is_none_or(|pattern| matches(pattern, library.name().as_bytes(), &mut 0)));
    ctx.out.array(libraries.len());
    for (library, text) in libraries {
        describe(ctx, library, with_code.then_some(&text));
    }
    Ok(())
}

fn describe(ctx: &mut CommandContext<'_>, library: Library, text: Option<&str>) {
    let out = &mut *ctx.out;
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
fn delete(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    need_admin(ctx)?;
    let library = Library::ALL.into_iter().find(|library| library.name().as_bytes() == ctx.args.at(2));
    if !library.is_some_and(|library| ctx.shared.scripts.delete_library(library)) {
        return Err(Fault::wrong("Library not found"));
    }
    ctx.out.simple("OK");
    Ok(())
}

/// `FUNCTION FLUSH`: deletes all libraries.
fn flush(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    need_admin(ctx)?;
    for library in Library::ALL {
        ctx.shared.scripts.delete_library(library);
    }
    ctx.out.simple("OK");
    Ok(())
}

/// `TFUNCTION LOAD [REPLACE] [CONFIG json] text`, `TFUNCTION LIST`, `TFUNCTION DELETE name`.
pub(super) fn triggers(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let args = ctx.args;
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LOAD", 3..) if ctx.shared.scripts.load_triggers(args.at(args.len() - 1)) => ctx.out.simple("OK"),
        (b"LOAD", 3..) => {
            return Err(Fault::wrong(
                "this server runs no JavaScript: expected the published library of redis-limiter, whose usage data it \
                 keeps by itself, found another text",
            ));
        }
        (b"LIST", 2..) => {
            let is_loaded = ctx.shared.scripts.has_triggers();
            ctx.out.array(usize::from(is_loaded));
            if is_loaded {
                ctx.out.map(2);
                for (name, value) in [("name", "limiter"), ("engine", "js")] {
                    ctx.out.bulk(name.as_bytes());
                    ctx.out.bulk(value.as_bytes());
                }
            }
        }
        _ => {
            let known = "LOAD [REPLACE] text or LIST";
            return Err(Fault::wrong(format!("expected TFUNCTION {known}, found {}", quoted(args.at(1)))));
        }
    }
    Ok(())
}

fn need_admin(ctx: &CommandContext<'_>) -> Result<(), Fault> {
    if ctx.session.scopes.has(Scope::Admin) { Ok(()) } else { Err(missing_scope(Scope::Admin.name(), ctx.session)) }
}
