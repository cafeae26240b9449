//! The output of a measurement: a row for each policy or dialect.

use serde::Serialize;
use tollgate_kernel::{Micros, Wait};

use super::args::BenchArgs;
use super::drive::BenchOutcome;
use super::subject::{BenchSubject, CallForm};
use crate::server::value::field;
use crate::server::{Fleet, ServerTarget};
use crate::text::{self, ColumnAlignment, TextTable, grouped, percent, shown_key};

/// The widest title of a row.
const MAX_WIDTH: usize = 24;

/// The settings that all rows have in common.
#[derive(Serialize)]
pub(crate) struct BenchSetup {
    store: String,
    server: String,
    primaries: usize,
    keys: u64,
    connections: usize,
    pipeline: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
}

/// The row of one policy or dialect.
#[derive(Serialize)]
pub(crate) struct BenchRow {
    what: String,
    by: &'static str,
    calls: u64,
    seconds: f64,
    calls_per_second: u64,
    p50_us: u64,
    p99_us: u64,
    cpu_us_per_call: Option<f64>,
    bytes_per_key: Option<u64>,
    refused: u64,
    /// `None` if the login may not remove them.
    removed_keys: Option<u64>,
}

impl BenchSetup {
    pub(crate) fn of(fleet: &mut Fleet, target: &ServerTarget, args: &BenchArgs) -> Self {
        let info =
            fleet.primaries.first_mut().and_then(|node| node.connection.query::<String>(&["INFO", "server"]).ok());
        let info = info.unwrap_or_default();
        // A Tollgate server may be named as the Redis that it speaks like.
        fleet.is_tollgate |= field(&info, "tollgate_version").is_some();
        // Valkey and Tollgate also tell the version of Redis whose replies they give.
        let names = [("Tollgate", "tollgate_version"), ("Valkey", "valkey_version"), ("Redis", "redis_version")];
        let server = names.iter().find_map(|(name, line)| Some(format!("{name} {}", field(&info, line)?)));
        let server = server.unwrap_or_else(|| "a server that does not tell its version".to_owned());
        Self {
            store: target.to_string(),
            server,
            primaries: fleet.primaries.len(),
            keys: args.keys,
            connections: args.connections,
            pipeline: args.pipeline,
            seconds: args.calls.is_none().then_some(args.seconds),
            calls: args.calls,
        }
    }

    /// Returns the text that is printed before the run.
    pub(crate) fn notice(&self, prefix: &str, subjects: usize) -> String {
        let much = match self.calls {
            Some(calls) => text::counted(calls, "call", "calls"),
            None => format!("{}s", self.seconds.unwrap_or_default()),
        };
        let each = if subjects > 1 { " each" } else { "" };
        format!(
            "bench: this puts load on {} for {much}{each}; keys with {prefix} in their name are deleted at the end",
            self.store
        )
    }

    pub(crate) fn print(&self, rows: &[BenchRow]) -> String {
        use ColumnAlignment::{Left, Right};
        let mut table = TextTable::new(&[Left, Left, Right, Right, Right, Right, Right, Right]);
        table.row(["", "by", "calls/s", "p50", "p99", "cpu", "bytes", "refused"]);
        for row in rows {
            table.row([
                shown_key(row.what.as_bytes(), MAX_WIDTH),
                row.by.to_owned(),
                grouped(row.calls_per_second),
                span(row.p50_us),
                span(row.p99_us),
                row.cpu_us_per_call.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.1}us")),
                row.bytes_per_key.map_or_else(|| "-".to_owned(), grouped),
                percent(row.refused, row.calls),
            ]);
        }
        let removed: Option<u64> = rows.iter().map(|row| row.removed_keys).sum();
        let removed = match removed {
            Some(count) => format!("{} deleted", text::counted(count, "key", "keys")),
            None => "keys not deleted, which needs the scope reset; they expire by themselves".to_owned(),
        };
        let told = "cpu: of the server for a call; bytes: of a key at the end; -: the server does not tell it";
        format!("{}\n\n{}\n{told}\n{removed}\n", self.head(), table.print())
    }

    fn head(&self) -> String {
        let primaries = if self.primaries > 1 { format!(", {} primaries", self.primaries) } else { String::new() };
        format!(
            "{} ({}{primaries}): {}, {}, pipeline {}",
            self.store,
            self.server,
            text::counted(self.keys, "key", "keys"),
            text::counted(self.connections as u64, "connection", "connections"),
            self.pipeline
        )
    }

    pub(crate) fn json(&self, rows: &[BenchRow]) -> String {
        #[derive(Serialize)]
        struct BenchDocument<'a> {
            #[serde(flatten)]
            setup: &'a BenchSetup,
            rows: &'a [BenchRow],
        }
        text::json(&BenchDocument { setup: self, rows })
    }
}

impl BenchRow {
    pub(crate) fn new(
        subject: &BenchSubject,
        form: &CallForm,
        outcome: &BenchOutcome,
        cpu: Option<f64>,
        bytes: Option<u64>,
        removed: Option<u64>,
    ) -> Self {
        let seconds = outcome.elapsed.as_secs_f64();
        Self {
            what: subject.title.clone(),
            by: form.word(),
            calls: outcome.calls,
            seconds: (seconds * 1e3).round() / 1e3,
            calls_per_second: (outcome.calls as f64 / seconds.max(1e-9)).round() as u64,
            p50_us: outcome.times.at(0.5).div_ceil(1_000),
            p99_us: outcome.times.at(0.99).div_ceil(1_000),
            cpu_us_per_call: cpu.map(|cpu| (cpu * 10.0).round() / 10.0),
            bytes_per_key: bytes,
            refused: outcome.refused,
            removed_keys: removed,
        }
    }
}

fn span(us: u64) -> String {
    text::wait(Wait::After(Micros::new(us)))
}
