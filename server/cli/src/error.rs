//! Everything that can go wrong: what happened, where, and what to do about it.

use std::fmt;
use std::io;

use tollgate_config::ConfigError;
use tollgate_daemon::{StartError, TokensError};
use tollgate_kernel::{StoreError, TextError};
use tollgate_redis::RedisOpenError;

use crate::config::messages;
use crate::redis::NameConflict;
use crate::replay::MalformedLine;
use crate::server::ServerError;

/// Why a command failed.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum CliError {
    /// The policy text is not valid.
    Policy {
        /// The text as given.
        text: String,
        /// Where and why.
        error: TextError,
    },
    /// A policy file is not valid.
    Config(ConfigError),
    /// More policies changed than one replay of a log can compare.
    Changed(usize),
    /// `--policy` names no policy that changes.
    Unchanged {
        /// The name as given.
        name: String,
        /// The names of those that change.
        changed: String,
    },
    /// There are more policies than a comparison shows.
    Policies(usize),
    /// The input cannot be opened.
    Open {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Reading failed in the middle.
    Read {
        /// The path.
        path: String,
        /// How many lines had been read.
        lines: u64,
        /// The cause.
        source: io::Error,
    },
    /// The input has nothing but blank lines.
    Empty {
        /// The path.
        path: String,
    },
    /// The input has lines, but none of them is a request.
    NoRequest {
        /// The path.
        path: String,
        /// The first malformed line and what is wrong with it.
        first: (u64, MalformedLine),
        /// What would help.
        hint: String,
    },
    /// A line is malformed, under `--strict`.
    Malformed {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: MalformedLine,
    },
    /// The time of a line is before an earlier line's, under `--strict`.
    OutOfOrder {
        /// The line, counted from 1.
        line: u64,
        /// By how much, in words.
        behind: String,
    },
    /// `--key` names a field that the format does not have, or names none.
    Key {
        /// The name as given.
        name: String,
        /// The fields that there are.
        expected: String,
    },
    /// The decisions cannot be written.
    Decisions {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// `--decisions` names the input or standard output.
    DecisionsPlace {
        /// The path.
        path: String,
    },
    /// An `--at` event is not valid.
    Event {
        /// The event as given.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A deciding thread ended early.
    Lost,
    /// An argument is not valid.
    Argument {
        /// The name of the argument.
        what: &'static str,
        /// The value as given.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A server cannot be reached, or refuses a command.
    Server(ServerError),
    /// Libraries of other authors have functions with the names of ours.
    NameConflicts(Vec<NameConflict>),
    /// The server of this address does not support function libraries.
    NoFunctions(String),
    /// The library whose function was to be measured is not installed, or not current.
    NotInstalled,
    /// The settings of a store are not valid.
    Settings(RedisOpenError),
    /// The store failed to decide.
    Store(StoreError),
    /// The store was reached, and did not decide.
    Undecided,
    /// The store of a server that is to start does not answer.
    StoreAway(Box<CliError>),
    /// The server does not start.
    Start(StartError),
    /// A token cannot be made.
    Tokens(TokensError),
    /// One of these errors from a Tollgate server, which needs other hints than a Redis.
    Tollgate(Box<CliError>),
    /// The system provided no runtime to ask a store with.
    Runtime(io::Error),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { error, .. } => {
                // The example in the error's own text moves into the hint.
                let whole = error.to_string();
                f.write_str(whole.rsplit_once("; for example ").map_or(whole.as_str(), |(text, _)| text))
            }
            Self::Config(error) => error.fmt(f),
            Self::Changed(count) => {
                write!(f, "{count} policies decide in another way; a log shows at most {MAX_POLICIES} at once")
            }
            Self::Unchanged { name, .. } => write!(f, "no policy {name:?} decides in another way"),
            Self::Policies(count) => write!(f, "{count} policies; a comparison shows at most {MAX_POLICIES}"),
            Self::Open { path, source } => write!(f, "cannot open {path}: {source}"),
            Self::Read { path, lines: 0, source } => write!(f, "cannot read {path}: {source}"),
            Self::Read { path, lines, source } => write!(f, "cannot read {path} after line {lines}: {source}"),
            Self::Empty { path } => write!(f, "{path} is empty"),
            Self::NoRequest { path, first: (line, reason), .. } => {
                write!(f, "{path} has no valid line; line {line}: {reason}")
            }
            Self::Malformed { line, reason } => write!(f, "line {line}: {reason}"),
            Self::OutOfOrder { line, behind } => {
                write!(f, "line {line}: out of order, {behind} before the latest time seen")
            }
            Self::Key { name, .. } => write!(f, "unknown key field {name:?}"),
            Self::Decisions { path, source } => write!(f, "cannot write decisions to {path}: {source}"),
            Self::DecisionsPlace { path } => write!(f, "decisions cannot be written to {path}"),
            Self::Event { text, expected } => write!(f, "event {text:?}: expected {expected}"),
            Self::Lost => f.write_str("a deciding thread ended early; this is a bug in tollgate"),
            Self::Output(source) => write!(f, "cannot write to standard output: {source}"),
            Self::Argument { what, found, expected } => write!(f, "{what} {found:?}: expected {expected}"),
            Self::Server(error) => error.fmt(f),
            Self::NameConflicts(conflicts) => {
                f.write_str("function names are taken, and nothing was changed")?;
                conflicts.iter().try_for_each(|conflict| write!(f, "\n  {conflict}"))
            }
            Self::NoFunctions(place) => write!(f, "{place} knows no function libraries, which came with Redis 7"),
            Self::NotInstalled => f.write_str("the function library is not installed, or belongs to another release"),
            Self::Settings(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Undecided => f.write_str("the store was reached and did not decide; it may have charged"),
            Self::StoreAway(error) => error.fmt(f),
            Self::Start(error) => f.write_str(&error.what()),
            Self::Tokens(error) => error.fmt(f),
            Self::Tollgate(error) => error.fmt(f),
            Self::Runtime(source) => write!(f, "cannot ask a store: {source}"),
        }
    }
}

impl std::error::Error for CliError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Policy { error, .. } => Some(error),
            Self::Config(error) => Some(error),
            Self::Open { source, .. }
            | Self::Read { source, .. }
            | Self::Decisions { source, .. }
            | Self::Runtime(source)
            | Self::Output(source) => Some(source),
            Self::Server(error) => Some(error),
            Self::Settings(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::StoreAway(error) => error.source(),
            Self::Start(error) => Some(error),
            Self::Tokens(error) => Some(error),
            Self::Tollgate(error) => error.source(),
            _ => None,
        }
    }
}

/// The largest number of policies of one replay.
pub(crate) const MAX_POLICIES: usize = 16;
/// The number of characters shown of a long policy text, above the caret.
const SHOWN: usize = 76;

impl CliError {
    /// Returns the text to print: the error, the place in the policy if it has one, and a hint.
    pub(crate) fn report(&self) -> String {
        if let Self::Config(error) = self {
            return messages::print(error);
        }
        let mut report = format!("error: {self}\n");
        if let Self::Policy { text, error } = self {
            report += &caret(text, error.column);
        }
        if let Some(hint) = self.hint() {
            report += &format!("hint: {hint}\n");
        }
        report
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Policy { error, .. } => format!("for example {:?}", error.example),
            Self::Changed(_) => "choose some with --policy NAME, or log the policy of each request".to_owned(),
            Self::Unchanged { changed, .. } => changed.clone(),
            Self::Policies(_) => "replay in several runs".to_owned(),
            Self::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "name a file, or - for standard input".to_owned()
            }
            Self::Empty { .. } => {
                "expected JSON Lines such as {\"t\":1700000000.5,\"key\":\"user:1\"}, or an access log".to_owned()
            }
            Self::NoRequest { hint, .. } => hint.clone(),
            Self::Malformed { .. } => "without --strict such lines are counted and left out".to_owned(),
            Self::OutOfOrder { .. } => "without --strict such lines are decided at the latest time seen".to_owned(),
            Self::Key { expected, .. } => expected.clone(),
            Self::DecisionsPlace { .. } => "name another file; the report goes to standard output".to_owned(),
            Self::Event { .. } => {
                "for example --at 0s,1500ms,2minx5 (x5: cost 5) or --at 2026-01-05T09:00:00Z".to_owned()
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof => {
                "the file looks cut short; was it copied completely?".to_owned()
            }
            Self::Server(error) => return error.hint(),
            Self::NameConflicts(conflicts) => NameConflict::remedy(conflicts),
            Self::NoFunctions(_) => "install scripts instead, which every server knows: --scripts".to_owned(),
            Self::NotInstalled => "tollgate redis install URL; or measure the script: --script".to_owned(),
            Self::Undecided => "tollgate redis doctor URL reports the server's state".to_owned(),
            Self::StoreAway(error) => {
                let lazy = "--lazy starts the server without it";
                error.hint().map_or(lazy.to_owned(), |hint| format!("{hint} {lazy}"))
            }
            Self::Start(error) => return error.hint().map(str::to_owned),
            Self::Tollgate(error) => return error.tollgate_hint(),
            _ => return None,
        })
    }

    /// Returns the hint for an error from a Tollgate server.
    fn tollgate_hint(&self) -> Option<String> {
        let refused = match self {
            Self::Server(ServerError::Refused { code, .. }) => code.as_str(),
            Self::Store(StoreError::Refused(words)) => words.split(' ').next().unwrap_or_default(),
            _ => "",
        };
        Some(match self {
            _ if ["NOAUTH", "NOPERM", "WRONGPASS"].contains(&refused) => {
                "name a token with the right to it: tollgate://TOKEN@HOST, or TOLLGATE_TOKEN; a server on this machine \
                 leaves its own to the user who started it"
                    .to_owned()
            }
            Self::Server(ServerError::Away { why, .. }) if !why.contains("certificate") => {
                "start one: tollgate serve; or name another: --store redis://…".to_owned()
            }
            Self::Undecided => "the store behind the server did not answer: its log and /readyz say more".to_owned(),
            _ => return self.hint(),
        })
    }
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns the text, and a caret under its `column`, counted in characters from 1.
fn caret(text: &str, column: usize) -> String {
    // Each control character becomes one space, so that it takes exactly one column.
    let plain: Vec<char> = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let start = if plain.len() <= SHOWN { 0 } else { column.saturating_sub(SHOWN / 2).min(plain.len() - SHOWN) };
    let shown: String = plain.iter().skip(start).take(SHOWN).collect();
    format!("  {shown}\n  {}^\n", " ".repeat(column.saturating_sub(start + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_column() {
        assert_eq!(caret("5/parsec", 3), "  5/parsec\n    ^\n");
        assert_eq!(caret("", 1), "  \n  ^\n");
        assert_eq!(caret("5/s\t5", 5), "  5/s 5\n      ^\n");
        let long = caret(&"1/s, ".repeat(100), 400);
        let lines: Vec<_> = long.lines().collect();
        assert!(lines[0].len() <= 80 && lines[1].len() <= 80, "{long}");
    }
}
