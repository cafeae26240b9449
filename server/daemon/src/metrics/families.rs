//! All metrics, gathered from the counters, the store and the engine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_telemetry::traces::Traces;

use super::dialects::DialectCounts;
use super::histogram::HistogramReading;
use super::{ConnectionRefusal, DialectCounters, Metrics};
use crate::buffers::BufferUsage;
use crate::http::ROUTES;
use crate::resp::commands::table::COMMANDS;
use tollgate_engine::Ops;
use tollgate_engine::counts::{FLIPS, RULES, STANDINS};
use tollgate_engine::persist::JournalStatus;
use tollgate_engine::{Engine, HomeStats};
use tollgate_keyspace::FaultCode;
use tollgate_telemetry::audit::FrontEnd;

/// The series of one name.
#[derive(Debug)]
pub(super) struct MetricFamily {
    /// The name without `_total`, which is appended to a counter when it is written.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) values: MetricValues,
}

/// Labels and their values.
pub(super) type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
pub(super) enum MetricValues {
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, HistogramReading)>),
    Info(Labels),
}

impl MetricValues {
    fn counter(value: u64) -> Self {
        Self::Counters(vec![(Vec::new(), value)])
    }

    fn gauge(value: f64) -> Self {
        Self::Gauges(vec![(Vec::new(), value)])
    }
}

const fn family(name: &'static str, help: &'static str, values: MetricValues) -> MetricFamily {
    MetricFamily { name, help, values }
}

/// Returns all metrics.
pub(super) fn families(engine: &Engine, metrics: &Metrics) -> Vec<MetricFamily> {
    let mut families = decisions(engine, &metrics.dialects);
    families.extend(config(engine, metrics));
    families.extend(traffic(metrics));
    families.extend(buffers(metrics));
    families.extend(home(&engine.home_stats()));
    families.extend(keyspace(engine));
    families.extend(engine.journal().map(|status| journal(&status)).unwrap_or_default());
    families.extend(ops(engine.ops()));
    families.push(family(
        "tollgate_decision_seconds",
        "Seconds to answer a batch of pipelined commands",
        MetricValues::Histograms(vec![(Vec::new(), metrics.took.read())]),
    ));
    let calls = metrics.dialects.each().map(|(name, counts)| (dialect(name), counts.took.read()));
    families.push(family(
        "tollgate_dialect_seconds",
        "Seconds to decide a call of a dialect",
        MetricValues::Histograms(calls.filter(|(_, reading)| reading.count > 0).collect()),
    ));
    let started = metrics.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    families.push(family("tollgate_start_time_seconds", "When the server started", MetricValues::gauge(started)));
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.push(family("tollgate_build", "The version of the server", MetricValues::Info(build)));
    families
}

fn dialect(name: &str) -> Labels {
    vec![("dialect", name.to_owned())]
}

/// Returns the series of calls of dialects in a family of decisions: those that happened.
fn of_dialects<const N: usize>(
    dialects: &DialectCounters,
    label: &'static str,
    counts: impl Fn(&DialectCounts) -> [(&'static str, &AtomicU64); N],
) -> Vec<(Labels, u64)> {
    let series = dialects.each().flat_map(|(name, dialect_counts)| {
        counts(dialect_counts)
            .map(|(word, count)| ([dialect(name), vec![(label, word.to_owned())]].concat(), read(count)))
    });
    series.filter(|(_, count)| *count > 0).collect()
}

fn decisions(engine: &Engine, dialects: &DialectCounters) -> Vec<MetricFamily> {
    let (mut decided, mut limited, mut standins) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut rules, mut flips, mut bans) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    engine.each_count(|tally, limits| {
        let policy = &tally.label;
        for (word, count) in [("allowed", &tally.allowed), ("denied", &tally.denied)] {
            decided.insert((policy.clone(), word), read(count));
        }
        for limit in limits {
            limited.insert((policy.clone(), limit.name.clone()), read(&limit.count));
        }
        // A policy's series of these kinds appear with their first count; the others are there from the start.
        let happened = |counts: &mut BTreeMap<_, _>, word: &'static str, count: &AtomicU64| {
            if read(count) > 0 {
                counts.insert((policy.clone(), word), read(count));
            }
        };
        STANDINS.iter().zip(&tally.standin).for_each(|(by, count)| happened(&mut standins, by.name(), count));
        RULES.iter().zip(&tally.rules).for_each(|(rule, count)| happened(&mut rules, rule.name(), count));
        FLIPS.iter().zip(&tally.flips).for_each(|(flip, count)| happened(&mut flips, flip, count));
        if read(&tally.bans) > 0 {
            bans.push((vec![("policy", policy.clone())], read(&tally.bans)));
        }
    });
    let called = of_dialects(dialects, "decision", |counts| [("allowed", &counts.allowed), ("denied", &counts.denied)]);
    let stood_in = of_dialects(dialects, "source", |counts| {
        std::array::from_fn::<_, { STANDINS.len() }, _>(|place| (STANDINS[place].name(), &counts.standin[place]))
    });
    vec![
        family(
            "tollgate_decisions",
            "Decisions by policy, and of other limiters' calls by dialect; peeks not counted",
            MetricValues::Counters([pairs(decided, ["policy", "decision"]), called].concat()),
        ),
        family(
            "tollgate_denied",
            "Requests that did not fit as a whole, by the first limit that they did not fit",
            MetricValues::Counters(pairs(limited, ["policy", "limit"])),
        ),
        family(
            "tollgate_standin_decisions",
            "Decisions made in the store's place while it did not answer",
            MetricValues::Counters([pairs(standins, ["policy", "source"]), stood_in].concat()),
        ),
        family(
            "tollgate_rule_decisions",
            "Decisions by a list, a ban or an override; shadow: refusals that were let pass",
            MetricValues::Counters(pairs(rules, ["policy", "rule"])),
        ),
        family(
            "tollgate_candidate_flips",
            "Decisions that the candidate would have made otherwise",
            MetricValues::Counters(pairs(flips, ["policy", "flip"])),
        ),
        family("tollgate_bans", "Bans begun", MetricValues::Counters(bans)),
    ]
}

/// The policy file, and its bans.
fn config(engine: &Engine, metrics: &Metrics) -> Vec<MetricFamily> {
    let reloads = &metrics.reloads;
    let results = reloads.results().map(|(result, count)| (vec![("result", result.to_owned())], count));
    vec![
        family(
            "tollgate_config_generation",
            "The number of the policies in use",
            MetricValues::gauge(engine.generation().number as f64),
        ),
        family("tollgate_config_reloads", "Readings of the policy file", MetricValues::Counters(results.into())),
        family(
            "tollgate_config_last_ok_time_seconds",
            "When the policy file was last read successfully",
            MetricValues::gauge(reloads.last_ok()),
        ),
        family(
            "tollgate_config_invalid",
            "Whether the policy file is wrong, so that older policies are in use",
            MetricValues::gauge(f64::from(u8::from(reloads.is_invalid()))),
        ),
        family("tollgate_banned_keys", "Keys that are banned", MetricValues::gauge(engine.banned() as f64)),
        family("tollgate_ban_bytes", "Bytes that bans take", MetricValues::gauge(engine.ban_bytes() as f64)),
        family(
            "tollgate_bans_without_room",
            "Bans that were not begun, since there was no room for them",
            MetricValues::counter(engine.bans_without_room()),
        ),
    ]
}

fn pairs<A: Into<String>, B: Into<String>>(
    counts: BTreeMap<(A, B), u64>,
    names: [&'static str; 2],
) -> Vec<(Labels, u64)> {
    let series = counts.into_iter().map(|((one, two), count)| {
        let labels = names.into_iter().zip([one.into(), two.into()]).collect();
        (labels, count)
    });
    series.collect()
}

fn traffic(metrics: &Metrics) -> Vec<MetricFamily> {
    let row = |front: FrontEnd, name: &'static str, word: String, count: u64| {
        (vec![("front", front.name().to_owned()), (name, word)], count)
    };
    let resp = COMMANDS.iter().zip(&metrics.commands);
    let http = ROUTES.iter().zip(&metrics.routes);
    let commands = resp
        .map(|(command, count)| row(FrontEnd::Resp, "command", command.name.to_ascii_lowercase(), read(count)))
        .chain(http.map(|(route, count)| row(FrontEnd::Http, "command", route.name.to_owned(), read(count))))
        .collect();
    let faults = FaultCode::ALL.iter().zip(&metrics.faults);
    let statuses = (400..).zip(&metrics.statuses).filter(|(_, count)| read(count) > 0);
    let errors = faults
        .map(|(code, count)| row(FrontEnd::Resp, "code", code.word().to_owned(), read(count)))
        .chain(statuses.map(|(status, count): (u16, _)| row(FrontEnd::Http, "code", status.to_string(), read(count))))
        .collect();
    let connections = FrontEnd::ALL.iter().zip(&metrics.connections);
    let connections = connections
        .map(|(front, count)| (vec![("front", front.name().to_owned())], count.load(Ordering::Relaxed) as f64));
    let refused = ConnectionRefusal::ALL.iter().zip(&metrics.refused);
    let refused = refused.map(|(why, count)| (vec![("reason", why.name().to_owned())], read(count)));
    vec![
        family("tollgate_commands", "Commands and requests", MetricValues::Counters(commands)),
        family("tollgate_errors", "Error replies and answers", MetricValues::Counters(errors)),
        family("tollgate_connections", "Connections that are open", MetricValues::Gauges(connections.collect())),
        family("tollgate_connections_refused", "Connections not taken", MetricValues::Counters(refused.collect())),
    ]
}

fn buffers(metrics: &Metrics) -> Vec<MetricFamily> {
    let parts = |bytes: fn(&BufferUsage) -> usize| {
        let series = metrics.buffers.usage().map(|usage| (vec![("part", usage.part.to_owned())], bytes(&usage) as f64));
        MetricValues::Gauges(series.into())
    };
    vec![
        family("tollgate_buffer_bytes", "Bytes taken by buffers of connections", parts(|usage| usage.bytes)),
        family("tollgate_buffer_cap_bytes", "Bytes that buffers may take (--buffers)", parts(|usage| usage.limit)),
        family(
            "tollgate_buffer_refusals",
            "Times a long command, body or reply found no room in the shared buffers",
            MetricValues::counter(metrics.buffers.refused()),
        ),
    ]
}

fn home(stats: &HomeStats) -> Vec<MetricFamily> {
    match stats {
        HomeStats::Embedded(stats) => {
            vec![
                family("tollgate_store_keys", "Keys with a place of their own", MetricValues::gauge(stats.keys as f64)),
                family("tollgate_store_bytes", "Bytes taken by keys", MetricValues::gauge(stats.bytes as f64)),
                family("tollgate_store_cap_bytes", "Bytes that may be taken", MetricValues::gauge(stats.cap as f64)),
                family(
                    "tollgate_store_overflow_decisions",
                    "Decisions for keys that share a place, since memory is full",
                    MetricValues::counter(stats.overflow_decisions),
                ),
            ]
        }
        HomeStats::Redis(stats) => {
            let sources =
                [("home", stats.home), ("local", stats.local), ("open", stats.open), ("closed", stats.closed)];
            let sources = sources.into_iter().map(|(source, count)| (vec![("source", source.to_owned())], count));
            vec![
                family("tollgate_redis_decisions", "Decisions by source", MetricValues::Counters(sources.collect())),
                family("tollgate_redis_errors", "Calls the store did not answer", MetricValues::counter(stats.errors)),
                family(
                    "tollgate_redis_retries",
                    "Calls retried that had not run",
                    MetricValues::counter(stats.retries),
                ),
                family("tollgate_redis_reloads", "Times the script was sent", MetricValues::counter(stats.reloads)),
                family("tollgate_redis_batches", "Pipelines sent", MetricValues::counter(stats.batches)),
                family("tollgate_redis_calls", "Calls in them", MetricValues::counter(stats.calls)),
                family("tollgate_redis_connects", "Connections opened", MetricValues::counter(stats.connections)),
                family(
                    "tollgate_redis_open_breakers",
                    "Servers that are not asked at the moment",
                    MetricValues::gauge(stats.open_breakers as f64),
                ),
            ]
        }
    }
}

/// The data kept over a restart.
fn journal(status: &JournalStatus) -> Vec<MetricFamily> {
    let stats = &status.stats;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let age = if stats.snapshot_time == 0 { 0.0 } else { (now - stats.snapshot_time as f64 / 1e6).max(0.0) };
    vec![
        family(
            "tollgate_journal_health",
            "Whether what is decided is kept: 0 it is, 1 the disk is full, 2 it failed",
            MetricValues::gauge(f64::from(status.health)),
        ),
        family("tollgate_journal_frames", "Frames written since the start", MetricValues::counter(stats.frames)),
        family(
            "tollgate_journal_bytes",
            "Bytes of the journal since the latest snapshot",
            MetricValues::gauge(stats.since_snapshot as f64),
        ),
        family("tollgate_journal_syncs", "Syncs that ended well", MetricValues::counter(stats.syncs)),
        family("tollgate_journal_failed_syncs", "Syncs that failed", MetricValues::counter(stats.failed_syncs)),
        family(
            "tollgate_journal_longest_sync_seconds",
            "The longest sync since the start",
            MetricValues::gauge(stats.longest_sync.as_secs_f64()),
        ),
        family(
            "tollgate_journal_since_sync_seconds",
            "How long ago the latest sync ended, while something waits for the next; else 0",
            MetricValues::gauge(if stats.unsynced { stats.last_sync.as_secs_f64() } else { 0.0 }),
        ),
        family("tollgate_journal_snapshot_age_seconds", "How old the latest snapshot is", MetricValues::gauge(age)),
        family(
            "tollgate_journal_snapshot_bytes",
            "Bytes of the latest snapshot",
            MetricValues::gauge(stats.snapshot_bytes as f64),
        ),
        family(
            "tollgate_journal_snapshot_seconds",
            "How long the latest snapshot of this run took",
            MetricValues::gauge(status.snapshot_seconds),
        ),
        family(
            "tollgate_journal_failed_snapshots",
            "Snapshots that could not be written",
            MetricValues::counter(status.failed_snapshots),
        ),
        family(
            "tollgate_journal_replayed_frames",
            "Frames that the start did again",
            MetricValues::gauge(status.replayed_frames as f64),
        ),
        family(
            "tollgate_journal_recovered_keys",
            "Keys that the start found",
            MetricValues::gauge(status.recovered_keys as f64),
        ),
    ]
}

/// The keys of other conventions.
fn keyspace(engine: &Engine) -> Vec<MetricFamily> {
    let counts = engine.keyspace_stats();
    vec![
        family("tollgate_keyspace_keys", "Keys of other conventions", MetricValues::gauge(counts.keys as f64)),
        family("tollgate_keyspace_bytes", "Bytes they take", MetricValues::gauge(counts.bytes as f64)),
        family(
            "tollgate_keyspace_overflow_decisions",
            "Decisions on a state that keys share, since memory is full",
            MetricValues::counter(counts.overflowed),
        ),
    ]
}

/// The audit log, alerts and traces.
fn ops(ops: &Ops) -> Vec<MetricFamily> {
    let (written, lost) = ops.audit.counts();
    let [sent, failed, dropped] = ops.alerts.posts();
    let levels = ops.alerts.levels();
    let spans = ops.traces.as_ref().map(Traces::counts).unwrap_or_default();
    let labels = |policy: &str, percent: &str| vec![("policy", policy.to_owned()), ("percent", percent.to_owned())];
    let raised = levels.iter().map(|(policy, percent, raised, _)| (labels(policy, percent), *raised as f64));
    let totals = levels.iter().map(|(policy, percent, _, total)| (labels(policy, percent), *total));
    vec![
        family("tollgate_usage_keys", "Keys of which the usage is kept", MetricValues::gauge(ops.usage.keys() as f64)),
        family(
            "tollgate_near_limit",
            "Whether a key of the policy has used so many percent of a limit",
            MetricValues::Gauges(raised.collect()),
        ),
        family("tollgate_near_limit_raised", "How often that began", MetricValues::Counters(totals.collect())),
        family(
            "tollgate_webhook_posts",
            "Alerts that the webhook took, that it did not take, and that found no room to wait",
            results([("sent", sent), ("failed", failed), ("dropped", dropped)]),
        ),
        family(
            "tollgate_traces_spans",
            "Spans that the collector took, that it did not take, and that found no room to wait",
            results([("exported", spans.exported), ("failed", spans.failed), ("dropped", spans.dropped)]),
        ),
        family(
            "tollgate_audit_lines",
            "Lines of the audit file, written, and lost since it could not be written",
            results([("written", written), ("lost", lost)]),
        ),
    ]
}

fn results<const N: usize>(counts: [(&'static str, u64); N]) -> MetricValues {
    let series = counts.into_iter().map(|(result, count)| (vec![("result", result.to_owned())], count));
    MetricValues::Counters(series.collect())
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
