//! The server's flat replies as decisions: integers in a fixed order, and nothing else is believed.

use redis::Value;
use tollgate_core::{Decision, Detail, Micros, Source, StoreError, Timestamp, Together, Wait};

/// Integers of a decision with REST, and of a limit with FULL.
const DECISION: usize = 9;
const DETAIL: usize = 5;

/// A decision with REST.
pub(crate) fn decision(value: &Value) -> Result<Decision, StoreError> {
    let numbers = integers(value)?;
    match numbers.as_slice() {
        exact if exact.len() == DECISION => one(exact).ok_or_else(|| unexpected(value)),
        _ => Err(unexpected(value)),
    }
}

/// A decision with FULL for a policy of `limits` limits.
pub(crate) fn full(value: &Value, limits: usize) -> Result<(Decision, Vec<Detail>), StoreError> {
    let numbers = integers(value)?;
    if numbers.len() != DECISION + limits * DETAIL {
        return Err(unexpected(value));
    }
    let (first, rest) = numbers.split_at(DECISION);
    let details: Option<Vec<Detail>> = rest.chunks(DETAIL).map(detail).collect();
    one(first).zip(details).ok_or_else(|| unexpected(value))
}

/// The answer to `parts` parts decided together.
pub(crate) fn together(value: &Value, parts: usize) -> Result<Together, StoreError> {
    let numbers = integers(value)?;
    let [allowed, retry_after, rest @ ..] = numbers.as_slice() else { return Err(unexpected(value)) };
    if rest.len() != parts * DECISION {
        return Err(unexpected(value));
    }
    let decisions: Option<Vec<Decision>> = rest.chunks(DECISION).map(one).collect();
    let answer = wait(*retry_after).zip(decisions);
    answer
        .map(|(retry_after, decisions)| Together { allowed: *allowed == 1, retry_after, decisions })
        .ok_or_else(|| unexpected(value))
}

/// One integer, not negative.
pub(crate) fn count(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(count) => units(*count).ok_or_else(|| unexpected(value)),
        _ => Err(unexpected(value)),
    }
}

fn one(numbers: &[i64]) -> Option<Decision> {
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
        source: Source::Home,
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

fn integers(value: &Value) -> Result<Vec<i64>, StoreError> {
    let Value::Array(values) = value else { return Err(unexpected(value)) };
    let integer = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    values.iter().map(integer).collect::<Option<Vec<i64>>>().ok_or_else(|| unexpected(value))
}

fn unexpected(value: &Value) -> StoreError {
    StoreError::Refused(format!(
        "expected the integers of a decision, found {value:?}; is the script another release's?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().map(|number| Value::Int(*number)).collect())
    }

    #[test]
    fn what_a_decision_writes_is_read_back() {
        let written = [0, 0, -3, -1, 5, 2, 4, 7, 1_700_000_000_000_000];
        let decision = decision(&array(&written)).unwrap();
        assert_eq!([&decision.flat()[..], &decision.flat_rest()[..]].concat(), written);
        let (_, details) = full(&array(&[&written[..], &[1, 2, 0, 9, 10]].concat()), 1).unwrap();
        assert_eq!(details[0].flat(), [1, 2, 0, 9, 10]);
        let all = together(&array(&[&[0, -1][..], &written, &written].concat()), 2).unwrap();
        assert_eq!((all.allowed, all.retry_after, all.decisions.len()), (false, Wait::Never, 2));
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
            assert!(matches!(decision(&row), Err(StoreError::Refused(_))), "{row:?}");
        }
        assert!(full(&array(&good), 1).is_err());
        assert!(together(&array(&good), 1).is_err());
        assert!(count(&Value::Int(-1)).is_err());
    }
}
