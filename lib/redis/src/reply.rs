//! Parses the server's flat replies into decisions: integers in a fixed order, optionally followed by the name of
//! the source. Anything else is an error.

use redis::Value;
use tollgate_kernel::{Decision, Detail, JointDecision, Micros, Source, StoreError, Timestamp, Wait};

/// The number of integers of a decision with REST, and of a limit with FULL.
const DECISION: usize = 9;
const DETAIL: usize = 5;

/// What follows the integers of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyEnding {
    /// Its integers: only the home can have decided.
    Integers,
    /// The name of the source: a server may decide without its own store.
    Source,
}

/// Parses a decision with REST.
pub(crate) fn decision(value: &Value, ending: ReplyEnding) -> Result<Decision, StoreError> {
    let (numbers, source) = parts(value, ending)?;
    one(&numbers, source).ok_or_else(|| unexpected(value))
}

/// Parses a decision with FULL for a policy with `limits` limits.
pub(crate) fn full(value: &Value, ending: ReplyEnding, limits: usize) -> Result<(Decision, Vec<Detail>), StoreError> {
    let (numbers, source) = parts(value, ending)?;
    if numbers.len() != DECISION + limits * DETAIL {
        return Err(unexpected(value));
    }
    let (first, rest) = numbers.split_at(DECISION);
    let details: Option<Vec<Detail>> = rest.chunks(DETAIL).map(detail).collect();
    one(first, source).zip(details).ok_or_else(|| unexpected(value))
}

/// Parses the answer to `count` parts decided together.
pub(crate) fn together(value: &Value, ending: ReplyEnding, count: usize) -> Result<JointDecision, StoreError> {
    let (numbers, source) = parts(value, ending)?;
    let [allowed, retry_after, rest @ ..] = numbers.as_slice() else { return Err(unexpected(value)) };
    if rest.len() != count * DECISION {
        return Err(unexpected(value));
    }
    let decisions: Option<Vec<Decision>> = rest.chunks(DECISION).map(|part| one(part, source)).collect();
    let answer = wait(*retry_after).zip(decisions);
    answer
        .map(|(retry_after, decisions)| JointDecision { allowed: *allowed == 1, retry_after, decisions })
        .ok_or_else(|| unexpected(value))
}

/// Parses one integer that is not negative.
pub(crate) fn count(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(count) => units(*count).ok_or_else(|| unexpected(value)),
        _ => Err(unexpected(value)),
    }
}

fn one(numbers: &[i64], source: Source) -> Option<Decision> {
    let &[allowed, granted, remaining, retry, reset, limited_by, charged, next, at] = numbers else { return None };
    Some(Decision {
        allowed: allowed == 1,
        granted: units(granted)?,
        charged: units(charged)?,
        remaining,
        retry_after: wait(retry)?,
        next_after: wait(next)?,
        reset_after: Micros::new(units(reset)?),
        limited_by: usize::try_from(limited_by).ok()?.checked_sub(1),
        at: Timestamp::new(units(at)?)?,
        source,
    })
}

fn detail(numbers: &[i64]) -> Option<Detail> {
    let &[fits, remaining, retry, reset, count] = numbers else { return None };
    Some(Detail {
        fits: fits == 1,
        remaining,
        retry_after: wait(retry)?,
        reset_after: Micros::new(units(reset)?),
        count: units(count)?,
    })
}

fn units(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn wait(us: i64) -> Option<Wait> {
    if us == -1 { Some(Wait::Never) } else { units(us).map(|us| Wait::After(Micros::new(us))) }
}

/// Returns the integers and the source.
fn parts(value: &Value, ending: ReplyEnding) -> Result<(Vec<i64>, Source), StoreError> {
    split(value, ending).ok_or_else(|| unexpected(value))
}

fn split(value: &Value, ending: ReplyEnding) -> Option<(Vec<i64>, Source)> {
    let Value::Array(values) = value else { return None };
    let (integers, source) = match ending {
        ReplyEnding::Integers => (values.as_slice(), Source::Home),
        ReplyEnding::Source => {
            let (last, integers) = values.split_last()?;
            (integers, source(last)?)
        }
    };
    let integer = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    Some((integers.iter().map(integer).collect::<Option<Vec<i64>>>()?, source))
}

fn source(value: &Value) -> Option<Source> {
    let word = match value {
        Value::BulkString(bytes) => bytes.as_slice(),
        Value::SimpleString(text) => text.as_bytes(),
        _ => return None,
    };
    let all = [Source::Home, Source::Local, Source::Open, Source::Closed];
    all.into_iter().find(|source| source.name().as_bytes() == word)
}

fn unexpected(value: &Value) -> StoreError {
    StoreError::Refused(format!(
        "expected the integers of a decision, found {value:?}; is the other side of another release?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().map(|number| Value::Int(*number)).collect())
    }

    #[test]
    fn a_written_decision_is_parsed_back() {
        let written = [0, 0, -3, -1, 5, 2, 4, 7, 1_700_000_000_000_000];
        let decision = decision(&array(&written), ReplyEnding::Integers).unwrap();
        assert_eq!([&decision.flat()[..], &decision.flat_rest()[..]].concat(), written);
        let (_, details) = full(&array(&[&written[..], &[1, 2, 0, 9, 10]].concat()), ReplyEnding::Integers, 1).unwrap();
        assert_eq!(details[0].flat(), [1, 2, 0, 9, 10]);
        let all = together(&array(&[&[0, -1][..], &written, &written].concat()), ReplyEnding::Integers, 2).unwrap();
        assert_eq!((all.allowed, all.retry_after, all.decisions.len()), (false, Wait::Never, 2));
    }

    #[test]
    fn the_source_is_the_last_element() {
        let written = [1, 1, 4, 0, 5, 0, 1, 0, 1_700_000_000_000_000];
        let reply = |numbers: &[i64], word: Value| {
            let Value::Array(values) = array(numbers) else { unreachable!() };
            Value::Array([values, vec![word]].concat())
        };
        for expected in [Source::Home, Source::Local, Source::Open, Source::Closed] {
            let bulk = || Value::BulkString(expected.name().into());
            let simple = Value::SimpleString(expected.name().into());
            assert_eq!(decision(&reply(&written, bulk()), ReplyEnding::Source).unwrap().source, expected);
            assert_eq!(decision(&reply(&written, simple), ReplyEnding::Source).unwrap().source, expected);
            let numbers = [&written[..], &[1, 2, 0, 9, 10]].concat();
            assert_eq!(full(&reply(&numbers, bulk()), ReplyEnding::Source, 1).unwrap().0.source, expected);
            let numbers = [&[1, 0][..], &written, &written].concat();
            let all = together(&reply(&numbers, bulk()), ReplyEnding::Source, 2).unwrap();
            assert!(all.decisions.iter().all(|decision| decision.source == expected));
        }
        let home = || Value::BulkString("home".into());
        for wrong in [
            array(&written),
            array(&[]),
            reply(&written, Value::Int(1)),
            reply(&written, Value::BulkString("HOME".into())),
            reply(&written, Value::BulkString("elsewhere".into())),
            reply(&written[..6], home()),
        ] {
            assert!(matches!(decision(&wrong, ReplyEnding::Source), Err(StoreError::Refused(_))), "{wrong:?}");
        }
        assert!(decision(&reply(&written, home()), ReplyEnding::Integers).is_err(), "a word that was not requested");
    }

    #[test]
    fn anything_else_is_an_error() {
        let good = [1, 1, 0, 0, 5, 0, 1, 7, 1_700_000_000_000_000];
        let rows = [
            Value::Nil,
            Value::Int(3),
            array(&[]),
            array(&good[..8]),
            array(&[1, -1, 0, 0, 5, 0, 1, 7, 9]),
            array(&[1, 1, 0, 0, 5, 0, 1, 7, i64::MAX]),
            array(&[1, 1, 0, -2, 5, 0, 1, 7, 9]),
        ];
        for row in rows {
            assert!(matches!(decision(&row, ReplyEnding::Integers), Err(StoreError::Refused(_))), "{row:?}");
        }
        assert!(full(&array(&good), ReplyEnding::Integers, 1).is_err());
        assert!(together(&array(&good), ReplyEnding::Integers, 1).is_err());
        assert!(count(&Value::Int(-1)).is_err());
    }
}
