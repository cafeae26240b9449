//! The canonical text of a limit: defaults are left out, and options are in the order of the grammar.

use std::fmt;

use crate::algorithms::Rule;
use crate::limit::Limit;
use crate::options::Alignment;
use crate::units::Micros;

/// The units from the longest, each with the word that the grammar prefers.
pub(crate) const UNITS: &[(u64, &str)] = &[
    (7 * 86_400_000_000, "w"),
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
];

pub(crate) fn limit(f: &mut fmt::Formatter<'_>, limit: &Limit) -> fmt::Result {
    let (count, period, options) = limit.rule().numbers();
    write!(f, "{count}/")?;
    let (number, unit) = whole_units(period);
    if number == 1 {
        write!(f, "{unit}")?
    } else {
        write!(f, "{number}{unit}")?
    }
    if !matches!(limit.rule(), Rule::Sliding(_)) {
        write!(f, " {}", limit.rule().name())?;
    }
    if let Some(burst) = options.burst {
        write!(f, " burst={burst}")?;
    }
    if let Some(buckets) = options.buckets {
        write!(f, " buckets={buckets}")?;
    }
    if let Some(level) = options.level {
        write!(f, " level={level}")?;
    }
    for (name, value) in [("grain", options.grain), ("resolution", options.resolution)] {
        option_period(f, name, value)?;
    }
    if let Some(factor) = options.factor {
        write!(f, " factor={factor}")?;
    }
    option_period(f, "spacing", limit.spacing())?;
    if options.align == Some(Alignment::Clock) {
        f.write_str(" align=clock")?;
    }
    if let Some(name) = limit.given_name() {
        write!(f, " name={name}")?;
    }
    Ok(())
}

fn option_period(f: &mut fmt::Formatter<'_>, name: &str, value: Option<Micros>) -> fmt::Result {
    if let Some(value) = value {
        let (number, unit) = whole_units(value);
        write!(f, " {name}={number}{unit}")?;
    }
    Ok(())
}

/// Returns the period in the longest unit of which it is a multiple.
fn whole_units(period: Micros) -> (u64, &'static str) {
    let whole = UNITS.iter().find(|(size, _)| period.get() >= *size && period.get().is_multiple_of(*size));
    let (size, unit) = whole.copied().unwrap_or((1, "us"));
    (period.get() / size, unit)
}
