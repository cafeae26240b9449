//! `tollgate redis install --scripts`: loads every script into the cache of every node, since caches are not
//! replicated.

use serde::Serialize;

use super::FOUND;
use super::script::{self, Listed};
use crate::Answer;
use crate::error::Error;
use crate::server::{Fleet, Trouble, Wire};
use crate::text::{self, Side, Table};

/// A node and its cache.
#[derive(Serialize)]
struct Row {
    node: String,
    /// The scripts it had.
    present: usize,
    /// The scripts it did not have, and has now.
    loaded: usize,
    /// The scripts it does not have.
    missing: usize,
}

/// Loads or checks the scripts; returns what to print.
pub(super) fn run(fleet: &mut Fleet, check: bool, json: bool) -> Result<Answer, Error> {
    let scripts = script::all();
    let mut replicas = fleet.replicas()?;
    let wires = fleet.primaries.iter_mut().map(|node| &mut node.wire).chain(&mut replicas);
    let rows = wires.map(|wire| visit(wire, &scripts, check)).collect::<Result<Vec<_>, _>>()?;
    let code = if rows.iter().any(|row| row.missing > 0) { FOUND } else { 0 };
    let text = if json { document(&scripts, &rows) } else { print(&scripts, &rows) };
    Ok(Answer { text, code })
}

fn visit(wire: &mut Wire, scripts: &[Listed], check: bool) -> Result<Row, Trouble> {
    let mut question = vec!["SCRIPT", "EXISTS"];
    question.extend(scripts.iter().map(|script| script.sha.as_str()));
    let known: Vec<i64> = wire.query(&question)?;
    let present = known.iter().filter(|known| **known == 1).count();
    let absent = scripts.len().saturating_sub(present);
    if check {
        return Ok(Row { node: wire.place().to_owned(), present, loaded: 0, missing: absent });
    }
    for (script, known) in scripts.iter().zip(known) {
        if known == 0 {
            wire.ask(&["SCRIPT", "LOAD", &script.text])?;
        }
    }
    Ok(Row { node: wire.place().to_owned(), present, loaded: absent, missing: 0 })
}

fn print(scripts: &[Listed], rows: &[Row]) -> String {
    let mut names = Table::new(&[Side::Left, Side::Left]);
    names.row(["script", "SHA-1"]);
    for script in scripts {
        names.row([script.name, &script.sha]);
    }
    let mut nodes = Table::new(&[Side::Left, Side::Right, Side::Right, Side::Right]);
    nodes.row(["node", "present", "loaded", "missing"]);
    for row in rows {
        nodes.row([row.node.clone(), row.present.to_string(), row.loaded.to_string(), row.missing.to_string()]);
    }
    format!("{}\n{}", names.print(), nodes.print())
}

fn document(scripts: &[Listed], rows: &[Row]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        scripts: &'a [Listed],
        nodes: &'a [Row],
    }
    text::json(&Document { scripts, nodes: rows })
}
