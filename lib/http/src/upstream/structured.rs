//! A parser for `RateLimit` as a structured field.

use sfv::{BareItem, Dictionary, List, ListEntry, Parameters, Parser};

use super::{MAX_LIMITS, UpstreamLimit, span};

/// The values of a draft-7 dictionary.
pub(crate) struct Draft7Dictionary {
    pub(crate) remaining: u64,
    pub(crate) reset: Option<u64>,
}

/// Returns the limits of a field; `None` if it is neither a list nor a dictionary of limits.
pub(super) fn limits(text: &[u8]) -> Option<Vec<UpstreamLimit>> {
    if let Ok(list) = Parser::new(text).parse::<List>() {
        let limits: Vec<UpstreamLimit> = list.iter().filter_map(member).take(MAX_LIMITS).collect();
        return (!limits.is_empty()).then_some(limits);
    }
    let Draft7Dictionary { remaining, reset } = dictionary(text)?;
    Some(vec![UpstreamLimit { name: String::new(), remaining, wait: reset.map(span) }])
}

/// Parses `"permin";r=9;t=60`. A member without `r` is ignored.
fn member(entry: &ListEntry) -> Option<UpstreamLimit> {
    let ListEntry::Item(item) = entry else { return None };
    let BareItem::String(name) = &item.bare_item else { return None };
    let number = |key: &str| parameter(&item.params, key);
    let remaining = number("r")?;
    Some(UpstreamLimit { name: name.as_str().to_owned(), remaining, wait: number("t").map(span) })
}

fn parameter(parameters: &Parameters, key: &str) -> Option<u64> {
    parameters.get(key).and_then(number)
}

fn number(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

/// Parses `limit=10, remaining=9, reset=60`.
pub(crate) fn dictionary(text: &[u8]) -> Option<Draft7Dictionary> {
    let dictionary = Parser::new(text).parse::<Dictionary>().ok()?;
    let entry = |key: &str| match dictionary.get(key) {
        Some(ListEntry::Item(item)) => number(&item.bare_item),
        _ => None,
    };
    Some(Draft7Dictionary { remaining: entry("remaining")?, reset: entry("reset") })
}
