//! The metrics as text: OpenMetrics, or the older Prometheus format that every scraper reads.

use std::fmt::{self, Write};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::families::{Labels, MetricFamily, MetricValues, families};
use super::histogram::HistogramReading;
use tollgate_engine::Engine;

/// Returns all metrics as OpenMetrics text.
pub(crate) fn exposition(engine: &Engine, metrics: &Metrics) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(FamilyCollector(families(engine, metrics))));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Converts OpenMetrics text as written here to Prometheus text 0.0.4. In that format a family has the name of its
/// series, has no unit, and cannot be of type `info`.
pub(crate) fn plain(open: &str) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            writeln!(text, "{line}")?;
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            // HELP precedes TYPE, and the name in its line depends on the type.
            (Some("HELP"), Some(_), said) => help = said,
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (ending, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                if let Some(help) = help.take() {
                    writeln!(text, "# HELP {name}{ending} {help}")?;
                }
                writeln!(text, "# TYPE {name}{ending} {kind}")?;
            }
            // UNIT and EOF.
            _ => {}
        }
    }
    Ok(text)
}

#[derive(Debug)]
struct FamilyCollector(Vec<MetricFamily>);

impl Collector for FamilyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| write(family, &mut encoder))
    }
}

fn write(family: &MetricFamily, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let MetricFamily { name, help, values } = family;
    let kind = match values {
        MetricValues::Counters(_) => MetricType::Counter,
        MetricValues::Gauges(_) => MetricType::Gauge,
        MetricValues::Histograms(_) => MetricType::Histogram,
        MetricValues::Info(_) => MetricType::Info,
    };
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    match values {
        MetricValues::Counters(series) => series.iter().try_for_each(|(labels, value)| match borrowed(labels) {
            none if none.is_empty() => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
            labels => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(value, None),
        }),
        MetricValues::Gauges(series) => series.iter().try_for_each(|(labels, value)| match borrowed(labels) {
            none if none.is_empty() => metric.encode_gauge(value),
            labels => metric.encode_family(&labels)?.encode_gauge(value),
        }),
        MetricValues::Histograms(series) => series.iter().try_for_each(|(labels, reading)| {
            let HistogramReading { sum, count, buckets } = reading;
            match borrowed(labels) {
                none if none.is_empty() => metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None),
                labels => metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None),
            }
        }),
        MetricValues::Info(labels) => metric.encode_info(&borrowed(labels)),
    }
}

fn borrowed(labels: &Labels) -> Vec<(&str, &str)> {
    labels.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_as_the_older_format() {
        let open = "# HELP seen Seen so far.\n# TYPE seen counter\nseen_total{a=\"# TYPE b info\"} 1\n\
                    # HELP made Its version.\n# TYPE made info\nmade_info{version=\"1\"} 1\n\
                    # HELP took_seconds Time.\n# TYPE took_seconds histogram\n# UNIT took_seconds seconds\n\
                    took_seconds_sum 0.5\ntook_seconds_bucket{le=\"+Inf\"} 2\n\
                    # TYPE open gauge\nopen 3.0\n# EOF\n";
        let older = "# HELP seen_total Seen so far.\n# TYPE seen_total counter\nseen_total{a=\"# TYPE b info\"} 1\n\
                     # HELP made_info Its version.\n# TYPE made_info gauge\nmade_info{version=\"1\"} 1\n\
                     # HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
                     took_seconds_sum 0.5\ntook_seconds_bucket{le=\"+Inf\"} 2\n\
                     # TYPE open gauge\nopen 3.0\n";
        assert_eq!(plain(open).unwrap(), older);
    }
}
