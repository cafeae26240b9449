//! Every command: its name, number of arguments, scope and handler.

use super::{
    Args, Asked, Turn, client, command, config, dialects, expire, functions, hello, info, keys, scripts, server, tg,
};
use crate::access::Scope;
use tollgate_keyspace::Keys;
use tollgate_keyspace::{Fault, shown};

/// A command.
pub(crate) struct Command {
    /// Its name, in capitals; `CLIENT|ID` for a subcommand.
    pub(crate) name: &'static str,
    /// The number of arguments, including its name; if negative, the least number.
    pub(crate) arity: i32,
    /// Its syntax, for errors and COMMAND DOCS.
    pub(crate) usage: &'static str,
    /// The scope that a connection needs to run it; `None` if it needs none.
    pub(crate) scope: Option<Scope>,
    /// Its handler.
    pub(crate) run: Run,
    /// The first key, the last and the step between, counted as Redis does; zeros if it has none.
    pub(crate) keys: (i32, i32, i32),
    /// Its subcommands, chosen by the second word.
    pub(crate) parts: &'static [Self],
}

/// The handler of a command.
pub(crate) enum Run {
    /// Answers from the connection and the server alone.
    Plain(fn(&mut Turn<'_>) -> Result<(), Fault>),
    /// Answers from the keys, which are locked meanwhile.
    Keys(fn(&mut Turn<'_>, &mut Keys) -> Result<(), Fault>),
    /// Reports on the keys, even where this server holds none.
    Look(fn(&mut Turn<'_>, &mut Keys) -> Result<(), Fault>),
    /// Asks the home.
    Ask(fn(&mut Turn<'_>) -> Result<Asked, Fault>),
    /// The connection itself runs the queued commands.
    Exec,
}

impl Command {
    /// Returns whether it is run between MULTI and EXEC instead of being queued.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.name, "EXEC" | "DISCARD" | "MULTI" | "WATCH" | "RESET" | "QUIT")
    }

    /// Returns whether it may touch keys of this server. Tollgate's own commands ask about policies alone; what a
    /// function or a script asks about is known only when its arguments are parsed.
    pub(crate) fn may_touch_keys(&self) -> bool {
        match self.run {
            Run::Keys(_) | Run::Look(_) => true,
            Run::Ask(_) => !self.name.starts_with("TG."),
            Run::Plain(_) | Run::Exec => false,
        }
    }

    /// Returns the subcommand of that name, in either case.
    pub(crate) fn part(&self, word: &[u8]) -> Option<&'static Self> {
        self.parts.iter().find(|part| part.word().as_bytes().eq_ignore_ascii_case(word))
    }

    /// Returns the word that names it: its own name, or a subcommand's second word.
    pub(crate) fn word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Returns whether it takes that number of arguments, including its name.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}

pub(super) const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
pub(super) const NONE: (i32, i32, i32) = (0, 0, 0);
const CHECK: Option<Scope> = Some(Scope::Check);

pub(super) const fn line(
    name: &'static str,
    arity: i32,
    usage: &'static str,
    scope: Option<Scope>,
    keys: (i32, i32, i32),
    run: Run,
) -> Command {
    Command { name, arity, usage, scope, run, keys, parts: &[] }
}

/// Returns a command whose second word chooses one of `parts`, which says how it is run.
const fn parts(name: &'static str, usage: &'static str, parts: &'static [Command]) -> Command {
    Command { parts, ..line(name, -2, usage, None, NONE, Run::Plain(command::help)) }
}

/// All commands.
pub(crate) static COMMANDS: &[Command] = &[
    line(
        "TG.CHECK",
        -3,
        "TG.CHECK key policy [COST n] [MODE m] [NAME word] [REST|FULL] [SOURCE]",
        Some(Scope::Check),
        ONE,
        Run::Ask(tg::check),
    ),
    line(
        "TG.PEEK",
        -3,
        "TG.PEEK key policy [COST n] [MODE m] [NAME word] [REST|FULL] [SOURCE]",
        Some(Scope::Check),
        ONE,
        Run::Ask(tg::peek),
    ),
    line("TG.RESET", -3, "TG.RESET key policy [NAME word]", Some(Scope::Reset), ONE, Run::Ask(tg::reset)),
    line("TG.REFUND", -5, "TG.REFUND key policy n at_us [NAME word]", Some(Scope::Refund), ONE, Run::Ask(tg::refund)),
    line(
        "TG.EXPLAIN",
        -3,
        "TG.EXPLAIN key policy [COST n] [MODE m] [NAME word]",
        Some(Scope::Read),
        ONE,
        Run::Ask(tg::explain),
    ),
    line("TG.USAGE", 3, "TG.USAGE key policy", Some(Scope::Read), ONE, Run::Plain(tg::usage)),
    line(
        "TG.CHECKALL",
        -3,
        "TG.CHECKALL key policy [COST n] [NAME word] [AND key policy …]",
        Some(Scope::Check),
        ONE,
        Run::Ask(tg::check_all),
    ),
    line("GET", 2, "GET key", CHECK, ONE, Run::Keys(keys::get)),
    line(
        "SET",
        -3,
        "SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL]",
        CHECK,
        ONE,
        Run::Keys(keys::set),
    ),
    line("INCR", 2, "INCR key", CHECK, ONE, Run::Keys(keys::incr)),
    line("INCRBY", 3, "INCRBY key n", CHECK, ONE, Run::Keys(keys::incr_by)),
    line("DECR", 2, "DECR key", CHECK, ONE, Run::Keys(keys::decr)),
    line("DECRBY", 3, "DECRBY key n", CHECK, ONE, Run::Keys(keys::decr_by)),
    line("EXPIRE", -3, "EXPIRE key seconds [NX|XX|GT|LT]", CHECK, ONE, Run::Keys(expire::expire)),
    line("PEXPIRE", -3, "PEXPIRE key ms [NX|XX|GT|LT]", CHECK, ONE, Run::Keys(expire::pexpire)),
    line("EXPIREAT", -3, "EXPIREAT key unix-seconds [NX|XX|GT|LT]", CHECK, ONE, Run::Keys(expire::expire_at)),
    line("PEXPIREAT", -3, "PEXPIREAT key unix-ms [NX|XX|GT|LT]", CHECK, ONE, Run::Keys(expire::pexpire_at)),
    line("TTL", 2, "TTL key", CHECK, ONE, Run::Keys(expire::ttl)),
    line("PTTL", 2, "PTTL key", CHECK, ONE, Run::Keys(expire::pttl)),
    line("EXISTS", -2, "EXISTS key…", CHECK, ALL, Run::Keys(keys::exists)),
    line("DEL", -2, "DEL key…", CHECK, ALL, Run::Keys(keys::del)),
    line("UNLINK", -2, "UNLINK key…", CHECK, ALL, Run::Keys(keys::del)),
    line("TYPE", 2, "TYPE key", CHECK, ONE, Run::Keys(keys::kind)),
    line("HGET", 3, "HGET key field", CHECK, ONE, Run::Keys(keys::hget)),
    line("HGETALL", 2, "HGETALL key", CHECK, ONE, Run::Keys(keys::hget_all)),
    line(
        "SCAN",
        -2,
        "SCAN cursor [MATCH pattern] [COUNT n] [TYPE word]",
        Some(Scope::Read),
        NONE,
        Run::Keys(keys::scan),
    ),
    line("DBSIZE", 1, "DBSIZE", Some(Scope::Read), NONE, Run::Keys(keys::db_size)),
    line("FLUSHDB", -1, "FLUSHDB [ASYNC|SYNC]", Some(Scope::Reset), NONE, Run::Keys(keys::flush_db)),
    line("FLUSHALL", -1, "FLUSHALL [ASYNC|SYNC]", Some(Scope::Reset), NONE, Run::Keys(keys::flush_all)),
    line("KEYS", 2, "SCAN 0 MATCH pattern", CHECK, NONE, Run::Plain(keys::all)),
    line("WATCH", -2, "MULTI … EXEC", CHECK, ALL, Run::Plain(keys::watch)),
    line("UNWATCH", 1, "UNWATCH", CHECK, NONE, Run::Plain(keys::unwatch)),
    line(
        "CL.THROTTLE",
        -5,
        "CL.THROTTLE key max_burst count period [quantity]",
        CHECK,
        ONE,
        Run::Ask(dialects::throttle),
    ),
    line("FCALL", -3, "FCALL function numkeys key… arg…", CHECK, NONE, Run::Ask(dialects::fcall)),
    line("FCALL_RO", -3, "FCALL_RO function numkeys key… arg…", CHECK, NONE, Run::Ask(dialects::fcall_ro)),
    line("EVAL", -3, "EVAL script numkeys key… arg…", CHECK, NONE, Run::Ask(scripts::eval)),
    line("EVAL_RO", -3, "EVAL_RO script numkeys key… arg…", CHECK, NONE, Run::Ask(scripts::eval_ro)),
    line("EVALSHA", -3, "EVALSHA sha1 numkeys key… arg…", CHECK, NONE, Run::Ask(scripts::evalsha)),
    line("EVALSHA_RO", -3, "EVALSHA_RO sha1 numkeys key… arg…", CHECK, NONE, Run::Ask(scripts::evalsha_ro)),
    line("SCRIPT", -2, "SCRIPT LOAD text | EXISTS sha1… | FLUSH", CHECK, NONE, Run::Plain(scripts::script)),
    line(
        "FUNCTION",
        -2,
        "FUNCTION LOAD [REPLACE] text | LIST [LIBRARYNAME pattern] [WITHCODE] | DELETE library | FLUSH",
        CHECK,
        NONE,
        Run::Plain(functions::function),
    ),
    line("HELLO", -1, "HELLO [2|3 [AUTH name token] [SETNAME name]]", None, NONE, Run::Plain(hello::hello)),
    line("AUTH", -2, "AUTH [name] token", None, NONE, Run::Plain(hello::auth)),
    line("RESET", 1, "RESET", None, NONE, Run::Plain(hello::reset)),
    line("SELECT", 2, "SELECT db", None, NONE, Run::Plain(hello::select)),
    parts("CLIENT", "CLIENT ID|INFO|LIST|SETNAME|… [word …]", client::PARTS),
    Command {
        parts: command::PARTS,
        ..line("COMMAND", -1, "COMMAND [COUNT|DOCS|INFO|LIST|GETKEYS [word …]]", None, NONE, Run::Plain(command::all))
    },
    parts("CONFIG", "CONFIG GET pattern [pattern …]", config::PARTS),
    parts("CLUSTER", "CLUSTER INFO|SLOTS|SHARDS|NODES|MYID", server::CLUSTER),
    line("INFO", -1, "INFO [section …]", Some(Scope::Read), NONE, Run::Look(info::info)),
    line("ROLE", 1, "ROLE", Some(Scope::Read), NONE, Run::Plain(server::role)),
    line("PING", -1, "PING [text]", None, NONE, Run::Plain(client::ping)),
    line("ECHO", 2, "ECHO text", None, NONE, Run::Plain(client::echo)),
    line("QUIT", -1, "QUIT", None, NONE, Run::Plain(client::quit)),
    line("MULTI", 1, "MULTI", Some(Scope::Check), NONE, Run::Plain(client::multi)),
    line("DISCARD", 1, "DISCARD", Some(Scope::Check), NONE, Run::Plain(client::discard)),
    line("EXEC", 1, "EXEC", Some(Scope::Check), NONE, Run::Exec),
    line("TIME", 1, "TIME", Some(Scope::Check), NONE, Run::Plain(server::time)),
];

/// Returns the command of that name, in either case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns every command and every subcommand.
#[cfg(test)]
pub(crate) fn every() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.parts))
}

/// Returns the error of a name that is not a command.
pub(crate) fn unknown(args: &Args<'_>) -> Fault {
    let shown_args: String = args.iter().skip(1).take(3).map(|arg| format!("'{}' ", shown(arg))).collect();
    let name = shown(args.at(0));
    Fault::wrong(format!(
        "unknown command '{name}', with args beginning with: {shown_args}; COMMAND LIST tells those that are known"
    ))
}

/// Returns the error of a second word that is not a subcommand.
pub(crate) fn unknown_part(command: &Command, word: &[u8]) -> Fault {
    let known: Vec<&str> = command.parts.iter().map(Command::word).collect();
    let name = command.name;
    Fault::wrong(format!("unknown subcommand '{}'. Try {name} HELP. Expected one of {}", shown(word), known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_their_columns_say() {
        for command in every() {
            let name = command.name;
            assert_eq!(name, name.to_ascii_uppercase());
            assert!(command.arity != 0, "{name}");
            assert_eq!(find(name.as_bytes()).is_some(), !name.contains('|'), "{name}");
        }
        let mut names: Vec<&str> = every().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), every().count());
    }
}
