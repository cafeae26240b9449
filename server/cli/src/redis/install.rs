//! `tollgate redis install`: loads the function libraries on the server, or on every primary of a cluster; replicas get
//! them from their primaries. Nothing is loaded anywhere before every node was checked.

use clap::Args;
use serde::Serialize;
use tollgate_redis::lua::LuaNaming;

use super::libraries::{self, BOTH, LibraryState};
use super::{FOUND, scripts};
use crate::error::CliError;
use crate::server::{AuthorityArgs, Fleet, ServerError, ServerTarget};
use crate::text::{self, ColumnAlignment, TextTable};
use crate::{CommandOutput, FAILED};

const EXAMPLES: &str = "\
Examples:
  tollgate redis install redis://127.0.0.1:6379
  tollgate redis install redis+cluster://10.0.0.1,10.0.0.2 --check
  tollgate redis install redis://127.0.0.1:6379 --scripts
  redis-cli FCALL tollgate 1 'tg:{user:42}' 100/min

Two libraries are loaded: tollgate, whose functions have the names of the
documents, and one whose names end in the release, which the store calls.
--scripts loads scripts into the cache of every node instead, replicas too; a
server forgets them when it restarts. They are called by EVALSHA.
Exit code: 0 done or current, 1 --check found something missing or different,
2 error.";

/// What `tollgate redis install` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InstallArgs {
    /// redis://, rediss://, redis+cluster:// or redis+sentinel://
    url: String,

    /// Load scripts into the cache of every node, no libraries
    #[arg(long)]
    scripts: bool,

    /// Change nothing; exit with 1 if something is missing or different
    #[arg(long)]
    check: bool,

    /// Only this library
    #[arg(long, value_name = "LIBRARY", conflicts_with = "scripts")]
    only: Option<String>,

    #[command(flatten)]
    authority: AuthorityArgs,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Omits the URL, which may hold a password.
impl std::fmt::Debug for InstallArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstallArgs").finish_non_exhaustive()
    }
}

/// A library on a node, and what was done with it.
#[derive(Serialize)]
struct LibraryRow {
    node: String,
    library: String,
    functions: usize,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the command; returns what to print.
pub(crate) fn run(args: &InstallArgs) -> Result<CommandOutput, CliError> {
    let target = ServerTarget::redis(&args.url, &args.authority)?;
    let mut fleet = Fleet::open(&target)?;
    if args.scripts {
        return scripts::run(&mut fleet, args.check, args.json);
    }
    let libraries = chosen(args.only.as_deref())?;
    let states = compare_all(&mut fleet, &libraries)?;
    let mut rows = Vec::new();
    for (place, names, found) in states {
        let Some(node) = fleet.primaries.get_mut(place) else { continue };
        let (state, error) =
            if args.check { (found_word(found), None) } else { install(&mut node.connection, names, found) };
        rows.push(LibraryRow {
            node: node.name(),
            library: names.library(),
            functions: libraries::functions(names).len(),
            state,
            error: error.map(|error| error.words()),
        });
    }
    let code = match &rows {
        rows if rows.iter().any(|row| row.error.is_some()) => FAILED,
        rows if rows.iter().any(|row| matches!(row.state, "missing" | "different")) => FOUND,
        _ => 0,
    };
    Ok(CommandOutput { text: if args.json { json(&rows) } else { print(&rows) }, code })
}

fn chosen(only: Option<&str>) -> Result<Vec<LuaNaming>, CliError> {
    let Some(only) = only else { return Ok(BOTH.to_vec()) };
    let found: Vec<LuaNaming> = BOTH.into_iter().filter(|names| names.library() == only).collect();
    match found.is_empty() {
        true => Err(CliError::Argument {
            what: "--only",
            found: only.to_owned(),
            expected: "the name of a library, such as tollgate",
        }),
        false => Ok(found),
    }
}

/// Compares every library on every primary; fails if one cannot be loaded there.
fn compare_all(fleet: &mut Fleet, libraries: &[LuaNaming]) -> Result<Vec<(usize, LuaNaming, LibraryState)>, CliError> {
    let (mut states, mut conflicts) = (Vec::new(), Vec::new());
    for (place, node) in fleet.primaries.iter_mut().enumerate() {
        for &names in libraries {
            states.push((place, names, compare(&mut node.connection, names)?));
            conflicts.extend(libraries::conflicts(&mut node.connection, names)?);
        }
    }
    if conflicts.is_empty() { Ok(states) } else { Err(CliError::NameConflicts(conflicts)) }
}

fn compare(connection: &mut crate::server::ServerConnection, names: LuaNaming) -> Result<LibraryState, CliError> {
    libraries::compare(connection, names).map_err(|error| match error.is_unknown_command() {
        true => CliError::NoFunctions(connection.place().to_owned()),
        false => CliError::Server(error),
    })
}

/// Loads the library if it is missing or different; returns what was done.
fn install(
    connection: &mut crate::server::ServerConnection,
    names: LuaNaming,
    state: LibraryState,
) -> (&'static str, Option<ServerError>) {
    let done = match state {
        LibraryState::Current => return ("current", None),
        LibraryState::Different => "replaced",
        LibraryState::Missing => "new",
    };
    match libraries::load(connection, names) {
        Ok(()) => (done, None),
        Err(error) => ("failed", Some(error)),
    }
}

fn found_word(state: LibraryState) -> &'static str {
    match state {
        LibraryState::Current => "current",
        LibraryState::Different => "different",
        LibraryState::Missing => "missing",
    }
}

fn print(rows: &[LibraryRow]) -> String {
    let mut table =
        TextTable::new(&[ColumnAlignment::Left, ColumnAlignment::Left, ColumnAlignment::Right, ColumnAlignment::Left]);
    table.row(["node", "library", "functions", "state"]);
    for row in rows {
        let state = row.error.as_ref().map_or_else(|| row.state.to_owned(), |error| format!("{}: {error}", row.state));
        table.row([row.node.clone(), row.library.clone(), row.functions.to_string(), state]);
    }
    table.print()
}

fn json(rows: &[LibraryRow]) -> String {
    #[derive(Serialize)]
    struct InstallDocument<'a> {
        libraries: &'a [LibraryRow],
    }
    text::json(&InstallDocument { libraries: rows })
}
