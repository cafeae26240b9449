//! What was measured: two tables for people, an object for programs.

use crate::RunOptions;
use crate::rounds::{CONNECTIONS, PIPELINES, SubjectFigures};
use crate::subjects::{INCR, KEYS};
use crate::table::{self, Table, Value};
use crate::targets::{DRIVER_FULL, judge};

/// Processors that others may take before figures are doubtful.
const OTHERS: f64 = 0.15;

pub(crate) fn print(options: &RunOptions, all: &[SubjectFigures]) {
    let mut tables: Vec<Table> = PIPELINES.iter().map(|&pipeline| figures(options, all, pipeline)).collect();
    tables.push(targets(options, all));
    if options.json {
        println!("{}", table::json(&tables));
    } else {
        tables.iter().for_each(|table| print!("{table}"));
    }
}

fn figures(options: &RunOptions, all: &[SubjectFigures], pipeline: usize) -> Table {
    let name = if pipeline == 1 { "pipeline 1" } else { "pipeline 16" };
    let about = format!(
        "{CONNECTIONS} connections, {KEYS} keys; median of {} x {:?}; x INCR: over its mean before and after",
        options.rounds, options.time
    );
    let columns = &[
        "server",
        "req/s",
        "max/min",
        "x INCR",
        "cpu us",
        "cpu x INCR",
        "p50 us",
        "p99 us",
        "p99 x INCR",
        "p99.9 us",
        "busy",
        "driver us",
        "driver busy",
        "driver full",
        "others busy",
        "allowed",
    ];
    let mut table = Table::new(name, &about, columns);
    for measured in all.iter().filter(|measured| measured.pipeline == pipeline) {
        let driver_busy = measured.median(|figures| figures.driver_busy);
        let is_limiter = measured.subject.name != INCR.name;
        table.row(vec![
            Value::text(measured.subject.name),
            Value::number(measured.median(|figures| figures.rate), 0),
            Value::number(measured.spread(|figures| figures.rate), 2),
            Value::maybe(measured.ratio(|ratios| ratios.rate), 2),
            Value::number(measured.median(|figures| figures.cpu), 2),
            Value::maybe(measured.ratio(|ratios| ratios.cpu), 2),
            Value::number(measured.median(|figures| figures.p50), 0),
            Value::number(measured.median(|figures| figures.p99), 0),
            Value::maybe(measured.ratio(|ratios| ratios.p99), 2),
            Value::number(measured.overall(0.999), 0),
            Value::number(measured.median(|figures| figures.busy), 2),
            Value::number(measured.median(|figures| figures.driver_cpu), 2),
            Value::number(driver_busy, 2),
            Value::met(Some(driver_busy >= DRIVER_FULL)),
            Value::number(measured.median(|figures| figures.others_busy), 2),
            Value::maybe(is_limiter.then(|| measured.median(|figures| figures.allowed)), 2),
        ]);
    }
    table
}

fn targets(options: &RunOptions, all: &[SubjectFigures]) -> Table {
    let mut table =
        Table::new("targets", "of this run, by ratios to INCR", &["target", "found", "bound", "of", "verdict", "why"]);
    for verdict in judge(all) {
        table.row(vec![
            Value::text(&verdict.what),
            Value::number(verdict.found, 2),
            Value::text(verdict.bound.0),
            Value::number(verdict.bound.1, 2),
            Value::text(if verdict.met { "met" } else { "missed" }),
            Value::text(&verdict.note),
        ]);
    }
    if options.quick {
        table.note("quick: one short round, which says whether it runs and not how fast".to_owned());
    }
    let others = all.iter().map(|measured| measured.median(|figures| figures.others_busy)).fold(0.0, f64::max);
    if others >= OTHERS {
        table
            .note(format!("others kept up to {others:.2} processors busy meanwhile: measure again when they are idle"));
    }
    if options.nodelay.is_none() && options.wants("throttlecrab") {
        table.note("no C compiler, so no TCP_NODELAY for throttlecrab-server, and no target that needs it".to_owned());
    }
    table
}
