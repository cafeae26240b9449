//! Every command: its name, how many arguments it takes, the scope it needs, and who runs it.

use super::{Args, Asked, Turn, client, command, config, hello, info, server, tg};
use crate::access::Scope;
use crate::fault::{Fault, shown};
use crate::keys::Keys;

/// A command.
pub(crate) struct Command {
    /// Its name, in capitals; `CLIENT|ID` for a part of a command.
    pub(crate) name: &'static str,
    /// The arguments, its name among them; if negative, at least so many.
    pub(crate) arity: i32,
    /// What it takes, for errors and COMMAND DOCS.
    pub(crate) usage: &'static str,
    /// What a connection needs to run it; nothing if anybody may.
    pub(crate) scope: Option<Scope>,
    /// Who runs it.
    pub(crate) run: Run,
    /// The first key, the last and the step between, counted as Redis does; zeros if it has none.
    pub(crate) keys: (i32, i32, i32),
    /// The commands that its second word chooses from.
    pub(crate) parts: &'static [Self],
}

/// Who runs a command.
pub(crate) enum Run {
    /// It answers from the connection and the server alone.
    Plain(fn(&mut Turn<'_>) -> Result<(), Fault>),
    /// It answers from the keys, which are nobody else's meanwhile.
    Keys(fn(&mut Turn<'_>, &mut Keys) -> Result<(), Fault>),
    /// It asks the home.
    Ask(fn(&mut Turn<'_>) -> Result<Asked, Fault>),
    /// The connection itself, which runs the commands that waited.
    Exec,
}

impl Command {
    /// Whether it is run between MULTI and EXEC instead of waiting for EXEC.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.name, "EXEC" | "DISCARD" | "MULTI" | "WATCH" | "RESET" | "QUIT")
    }

    /// The part that a second word names, in either case.
    pub(crate) fn part(&self, word: &[u8]) -> Option<&'static Self> {
        self.parts.iter().find(|part| part.word().as_bytes().eq_ignore_ascii_case(word))
    }

    /// The word that names it: its own name, or a part's second word.
    pub(crate) fn word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// Whether it takes so many arguments, its name among them.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}

pub(super) const ONE: (i32, i32, i32) = (1, 1, 1);
pub(super) const NONE: (i32, i32, i32) = (0, 0, 0);

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

/// A command whose second word chooses one of `parts`, which says how it is run.
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
    line("TG.REFUND", -5, "TG.REFUND key policy n at_us [NAME word]", Some(Scope::Check), ONE, Run::Ask(tg::refund)),
    line(
        "TG.EXPLAIN",
        -3,
        "TG.EXPLAIN key policy [COST n] [MODE m] [NAME word]",
        Some(Scope::Read),
        ONE,
        Run::Ask(tg::explain),
    ),
    line(
        "TG.CHECKALL",
        -3,
        "TG.CHECKALL key policy [COST n] [NAME word] [AND key policy …]",
        Some(Scope::Check),
        ONE,
        Run::Ask(tg::check_all),
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
    line("INFO", -1, "INFO [section …]", Some(Scope::Read), NONE, Run::Plain(info::info)),
    line("ROLE", 1, "ROLE", Some(Scope::Read), NONE, Run::Plain(server::role)),
    line("PING", -1, "PING [text]", None, NONE, Run::Plain(client::ping)),
    line("ECHO", 2, "ECHO text", None, NONE, Run::Plain(client::echo)),
    line("QUIT", -1, "QUIT", None, NONE, Run::Plain(client::quit)),
    line("MULTI", 1, "MULTI", Some(Scope::Check), NONE, Run::Plain(client::multi)),
    line("DISCARD", 1, "DISCARD", Some(Scope::Check), NONE, Run::Plain(client::discard)),
    line("EXEC", 1, "EXEC", Some(Scope::Check), NONE, Run::Exec),
    line("TIME", 1, "TIME", Some(Scope::Check), NONE, Run::Plain(server::time)),
];

/// The command of that name, in either case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Every command and every part of one.
pub(crate) fn every() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.parts))
}

/// What to say of a name that is none.
pub(crate) fn unknown(args: &Args<'_>) -> Fault {
    let shown_args: String = args.iter().skip(1).take(3).map(|arg| format!("'{}' ", shown(arg))).collect();
    let name = shown(args.at(0));
    Fault::wrong(format!(
        "unknown command '{name}', with args beginning with: {shown_args}; COMMAND LIST tells those that are known"
    ))
}

/// What to say of a second word that is none.
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
            let (name, usage) = (command.name, command.usage);
            assert_eq!(name, name.to_ascii_uppercase());
            assert!(
                usage == name || usage.starts_with(&format!("{} ", name.replace('|', " "))) || command.arity == 2,
                "{usage}"
            );
            assert!(command.arity != 0, "{name}");
            assert_eq!(find(name.as_bytes()).is_some(), !name.contains('|'), "{name}");
        }
        let mut names: Vec<&str> = every().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), every().count());
    }
}
