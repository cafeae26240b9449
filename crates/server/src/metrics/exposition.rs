//! What was gathered, as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::{Family, Labels, Values, families};
use crate::desk::Desk;

/// The text at `/metrics`.
pub(crate) fn exposition(desk: &Desk) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Gathered(families(desk))));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Gathered(Vec<Family>);

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| write(family, &mut encoder))
    }
}

fn write(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Family { name, help, values } = family;
    let kind = match values {
        Values::Counters(_) => MetricType::Counter,
        Values::Gauges(_) => MetricType::Gauge,
        Values::Histogram(..) => MetricType::Histogram,
        Values::Info(_) => MetricType::Info,
    };
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    match values {
        Values::Counters(series) => series.iter().try_for_each(|(labels, value)| match borrowed(labels) {
            none if none.is_empty() => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
            labels => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(value, None),
        }),
        Values::Gauges(series) => series.iter().try_for_each(|(labels, value)| match borrowed(labels) {
            none if none.is_empty() => metric.encode_gauge(value),
            labels => metric.encode_family(&labels)?.encode_gauge(value),
        }),
        Values::Histogram(sum, count, buckets) => metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None),
        Values::Info(labels) => metric.encode_info(&borrowed(labels)),
    }
}

fn borrowed(labels: &Labels) -> Vec<(&str, &str)> {
    labels.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
