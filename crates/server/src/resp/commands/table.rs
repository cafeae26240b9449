//! Every command: its name, how many arguments it takes, the scope it needs, and who runs it.

use super::{Args, Asked, Turn, client, server, tg};
use crate::access::Scope;
use crate::fault::{Fault, quoted};
use crate::keys::Keys;

/// A command.
pub(crate) struct Command {
    /// Its name, in capitals.
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

    /// Whether it takes so many arguments, its name among them.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}

const ONE: (i32, i32, i32) = (1, 1, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);

const fn line(
    name: &'static str,
    arity: i32,
    usage: &'static str,
    scope: Option<Scope>,
    keys: (i32, i32, i32),
    run: Run,
) -> Command {
    Command { name, arity, usage, scope, run, keys }
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

/// What to say of a name that is none.
pub(crate) fn unknown(args: &Args<'_>) -> Fault {
    let shown: Vec<String> = args.iter().skip(1).take(3).map(quoted).collect();
    let name = quoted(args.at(0));
    Fault::wrong(format!(
        "unknown command {name}, with args beginning with: {}; COMMAND DOCS lists what is known",
        shown.join(" ")
    ))
}
