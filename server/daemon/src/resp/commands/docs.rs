//! COMMAND DOCS: each command in a sentence, and its arguments parsed from its usage. redis-cli shows them as hints.

use super::CommandContext;
use super::command::named;
use super::table::{COMMANDS, RespCommand};
use crate::resp::writer::RespWriter;
use tollgate_keyspace::Fault;

/// What commands do, in a sentence. Other commands are described by their usage.
#[rustfmt::skip]
const SUMMARIES: &[(&str, &str)] = &[
    ("TG.CHECK", "Decides one request on a key under a policy, and charges it if it is allowed"),
    ("TG.PEEK", "Returns what TG.CHECK would decide now; nothing is charged"),
    ("TG.RESET", "Forgets a key under a policy"),
    ("TG.REFUND", "Gives back units that were charged at a time"),
    ("TG.EXPLAIN", "Explains in words what a policy promises and how a key stands"),
    ("TG.USAGE", "Returns what a key used of a policy that keeps usage: requests, refused, units, first and last time"),
    ("TG.CHECKALL", "Decides several keys; all are charged or none"),
    ("HELLO", "Authenticates the connection and chooses RESP2 or RESP3"),
    ("AUTH", "Authenticates the connection by a token"),
    ("RESET", "Resets the connection to its initial state"),
    ("SELECT", "Selects the database of the commands that follow"),
    ("CLIENT", "Reports on or changes the connection"),
    ("COMMAND", "Describes the commands"),
    ("CONFIG", "Returns settings of the server"),
    ("CLUSTER", "Describes this server as a cluster of one node, if it was started with --cluster"),
    ("READONLY", "Accepted in cluster mode: this node is the primary of every slot"),
    ("READWRITE", "Accepted in cluster mode: this node is the primary of every slot"),
    ("ASKING", "Accepted in cluster mode: no slot is on the move"),
    ("INFO", "Returns information about the server in lines of name:value"),
    ("ROLE", "Reports that this server is a master without replicas"),
    ("PING", "Returns PONG, or the given text"),
    ("ECHO", "Returns the given text"),
    ("QUIT", "Closes the connection"),
    ("MULTI", "Begins a transaction"),
    ("EXEC", "Executes the commands of a transaction"),
    ("DISCARD", "Discards a transaction"),
    ("GET", "Returns the value of a key"),
    ("SET", "Sets the value of a key"),
    ("INCR", "Adds one to a key"),
    ("INCRBY", "Adds a number to a key"),
    ("DECR", "Subtracts one from a key"),
    ("DECRBY", "Subtracts a number from a key"),
    ("EXPIRE", "Sets a key's time to live in seconds"),
    ("PEXPIRE", "Sets a key's time to live in milliseconds"),
    ("EXPIREAT", "Sets the time at which a key expires, in seconds since 1970"),
    ("PEXPIREAT", "Sets the time at which a key expires, in milliseconds since 1970"),
    ("TTL", "Returns a key's time to live in seconds"),
    ("PTTL", "Returns a key's time to live in milliseconds"),
    ("EXPIRETIME", "Returns the time at which a key expires, in seconds since 1970"),
    ("PEXPIRETIME", "Returns the time at which a key expires, in milliseconds since 1970"),
    ("EXISTS", "Returns how many of the keys exist"),
    ("DEL", "Deletes keys"),
    ("UNLINK", "Deletes keys"),
    ("TYPE", "Returns the type of the value of a key"),
    ("HGET", "Returns a field of a key"),
    ("HMGET", "Returns fields of a key"),
    ("HKEYS", "Returns the names of the fields of a key"),
    ("HVALS", "Returns the values of the fields of a key"),
    ("HLEN", "Returns the number of fields of a key"),
    ("HEXISTS", "Returns whether a key has a field"),
    ("KEYS", "Returns the keys of a database that match a pattern, if it has at most 10,000"),
    ("TFUNCTION", "Accepts the published library of triggers of redis-limiter, whose work this server does"),
    ("HGETALL", "Returns all fields of a key"),
    ("SCAN", "Iterates over the keys of a database"),
    ("DBSIZE", "Returns the number of keys of a database"),
    ("FLUSHDB", "Deletes the keys of a database"),
    ("FLUSHALL", "Deletes the keys of the database of the connection, as FLUSHDB does"),
    ("CL.THROTTLE", "Decides by a rate and a burst, with the arguments of redis-cell"),
    ("FCALL", "Calls a function of a known limiter"),
    ("EVAL", "Runs a script of a known limiter"),
    ("EVALSHA", "Runs a script of a known limiter by its SHA-1"),
    ("SCRIPT", "Manages the known scripts"),
    ("FUNCTION", "Lists the known functions"),
    ("TIME", "Returns the time of the machine's clock"),
];

/// `COMMAND DOCS [command …]`: unknown names are left out.
pub(super) fn docs(ctx: &mut CommandContext<'_>) -> Result<(), Fault> {
    let asked: Vec<&RespCommand> = match ctx.args.len() {
        2 => COMMANDS.iter().collect(),
        _ => ctx.args.iter().skip(2).filter_map(named).collect(),
    };
    ctx.out.map(asked.len());
    asked.into_iter().for_each(|command| write_command(command, ctx.out));
    Ok(())
}

fn write_command(command: &RespCommand, out: &mut RespWriter) {
    // A usage of another command, or of several in one, has no arguments of its own.
    let usage = command.usage.strip_prefix(&command.name.replace('|', " ")).filter(|usage| !usage.contains(" | "));
    let (arguments, _) = parse_usage(usage.unwrap_or_default());
    let summary = SUMMARIES.iter().find(|(name, _)| *name == command.name).map_or(command.usage, |(_, text)| text);
    let group = if command.name.contains('.') { "module" } else { "generic" };
    let has = |list: usize| usize::from(list > 0);
    out.bulk(command.name.to_ascii_lowercase().as_bytes());
    // A command with subcommands has no arguments of its own.
    let arguments = if command.parts.is_empty() { arguments } else { Vec::new() };
    out.map(3 + has(arguments.len()) + has(command.parts.len()));
    for (field, text) in [("summary", summary), ("since", env!("CARGO_PKG_VERSION")), ("group", group)] {
        out.bulk(field.as_bytes());
        out.bulk(text.as_bytes());
    }
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        out.array(arguments.len());
        arguments.iter().for_each(|argument| argument.write(out));
    }
    if !command.parts.is_empty() {
        out.bulk(b"subcommands");
        out.map(command.parts.len());
        command.parts.iter().for_each(|part| write_command(part, out));
    }
}

/// An argument as Redis describes it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Argument {
    name: String,
    kind: &'static str,
    token: Option<String>,
    optional: bool,
    multiple: bool,
    inner: Vec<Self>,
}

impl Argument {
    /// Parses one word of a usage: `key`, `n`, `REST`, or `REST|FULL`.
    fn word(word: &str) -> Self {
        let choices: Vec<Self> = word.split('|').map(Self::one).collect();
        match <[Self; 1]>::try_from(choices) {
            Ok([one]) => one,
            Err(inner) => Self { name: "choice".to_owned(), kind: "oneof", inner, ..Self::default() },
        }
    }

    fn one(word: &str) -> Self {
        let name = word.to_ascii_lowercase();
        if !word.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Self { name, kind: "pure-token", token: Some(word.to_owned()), ..Self::default() };
        }
        let kind = match word {
            "key" => "key",
            "n" | "at_us" | "id" | "db" | "number" | "seconds" | "milliseconds" | "numkeys" => "integer",
            _ => "string",
        };
        Self { name, kind, ..Self::default() }
    }

    fn write(&self, out: &mut RespWriter) {
        let flags: Vec<&str> = [(self.optional, "optional"), (self.multiple, "multiple")]
            .into_iter()
            .filter_map(|(set, flag)| set.then_some(flag))
            .collect();
        let has = |there: bool| usize::from(there);
        out.map(2 + has(self.token.is_some()) + has(!flags.is_empty()) + has(!self.inner.is_empty()));
        for (field, text) in [("name", self.name.as_str()), ("type", self.kind)] {
            out.bulk(field.as_bytes());
            out.bulk(text.as_bytes());
        }
        if let Some(token) = &self.token {
            out.bulk(b"token");
            out.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            out.bulk(b"flags");
            out.array(flags.len());
            flags.iter().for_each(|flag| out.simple(flag));
        }
        if !self.inner.is_empty() {
            out.bulk(b"arguments");
            out.array(self.inner.len());
            self.inner.iter().for_each(|argument| argument.write(out));
        }
    }
}

/// Parses a usage up to its end or a closing bracket; returns the rest behind that.
fn parse_usage(mut usage: &str) -> (Vec<Argument>, &str) {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut waiting: Option<Argument> = None;
    loop {
        usage = usage.trim_start();
        let next = if let Some(behind) = usage.strip_prefix('[') {
            let (inner, rest) = parse_usage(behind);
            usage = rest;
            group(inner)
        } else if let Some(behind) = usage.strip_prefix(']') {
            arguments.extend(waiting);
            return (arguments, behind);
        } else if let Some(behind) = usage.strip_prefix('…') {
            usage = behind;
            if let Some(last) = arguments.last_mut() {
                last.multiple = true;
            }
            continue;
        } else if usage.is_empty() {
            arguments.extend(waiting);
            return (arguments, usage);
        } else {
            let end = usage.find([' ', '[', ']', '…']).unwrap_or(usage.len());
            let (word, behind) = usage.split_at(end);
            usage = behind;
            Argument::word(word)
        };
        // `COST n`: a token belongs to the value behind it.
        match waiting.take() {
            Some(token) if next.token.is_none() && next.inner.is_empty() && !next.optional => {
                arguments.push(Argument { token: token.token, ..next });
                continue;
            }
            before => arguments.extend(before),
        }
        match next.kind {
            "pure-token" => waiting = Some(next),
            _ => arguments.push(next),
        }
    }
}

/// Returns the arguments between brackets as one optional argument.
fn group(inner: Vec<Argument>) -> Argument {
    match <[Argument; 1]>::try_from(inner) {
        Ok([one]) => Argument { optional: true, ..one },
        Err(mut inner) => {
            // `[key …]` repeats one, `[AND key policy …]` all of them.
            let multiple = inner.last_mut().is_some_and(|last| std::mem::take(&mut last.multiple));
            Argument { name: "group".to_owned(), kind: "block", optional: true, multiple, inner, ..Argument::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arguments: &[Argument]) -> String {
        let word = |argument: &Argument| {
            let inner = if argument.inner.is_empty() { String::new() } else { format!("({})", words(&argument.inner)) };
            let token = argument.token.as_ref().map_or(String::new(), |token| format!("{token}="));
            let marks = [(argument.optional, "?"), (argument.multiple, "*")];
            let marks: String = marks.iter().filter_map(|(set, mark)| set.then_some(*mark)).collect();
            format!("{token}{}:{}{inner}{marks}", argument.name, argument.kind)
        };
        arguments.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn usages_are_read_as_arguments() {
        for (usage, told) in [
            ("", ""),
            ("key policy", "key:key policy:string"),
            ("[COST n] [REST|FULL]", "COST=n:integer? choice:oneof(REST=rest:pure-token FULL=full:pure-token)?"),
            ("[SOURCE]", "SOURCE=source:pure-token?"),
            ("pattern [pattern …]", "pattern:string pattern:string?*"),
            ("[AND key policy …]", "group:block(AND=key:key policy:string)?*"),
            ("ON", "ON=on:pure-token"),
            ("function numkeys key… arg…", "function:string numkeys:integer key:key* arg:string*"),
        ] {
            assert_eq!(words(&parse_usage(usage).0), told, "{usage}");
        }
        for command in COMMANDS {
            assert_eq!(parse_usage(command.usage).1, "", "{}: brackets that do not close", command.usage);
        }
    }
}
