//! `tollgate redis install --scripts`: loads every script into the cache of every node, since caches are not
//! replicated.

use serde::Serialize;

use super::FOUND;
use super::script::{self, NamedScript};
use crate::CommandOutput;
use crate::error::CliError;
use crate::server::{Fleet, ServerConnection, ServerError};
use crate::text::{self, ColumnAlignment, TextTable};

/// A node and its cache.
#[derive(Serialize)]
struct ScriptCacheRow {
    node: String,
    /// The scripts it had.
    present: usize,
    /// The scripts it did not have, and has now.
    loaded: usize,
    /// The scripts it does not have.
    missing: usize,
}

/// Loads or checks the scripts; returns what to print.
pub(super) fn run(fleet: &mut Fleet, check: bool, json: bool) -> Result<CommandOutput, CliError> {
    let scripts = script::all();
    let mut replicas = fleet.replicas()?;
    let connections = fleet.primaries.iter_mut().map(|node| &mut node.connection).chain(&mut replicas);
    let rows =
        connections.map(|connection| load_or_check(connection, &scripts, check)).collect::<Result<Vec<_>, _>>()?;
    let code = if rows.iter().any(|row| row.missing > 0) { FOUND } else { 0 };
    let text = if json { document(&scripts, &rows) } else { print(&scripts, &rows) };
    Ok(CommandOutput { text, code })
}

fn load_or_check(
    connection: &mut ServerConnection,
    scripts: &[NamedScript],
    check: bool,
) -> Result<ScriptCacheRow, ServerError> {
    let mut question = vec!["SCRIPT", "EXISTS"];
    question.extend(scripts.iter().map(|script| script.sha.as_str()));
    let known: Vec<i64> = connection.query(&question)?;
    let present = known.iter().filter(|known| **known == 1).count();
    let absent = scripts.len().saturating_sub(present);
    if check {
        return Ok(ScriptCacheRow { node: connection.place().to_owned(), present, loaded: 0, missing: absent });
    }
    for (script, known) in scripts.iter().zip(known) {
        if known == 0 {
            connection.ask(&["SCRIPT", "LOAD", &script.text])?;
        }
    }
    Ok(ScriptCacheRow { node: connection.place().to_owned(), present, loaded: absent, missing: 0 })
}

fn print(scripts: &[NamedScript], rows: &[ScriptCacheRow]) -> String {
    let mut names = TextTable::new(&[ColumnAlignment::Left, ColumnAlignment::Left]);
    names.row(["script", "SHA-1"]);
    for script in scripts {
        names.row([script.name, &script.sha]);
    }
    let mut nodes = TextTable::new(&[
        ColumnAlignment::Left,
        ColumnAlignment::Right,
        ColumnAlignment::Right,
        ColumnAlignment::Right,
    ]);
    nodes.row(["node", "present", "loaded", "missing"]);
    for row in rows {
        nodes.row([row.node.clone(), row.present.to_string(), row.loaded.to_string(), row.missing.to_string()]);
    }
    format!("{}\n{}", names.print(), nodes.print())
}

fn document(scripts: &[NamedScript], rows: &[ScriptCacheRow]) -> String {
    #[derive(Serialize)]
    struct ScriptCacheDocument<'a> {
        scripts: &'a [NamedScript],
        nodes: &'a [ScriptCacheRow],
    }
    text::json(&ScriptCacheDocument { scripts, nodes: rows })
}
