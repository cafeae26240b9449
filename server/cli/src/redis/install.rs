//! `tollgate redis install`: loads the function libraries on the server, or on every primary of a cluster; replicas get
//! them from their primaries. Nothing is loaded anywhere before every node was checked.

use clap::Args;
use serde::Serialize;
use tollgate_redis::lua::Names;

use super::libraries::{self, BOTH, Standing};
use super::{FOUND, scripts};
use crate::error::Error;
use crate::server::{Authority, Fleet, Target, Trouble};
use crate::text::{self, Side, Table};
use crate::{Answer, FAILED};

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
    authority: Authority,

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
struct Row {
    node: String,
    library: String,
    functions: usize,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the command; returns what to print.
pub(crate) fn run(args: &InstallArgs) -> Result<Answer, Error> {
    let target = Target::redis(&args.url, &args.authority)?;
    let mut fleet = Fleet::open(&target)?;
    if args.scripts {
        return scripts::run(&mut fleet, args.check, args.json);
    }
    let libraries = chosen(args.only.as_deref())?;
    let standings = look(&mut fleet, &libraries)?;
    let mut rows = Vec::new();
    for (place, names, standing) in standings {
        let Some(node) = fleet.primaries.get_mut(place) else { continue };
        let (state, error) = if args.check { (found(standing), None) } else { bring(&mut node.wire, names, standing) };
        rows.push(Row {
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
    Ok(Answer { text: if args.json { json(&rows) } else { print(&rows) }, code })
}

fn chosen(only: Option<&str>) -> Result<Vec<Names>, Error> {
    let Some(only) = only else { return Ok(BOTH.to_vec()) };
    let found: Vec<Names> = BOTH.into_iter().filter(|names| names.library() == only).collect();
    match found.is_empty() {
        true => Err(Error::Argument {
            what: "--only",
            found: only.to_owned(),
            expected: "the name of a library, such as tollgate",
        }),
        false => Ok(found),
    }
}

/// Compares every library on every primary; fails if one cannot be loaded there.
fn look(fleet: &mut Fleet, libraries: &[Names]) -> Result<Vec<(usize, Names, Standing)>, Error> {
    let (mut standings, mut taken) = (Vec::new(), Vec::new());
    for (place, node) in fleet.primaries.iter_mut().enumerate() {
        for &names in libraries {
            standings.push((place, names, standing(&mut node.wire, names)?));
            taken.extend(libraries::taken(&mut node.wire, names)?);
        }
    }
    if taken.is_empty() { Ok(standings) } else { Err(Error::Taken(taken)) }
}

fn standing(wire: &mut crate::server::Wire, names: Names) -> Result<Standing, Error> {
    libraries::standing(wire, names).map_err(|error| match error.is_unknown_command() {
        true => Error::NoFunctions(wire.place().to_owned()),
        false => Error::Server(error),
    })
}

/// Loads the library if it is missing or different; returns what was done.
fn bring(wire: &mut crate::server::Wire, names: Names, standing: Standing) -> (&'static str, Option<Trouble>) {
    let done = match standing {
        Standing::Current => return ("current", None),
        Standing::Different => "replaced",
        Standing::Missing => "new",
    };
    match libraries::load(wire, names) {
        Ok(()) => (done, None),
        Err(error) => ("failed", Some(error)),
    }
}

fn found(standing: Standing) -> &'static str {
    match standing {
        Standing::Current => "current",
        Standing::Different => "different",
        Standing::Missing => "missing",
    }
}

fn print(rows: &[Row]) -> String {
    let mut table = Table::new(&[Side::Left, Side::Left, Side::Right, Side::Left]);
    table.row(["node", "library", "functions", "state"]);
    for row in rows {
        let state = row.error.as_ref().map_or_else(|| row.state.to_owned(), |error| format!("{}: {error}", row.state));
        table.row([row.node.clone(), row.library.clone(), row.functions.to_string(), state]);
    }
    table.print()
}

fn json(rows: &[Row]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        libraries: &'a [Row],
    }
    text::json(&Document { libraries: rows })
}
