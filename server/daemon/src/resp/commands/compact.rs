//! A policy as Tollgate's clients send it to Redis: a JSON list of `[algorithm, count, period, option, spacing, tag]`.
//! It means the same as the policy in text, so a limit whose tag marks it as named is refused: the name cannot be
//! recovered from the tag, and its state is stored under that name.

use serde_json::Value;
use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::{AlgorithmOptions, Alignment, Limit, Micros, Options, Policy};

use tollgate_keyspace::{Fault, quoted};

/// The longest compact policy, in bytes.
const MAX_LEN: usize = 8_192;

/// Parses a compact policy.
pub(super) fn parse(text: &[u8]) -> Result<Policy, Fault> {
    if text.len() > MAX_LEN {
        return Err(Fault::wrong(format!("policy: expected at most {MAX_LEN} bytes, found {}", text.len())));
    }
    let Ok(Value::Array(limits)) = serde_json::from_slice(text) else {
        return Err(wrong(text, "a JSON list of limits"));
    };
    let limits: Result<Vec<Limit>, Fault> =
        limits.iter().map(|limit| parse_limit(limit).map_err(|expected| wrong(text, &expected))).collect();
    Policy::new(limits?).map_err(|error| Fault::wrong(format!("policy: {error}")))
}

fn wrong(text: &[u8], expected: &str) -> Fault {
    Fault::wrong(format!(
        "policy: expected {expected}, or the policy as text such as \"100/min\", found {}",
        quoted(text)
    ))
}

fn parse_limit(limit: &Value) -> Result<Limit, String> {
    let form = || "limits of the form [algorithm, count, period, option, spacing, tag]".to_owned();
    let Some([name, count, period, option, spacing, tag]) = limit.as_array().map(Vec::as_slice) else {
        return Err(form());
    };
    let (Some(name), Some(tag)) = (name.as_str(), tag.as_str()) else { return Err(form()) };
    let (Some(count), Some(period), Some(spacing)) = (count.as_u64(), period.as_u64(), spacing.as_u64()) else {
        return Err(form());
    };
    let whole = option.as_u64();
    let takes =
        ALGORITHMS.iter().find(|listed| listed.name == name).map_or(AlgorithmOptions::NONE, |listed| listed.takes);
    let options = Options {
        burst: whole.filter(|_| takes.burst),
        grain: whole.filter(|grain| takes.grain && *grain != 1).map(Micros::new),
        resolution: whole.filter(|_| takes.resolution).map(Micros::new),
        factor: option.as_f64().filter(|_| takes.factor),
        align: (takes.align && whole == Some(1)).then_some(Alignment::Clock),
        ..Options::default()
    };
    let built = Limit::build(name, count, Micros::new(period), &options);
    let built = built.and_then(|limit| limit.spaced(Micros::new(spacing))).map_err(|problem| problem.expected)?;
    if tollgate_redis::lua::tag(&built) != tag {
        return Err("limits without a name, whose tag says so".to_owned());
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_clients_write_is_read_as_the_same_policy() {
        for text in [
            "100/min",
            "1/5s, 5/h",
            "10/s gcra burst=20",
            "10/s gcra",
            "1000/h fixed align=clock",
            "1000/h fixed",
            "5/h slots resolution=10min",
            "15/60s bucket burst=3",
            "100/s spacing=10ms",
            "100/s estimate",
            "5/min decay factor=1.5",
            "1000/min grain=1s",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(parse(tollgate_redis::lua::compact(&policy).as_bytes()).unwrap(), policy, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_to_send_text() {
        let named: Policy = "5/h name=login".parse().unwrap();
        for (text, said) in [
            (tollgate_redis::lua::compact(&named), "without a name"),
            ("[".to_owned(), "a JSON list"),
            ("[[1]]".to_owned(), "[algorithm, count"),
            ("[[\"gcra\",0,1,1,0,\"00000000\"]]".to_owned(), "policy: expected"),
            ("[[\"nosuch\",1,1,1,0,\"00000000\"]]".to_owned(), "the name of an algorithm"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("as text such as \"100/min\""), "{error}");
        }
    }
}
