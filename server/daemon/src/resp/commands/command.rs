//! COMMAND and its subcommands, answered from the table.

use super::docs;
use super::table::{COMMANDS, CommandHandler::Plain, NONE, RespCommand, find, line};
use super::{CommandContext, SYNTAX};
use crate::access::Scope;
use crate::resp::writer::RespWriter;
use tollgate_kernel::matches;
use tollgate_keyspace::Fault;

/// The subcommands of COMMAND.
pub(super) static PARTS: &[RespCommand] = &[
    line("COMMAND|COUNT", 2, "COMMAND COUNT", None, NONE, Plain(count)),
    line("COMMAND|DOCS", -2, "COMMAND DOCS [command …]", None, NONE, Plain(docs::docs)),
    line("COMMAND|INFO", -2, "COMMAND INFO [command …]", None, NONE, Plain(some)),
    line("COMMAND|LIST", -2, "COMMAND LIST [FILTERBY MODULE|ACLCAT|PATTERN word]", None, NONE, Plain(list)),
    line("COMMAND|GETKEYS", -3, "COMMAND GETKEYS command [word …]", None, NONE, Plain(keys)),
    line("COMMAND|HELP", 2, "COMMAND HELP", None, NONE, Plain(help)),
];

/// Replies with the subcommands of a command, one a line.
pub(super) fn help(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let Some(command) = find(ctx.args.at(0)) else { return Err(Fault::wrong(SYNTAX)) };
    ctx.out.array(1 + command.parts.len());
    ctx.out.simple(&format!("{} <subcommand> [<arg> ...]. Subcommands are:", command.name));
    command.parts.iter().for_each(|part| ctx.out.simple(part.usage));
    Ok(())
}

/// COMMAND without arguments.
pub(super) fn all(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| write_command(command, ctx.out));
    Ok(())
}

fn count(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    ctx.out.int(COMMANDS.len() as i64);
    Ok(())
}

fn some(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    if ctx.args.len() == 2 {
        return all(ctx);
    }
    ctx.out.array(ctx.args.len() - 2);
    for name in ctx.args.iter().skip(2) {
        match named(name) {
            Some(command) => write_command(command, ctx.out),
            None => ctx.out.nil(),
        }
    }
    Ok(())
}

/// Returns a command, or a subcommand such as `client|id`.
pub(super) fn named(name: &[u8]) -> Option<&'static RespCommand> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(end) => find(&name[..end])?.part(&name[end + 1..]),
        None => find(name),
    }
}

/// Writes a command as Redis describes it.
fn write_command(command: &RespCommand, out: &mut RespWriter) {
    let name = command.name.to_ascii_lowercase();
    let (first, last, step) = command.keys;
    out.array(10);
    out.bulk(name.as_bytes());
    out.int(i64::from(command.arity));
    words(&flags(command), out);
    [first, last, step].into_iter().for_each(|number| out.int(i64::from(number)));
    words(&categories(command), out);
    out.set(0);
    out.set(usize::from(first > 0));
    if first > 0 {
        key_spec(command, out);
    }
    out.set(command.parts.len());
    command.parts.iter().for_each(|part| write_command(part, out));
}

fn words(words: &[&str], out: &mut RespWriter) {
    out.set(words.len());
    words.iter().for_each(|word| out.simple(word));
}

/// Writes the key specification, which repeats the positions of the keys in the newer form.
fn key_spec(command: &RespCommand, out: &mut RespWriter) {
    let (first, last, step) = command.keys;
    let pairs = |out: &mut RespWriter, pairs: &[(&str, i32)]| {
        out.map(pairs.len());
        for (name, number) in pairs {
            out.bulk(name.as_bytes());
            out.int(i64::from(*number));
        }
    };
    out.map(3);
    out.bulk(b"flags");
    words(if reads_only(command) { &["RO", "access"] } else { &["RW", "access", "update"] }, out);
    out.bulk(b"begin_search");
    out.map(2);
    out.bulk(b"type");
    out.bulk(b"index");
    out.bulk(b"spec");
    pairs(out, &[("index", first)]);
    out.bulk(b"find_keys");
    out.map(2);
    out.bulk(b"type");
    out.bulk(b"range");
    out.bulk(b"spec");
    pairs(out, &[("lastkey", if last < 0 { last } else { last - first }), ("keystep", step), ("limit", 0)]);
}

/// Commands of the scope `check` that change nothing.
const READERS: &[&str] =
    &["TG.PEEK", "GET", "TTL", "PTTL", "EXISTS", "TYPE", "SCAN", "HGET", "HGETALL", "DBSIZE", "TIME"];

fn reads_only(command: &RespCommand) -> bool {
    command.scope == Some(Scope::Read) || READERS.contains(&command.name)
}

/// Returns the flags of Redis that correspond to the scope and keys of a command.
fn flags(command: &RespCommand) -> Vec<&'static str> {
    match command.scope {
        None => vec!["loading", "stale", "fast"],
        Some(Scope::Admin) => vec!["admin"],
        Some(_) if reads_only(command) => vec!["readonly", "fast"],
        Some(Scope::Check | Scope::Read) if command.keys.0 == 0 => vec!["fast"],
        Some(_) => vec!["write", "denyoom", "fast"],
    }
}

fn categories(command: &RespCommand) -> Vec<&'static str> {
    match command.scope {
        None => vec!["@fast", "@connection"],
        Some(Scope::Admin) => vec!["@admin", "@dangerous"],
        Some(_) if reads_only(command) => vec!["@read", "@fast"],
        Some(Scope::Check | Scope::Read) if command.keys.0 == 0 => vec!["@fast"],
        Some(_) => vec!["@write", "@fast"],
    }
}

/// `COMMAND LIST [FILTERBY MODULE name|ACLCAT category|PATTERN pattern]`.
fn list(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let args = ctx.args;
    let filter = (args.len() == 5 && args.is(2, "FILTERBY")).then(|| args.at(4));
    let listed = |command: &RespCommand| match filter {
        None => args.len() == 2,
        Some(pattern) if args.is(3, "PATTERN") => {
            matches(&pattern.to_ascii_uppercase(), command.name.as_bytes(), &mut 0)
        }
        Some(category) if args.is(3, "ACLCAT") => {
            categories(command).iter().any(|word| word.as_bytes()[1..].eq_ignore_ascii_case(category))
        }
        // There are no modules.
        Some(_) => false,
    };
    let is_filter = filter.is_some() && ["MODULE", "ACLCAT", "PATTERN"].iter().any(|word| args.is(3, word));
    if args.len() != 2 && !is_filter {
        return Err(Fault::wrong(format!("{SYNTAX}: expected FILTERBY MODULE|ACLCAT|PATTERN word")));
    }
    let names: Vec<String> =
        COMMANDS.iter().filter(|command| listed(command)).map(|command| command.name.to_ascii_lowercase()).collect();
    ctx.out.array(names.len());
    names.iter().for_each(|name| ctx.out.bulk(name.as_bytes()));
    Ok(())
}

/// Replies with the keys of the command that is written behind GETKEYS.
fn keys(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let command = find(ctx.args.at(2)).ok_or_else(|| Fault::wrong("Invalid command specified"))?;
    let count = ctx.args.len() - 2;
    let (first, last, step) = command.keys;
    if first <= 0 || step <= 0 {
        return Err(Fault::wrong("The command has no key arguments"));
    }
    if !command.takes(count) {
        return Err(Fault::wrong("Invalid number of arguments specified for command"));
    }
    let last = if last < 0 { count as i64 + i64::from(last) } else { i64::from(last) };
    let keys: Vec<&[u8]> = (0..count)
        .filter(|place| {
            let place = *place as i64 - i64::from(first);
            place >= 0 && place <= last - i64::from(first) && place % i64::from(step) == 0
        })
        .map(|place| ctx.args.at(2 + place))
        .collect();
    ctx.out.array(keys.len());
    keys.iter().for_each(|key| ctx.out.bulk(key));
    Ok(())
}
