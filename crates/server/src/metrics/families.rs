//! Everything that is told, gathered from the counters, the store and the desk.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use super::policy::STANDINS;
use super::{FrontEnd, Metrics, Refused};
use crate::desk::{Desk, Home};
use crate::fault::Code;
use crate::http::ROUTES;
use crate::resp::commands::table::COMMANDS;

/// Series of one name.
#[derive(Debug)]
pub(super) struct Family {
    /// Without `_total`, which a counter gets when it is written.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) values: Values,
}

/// Labels and their value.
pub(super) type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
pub(super) enum Values {
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
    Histogram(f64, u64, Vec<(f64, u64)>),
    Info(Labels),
}

impl Values {
    fn counter(value: u64) -> Self {
        Self::Counters(vec![(Vec::new(), value)])
    }

    fn gauge(value: f64) -> Self {
        Self::Gauges(vec![(Vec::new(), value)])
    }
}

const fn family(name: &'static str, help: &'static str, values: Values) -> Family {
    Family { name, help, values }
}

/// Everything.
pub(super) fn families(desk: &Desk) -> Vec<Family> {
    let metrics = &*desk.metrics;
    let mut families = decisions(metrics);
    families.extend(traffic(metrics));
    families.extend(home(&desk.home));
    families.extend(keyspace(desk));
    let (sum, count, buckets) = metrics.took.read();
    families.push(family(
        "tollgate_decision_seconds",
        "How long it took to answer what came at once",
        Values::Histogram(sum, count, buckets),
    ));
    let started = metrics.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    families.push(family("tollgate_start_time_seconds", "When the server started", Values::gauge(started)));
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.push(family("tollgate_build", "The version of the server", Values::Info(build)));
    families
}

/// Policies of one label are told as one.
fn decisions(metrics: &Metrics) -> Vec<Family> {
    let counted = metrics.policies.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut decided, mut limited, mut standins) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for counts in counted.by_policy.values().chain([&metrics.others]) {
        let policy = &counts.label;
        for (word, count) in [("allowed", &counts.allowed), ("denied", &counts.denied)] {
            *decided.entry((policy.clone(), word)).or_default() += read(count);
        }
        for (limit, count) in &counts.limits {
            *limited.entry((policy.clone(), limit.clone())).or_default() += read(count);
        }
        for (source, count) in STANDINS.iter().zip(&counts.standin) {
            *standins.entry((policy.clone(), source.name())).or_default() += read(count);
        }
    }
    // What never happened under a policy is not told; the others are there from the start.
    standins.retain(|_, count| *count > 0);
    vec![
        family("tollgate_decisions", "Decisions, peeks not counted", pairs(decided, ["policy", "decision"])),
        family(
            "tollgate_denied",
            "Requests that did not fit as a whole, by the first limit that they did not fit",
            pairs(limited, ["policy", "limit"]),
        ),
        family(
            "tollgate_standin_decisions",
            "Decisions made in the store's place while it did not answer",
            pairs(standins, ["policy", "source"]),
        ),
    ]
}

fn pairs<A: Into<String>, B: Into<String>>(counts: BTreeMap<(A, B), u64>, names: [&'static str; 2]) -> Values {
    let series = counts.into_iter().map(|((one, two), count)| {
        let labels = names.into_iter().zip([one.into(), two.into()]).collect();
        (labels, count)
    });
    Values::Counters(series.collect())
}

fn traffic(metrics: &Metrics) -> Vec<Family> {
    let row = |front: FrontEnd, name: &'static str, word: String, count: u64| {
        (vec![("front", front.name().to_owned()), (name, word)], count)
    };
    let resp = COMMANDS.iter().zip(&metrics.commands);
    let http = ROUTES.iter().zip(&metrics.routes);
    let commands = resp
        .map(|(command, count)| row(FrontEnd::Resp, "command", command.name.to_ascii_lowercase(), read(count)))
        .chain(http.map(|(route, count)| row(FrontEnd::Http, "command", route.name.to_owned(), read(count))))
        .collect();
    let faults = Code::ALL.iter().zip(&metrics.faults);
    let statuses = (400..).zip(&metrics.statuses).filter(|(_, count)| read(count) > 0);
    let errors = faults
        .map(|(code, count)| row(FrontEnd::Resp, "code", code.word().to_owned(), read(count)))
        .chain(statuses.map(|(status, count): (u16, _)| row(FrontEnd::Http, "code", status.to_string(), read(count))))
        .collect();
    let connections = FrontEnd::ALL.iter().zip(&metrics.connections);
    let connections = connections
        .map(|(front, count)| (vec![("front", front.name().to_owned())], count.load(Ordering::Relaxed) as f64));
    let refused = Refused::ALL.iter().zip(&metrics.refused);
    let refused = refused.map(|(why, count)| (vec![("reason", why.name().to_owned())], read(count)));
    vec![
        family("tollgate_commands", "Commands and requests", Values::Counters(commands)),
        family("tollgate_errors", "Error replies and answers", Values::Counters(errors)),
        family("tollgate_connections", "Connections that are open", Values::Gauges(connections.collect())),
        family("tollgate_connections_refused", "Connections not taken", Values::Counters(refused.collect())),
    ]
}

fn home(home: &Home) -> Vec<Family> {
    match home {
        Home::Embedded(memory) => {
            let stats = memory.stats();
            vec![
                family("tollgate_store_keys", "Keys with a place of their own", Values::gauge(stats.keys as f64)),
                family("tollgate_store_bytes", "Bytes taken by keys", Values::gauge(stats.bytes as f64)),
                family("tollgate_store_cap_bytes", "Bytes that may be taken", Values::gauge(stats.cap as f64)),
                family(
                    "tollgate_store_overflow_decisions",
                    "Decisions for keys that share a place, since memory is full",
                    Values::counter(stats.overflow_decisions),
                ),
            ]
        }
        Home::Redis(redis) => {
            let stats = redis.stats();
            let sources =
                [("home", stats.home), ("local", stats.local), ("open", stats.open), ("closed", stats.closed)];
            let sources = sources.into_iter().map(|(source, count)| (vec![("source", source.to_owned())], count));
            vec![
                family("tollgate_redis_decisions", "Decisions by who made them", Values::Counters(sources.collect())),
                family("tollgate_redis_errors", "Calls the store did not answer", Values::counter(stats.errors)),
                family("tollgate_redis_retries", "Calls sent again, not run before", Values::counter(stats.retries)),
                family("tollgate_redis_reloads", "Times the script was sent", Values::counter(stats.reloads)),
                family("tollgate_redis_batches", "Pipelines sent", Values::counter(stats.batches)),
                family("tollgate_redis_calls", "Calls in them", Values::counter(stats.calls)),
                family("tollgate_redis_connects", "Connections opened", Values::counter(stats.connections)),
                family(
                    "tollgate_redis_open_breakers",
                    "Servers that are not asked at the moment",
                    Values::gauge(stats.open_breakers as f64),
                ),
            ]
        }
    }
}

/// The keys of other conventions.
fn keyspace(desk: &Desk) -> Vec<Family> {
    let counts = desk.keys().counts();
    vec![
        family("tollgate_keyspace_keys", "Keys of other conventions", Values::gauge(counts.keys as f64)),
        family("tollgate_keyspace_bytes", "Bytes they take", Values::gauge(counts.bytes as f64)),
        family(
            "tollgate_keyspace_overflow_decisions",
            "Decisions on a state that keys share, since memory is full",
            Values::counter(counts.overflowed),
        ),
    ]
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
