//! Every command: its name, number of arguments, scope and handler.

use super::{
    Args, CommandContext, HomeRequest, client, cluster, command, config, dialects, expire, functions, hello, info,
    keys, scripts, server, tg,
};
use crate::access::Scope;
use crate::resp::writer::RespWriter;
use CommandHandler::{AskHome, Exec, Inspect, MayAsk, OnKeys, Plain};
use tollgate_keyspace::{Fault, KeyCommand, KeyReply, Keyspace, shown};

/// A command.
pub(crate) struct RespCommand {
    /// Its name, in capitals; `CLIENT|ID` for a subcommand.
    pub(crate) name: &'static str,
    /// The number of arguments, including its name; if negative, the least number.
    pub(crate) arity: i32,
    /// Its syntax, for errors and COMMAND DOCS.
    pub(crate) usage: &'static str,
    /// The scope that a connection needs to run it; `None` if it needs none.
    pub(crate) scope: Option<Scope>,
    /// Its handler.
    pub(crate) handler: CommandHandler,
    /// The first key, the last and the step between, counted as Redis does; zeros if it has none.
    pub(crate) keys: (i32, i32, i32),
    /// Its subcommands, chosen by the second word.
    pub(crate) parts: &'static [Self],
}

/// The handler of a command.
pub(crate) enum CommandHandler {
    /// Answers from the connection and the server alone.
    Plain(fn(&mut CommandContext<'_>) -> Result<(), Fault>),
    /// Runs a command on keys, where the keys are.
    OnKeys(KeyHandler),
    /// Reports on the keys, even where this server holds none.
    Inspect(fn(&mut CommandContext<'_>, &mut Keyspace) -> Result<(), Fault>),
    /// Asks the home.
    AskHome(fn(&mut CommandContext<'_>) -> Result<HomeRequest, Fault>),
    /// Answers, or asks the home where it cannot.
    MayAsk(fn(&mut CommandContext<'_>) -> Result<Option<HomeRequest>, Fault>),
    /// The connection itself runs the queued commands.
    Exec,
}

/// How a command on keys is read, and its reply written.
#[derive(Clone, Copy)]
pub(crate) struct KeyHandler {
    pub(crate) parse: for<'a> fn(&Args<'a>) -> Result<KeyCommand<'a>, Fault>,
    pub(crate) tell: fn(KeyReply, &mut RespWriter),
}

impl RespCommand {
    /// Returns whether it is run between MULTI and EXEC instead of being queued.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.name, "EXEC" | "DISCARD" | "MULTI" | "WATCH" | "RESET" | "QUIT")
    }

    /// Returns whether it may touch keys of this server. Tollgate's own commands ask about policies alone; what a
    /// function or a script asks about is known only when its arguments are parsed.
    pub(crate) fn may_touch_keys(&self) -> bool {
        match self.handler {
            OnKeys(_) | Inspect(_) => true,
            AskHome(_) => !self.name.starts_with("TG."),
            Plain(_) | MayAsk(_) | Exec => false,
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
    handler: CommandHandler,
) -> RespCommand {
    RespCommand { name, arity, usage, scope, handler, keys, parts: &[] }
}

/// Returns a command whose second word chooses one of `parts`, which says how it is run.
const fn parts(name: &'static str, usage: &'static str, parts: &'static [RespCommand]) -> RespCommand {
    RespCommand { parts, ..line(name, -2, usage, None, NONE, Plain(command::help)) }
}

/// All commands.
pub(crate) static COMMANDS: &[RespCommand] = &[
    line(
        "TG.CHECK",
        -3,
        "TG.CHECK key policy [COST n] [MODE m] [NAME word] [REST|FULL] [SOURCE]",
        Some(Scope::Check),
        ONE,
        AskHome(tg::check),
    ),
    line(
        "TG.PEEK",
        -3,
        "TG.PEEK key policy [COST n] [MODE m] [NAME word] [REST|FULL] [SOURCE]",
        Some(Scope::Check),
        ONE,
        AskHome(tg::peek),
    ),
    line("TG.RESET", -3, "TG.RESET key policy [NAME word]", Some(Scope::Reset), ONE, AskHome(tg::reset)),
    line("TG.REFUND", -5, "TG.REFUND key policy n at_us [NAME word]", Some(Scope::Refund), ONE, AskHome(tg::refund)),
    line(
        "TG.EXPLAIN",
        -3,
        "TG.EXPLAIN key policy [COST n] [MODE m] [NAME word]",
        Some(Scope::Read),
        ONE,
        AskHome(tg::explain),
    ),
    line("TG.USAGE", 3, "TG.USAGE key policy", Some(Scope::Read), ONE, Plain(tg::usage)),
    line(
        "TG.CHECKALL",
        -3,
        "TG.CHECKALL key policy [COST n] [NAME word] [AND key policy …]",
        Some(Scope::Check),
        ONE,
        AskHome(tg::check_all),
    ),
    line("GET", 2, "GET key", CHECK, ONE, OnKeys(keys::GET)),
    line("SET", -3, "SET key value [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL]", CHECK, ONE, OnKeys(keys::SET)),
    line("INCR", 2, "INCR key", CHECK, ONE, OnKeys(keys::INCR)),
    line("INCRBY", 3, "INCRBY key n", CHECK, ONE, OnKeys(keys::INCR_BY)),
    line("DECR", 2, "DECR key", CHECK, ONE, OnKeys(keys::DECR)),
    line("DECRBY", 3, "DECRBY key n", CHECK, ONE, OnKeys(keys::DECR_BY)),
    line("EXPIRE", -3, "EXPIRE key seconds [NX|XX|GT|LT]", CHECK, ONE, OnKeys(expire::EXPIRE)),
    line("PEXPIRE", -3, "PEXPIRE key ms [NX|XX|GT|LT]", CHECK, ONE, OnKeys(expire::PEXPIRE)),
    line("EXPIREAT", -3, "EXPIREAT key unix-seconds [NX|XX|GT|LT]", CHECK, ONE, OnKeys(expire::EXPIRE_AT)),
    line("PEXPIREAT", -3, "PEXPIREAT key unix-ms [NX|XX|GT|LT]", CHECK, ONE, OnKeys(expire::PEXPIRE_AT)),
    line("TTL", 2, "TTL key", CHECK, ONE, OnKeys(expire::TTL)),
    line("PTTL", 2, "PTTL key", CHECK, ONE, OnKeys(expire::PTTL)),
    line("EXPIRETIME", 2, "EXPIRETIME key", CHECK, ONE, OnKeys(expire::EXPIRE_TIME)),
    line("PEXPIRETIME", 2, "PEXPIRETIME key", CHECK, ONE, OnKeys(expire::PEXPIRE_TIME)),
    line("EXISTS", -2, "EXISTS key…", CHECK, ALL, OnKeys(keys::EXISTS)),
    line("DEL", -2, "DEL key…", CHECK, ALL, OnKeys(keys::DEL)),
    line("UNLINK", -2, "UNLINK key…", CHECK, ALL, OnKeys(keys::DEL)),
    line("TYPE", 2, "TYPE key", CHECK, ONE, OnKeys(keys::TYPE)),
    line("HGET", 3, "HGET key field", CHECK, ONE, OnKeys(keys::HGET)),
    line("HMGET", -3, "HMGET key field…", CHECK, ONE, OnKeys(keys::HMGET)),
    line("HKEYS", 2, "HKEYS key", CHECK, ONE, OnKeys(keys::HKEYS)),
    line("HVALS", 2, "HVALS key", CHECK, ONE, OnKeys(keys::HVALS)),
    line("HLEN", 2, "HLEN key", CHECK, ONE, OnKeys(keys::HLEN)),
    line("HEXISTS", 3, "HEXISTS key field", CHECK, ONE, OnKeys(keys::HEXISTS)),
    line("HGETALL", 2, "HGETALL key", CHECK, ONE, OnKeys(keys::HGET_ALL)),
    line("SCAN", -2, "SCAN cursor [MATCH pattern] [COUNT n] [TYPE word]", Some(Scope::Read), NONE, OnKeys(keys::SCAN)),
    line("DBSIZE", 1, "DBSIZE", Some(Scope::Read), NONE, OnKeys(keys::DB_SIZE)),
    line("FLUSHDB", -1, "FLUSHDB [ASYNC|SYNC]", Some(Scope::Reset), NONE, OnKeys(keys::FLUSH)),
    line("FLUSHALL", -1, "FLUSHALL [ASYNC|SYNC]", Some(Scope::Reset), NONE, OnKeys(keys::FLUSH)),
    line("KEYS", 2, "KEYS pattern", Some(Scope::Read), NONE, OnKeys(keys::KEYS)),
    line("WATCH", -2, "MULTI … EXEC", CHECK, ALL, Plain(keys::watch)),
    line("UNWATCH", 1, "UNWATCH", CHECK, NONE, Plain(keys::unwatch)),
    line(
        "CL.THROTTLE",
        -5,
        "CL.THROTTLE key max_burst count period [quantity]",
        CHECK,
        ONE,
        AskHome(dialects::throttle),
    ),
    line("FCALL", -3, "FCALL function numkeys key… arg…", CHECK, NONE, AskHome(dialects::fcall)),
    line("FCALL_RO", -3, "FCALL_RO function numkeys key… arg…", CHECK, NONE, AskHome(dialects::fcall_ro)),
    line("EVAL", -3, "EVAL script numkeys key… arg…", CHECK, NONE, AskHome(scripts::eval)),
    line("EVAL_RO", -3, "EVAL_RO script numkeys key… arg…", CHECK, NONE, AskHome(scripts::eval_ro)),
    line("EVALSHA", -3, "EVALSHA sha1 numkeys key… arg…", CHECK, NONE, AskHome(scripts::evalsha)),
    line("EVALSHA_RO", -3, "EVALSHA_RO sha1 numkeys key… arg…", CHECK, NONE, AskHome(scripts::evalsha_ro)),
    line("SCRIPT", -2, "SCRIPT LOAD text | EXISTS sha1… | FLUSH", CHECK, NONE, MayAsk(scripts::script)),
    line(
        "FUNCTION",
        -2,
        "FUNCTION LOAD [REPLACE] text | LIST [LIBRARYNAME pattern] [WITHCODE] | DELETE library | FLUSH",
        CHECK,
        NONE,
        MayAsk(functions::function),
    ),
    line("TFUNCTION", -2, "TFUNCTION LOAD [REPLACE] text | LIST", CHECK, NONE, Plain(functions::triggers)),
    line("HELLO", -1, "HELLO [2|3 [AUTH name token] [SETNAME name]]", None, NONE, Plain(hello::hello)),
    line("AUTH", -2, "AUTH [name] token", None, NONE, Plain(hello::auth)),
    line("RESET", 1, "RESET", None, NONE, Plain(hello::reset)),
    line("SELECT", 2, "SELECT db", None, NONE, Plain(hello::select)),
    parts("CLIENT", "CLIENT ID|INFO|LIST|SETNAME|… [word …]", client::PARTS),
    RespCommand {
        parts: command::PARTS,
        ..line("COMMAND", -1, "COMMAND [COUNT|DOCS|INFO|LIST|GETKEYS [word …]]", None, NONE, Plain(command::all))
    },
    parts("CONFIG", "CONFIG GET pattern [pattern …]", config::PARTS),
    parts("CLUSTER", "CLUSTER INFO|SLOTS|SHARDS|NODES|MYID|KEYSLOT [key]", cluster::PARTS),
    line("READONLY", 1, "READONLY", None, NONE, Plain(cluster::accept)),
    line("READWRITE", 1, "READWRITE", None, NONE, Plain(cluster::accept)),
    line("ASKING", 1, "ASKING", None, NONE, Plain(cluster::accept)),
    line("INFO", -1, "INFO [section …]", Some(Scope::Read), NONE, Inspect(info::info)),
    line("ROLE", 1, "ROLE", Some(Scope::Read), NONE, Plain(server::role)),
    line("PING", -1, "PING [text]", None, NONE, Plain(client::ping)),
    line("ECHO", 2, "ECHO text", None, NONE, Plain(client::echo)),
    line("QUIT", -1, "QUIT", None, NONE, Plain(client::quit)),
    line("MULTI", 1, "MULTI", Some(Scope::Check), NONE, Plain(client::multi)),
    line("DISCARD", 1, "DISCARD", Some(Scope::Check), NONE, Plain(client::discard)),
    line("EXEC", 1, "EXEC", Some(Scope::Check), NONE, Exec),
    line("TIME", 1, "TIME", Some(Scope::Check), NONE, Plain(server::time)),
];

/// Returns the command of that name, in either case.
pub(crate) fn find(name: &[u8]) -> Option<&'static RespCommand> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns every command and every subcommand.
#[cfg(test)]
pub(crate) fn every() -> impl Iterator<Item = &'static RespCommand> {
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
pub(crate) fn unknown_part(command: &RespCommand, word: &[u8]) -> Fault {
    let known: Vec<&str> = command.parts.iter().map(RespCommand::word).collect();
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
