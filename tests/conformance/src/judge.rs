//! Whether an answer is right, by the rules of `vectors/README.md`.

use serde_json::{Map, Value};

/// How close floats must come.
const CLOSE: f64 = 1e-6;

/// What is thought of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every expected field matches.
    Right,
    /// A field does not match, or it is an error where none was expected, or the reverse.
    Wrong(String),
    /// An expected field is not there.
    Missing(String),
    /// Refused as an error where none was expected. Only scenarios with big numbers may do that.
    Refused,
}

/// Judges an answer by `vector`, the line with its expectation.
pub fn judge(vector: &Map<String, Value>, answer: &Value) -> Verdict {
    let Some(Value::Object(expect)) = vector.get("expect") else {
        return Verdict::Wrong("the vector expects nothing".to_owned());
    };
    let Value::Object(answer) = answer else {
        return Verdict::Wrong(format!("not an object: {answer}"));
    };
    let (expected_error, error) = (is_error(expect), is_error(answer));
    if error && !expected_error {
        return Verdict::Refused;
    }
    if expected_error {
        return if error { Verdict::Right } else { Verdict::Wrong("expected an error".to_owned()) };
    }
    let mut missing = None;
    for (name, wanted) in expect.iter().filter(|(name, _)| *name != "accept_headers") {
        let Some(given) = answer.get(name) else {
            missing = missing.or(Some(name));
            continue;
        };
        let others = match name.as_str() {
            "headers" => expect.get("accept_headers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        if !same(wanted, given) && !others.iter().any(|other| same(other, given)) {
            return Verdict::Wrong(format!("{name}: expected {wanted}, found {given}"));
        }
    }
    missing.map_or(Verdict::Right, |name| Verdict::Missing(name.clone()))
}

/// Whether an answer says that the call was refused as invalid.
pub(crate) fn is_error(answer: &Map<String, Value>) -> bool {
    answer.get("error") == Some(&Value::Bool(true))
}

/// Numbers are exact, except where a float is wanted.
fn same(wanted: &Value, given: &Value) -> bool {
    match (wanted, given) {
        (Value::Array(wanted), Value::Array(given)) => {
            wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| same(wanted, given))
        }
        (Value::Number(wanted), Value::Number(given)) if wanted.is_f64() => match (wanted.as_f64(), given.as_f64()) {
            (Some(wanted), Some(given)) => (wanted - given).abs() <= CLOSE * wanted.abs().max(given.abs()),
            _ => false,
        },
        _ => wanted == given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(vector: Value, answer: Value) -> Verdict {
        judge(vector.as_object().unwrap(), &answer)
    }

    #[test]
    fn every_expected_field_must_match() {
        let vector = json!({"expect": {"allowed": true, "remaining": 3}});
        assert_eq!(verdict(vector.clone(), json!({"allowed": true, "remaining": 3, "more": 1})), Verdict::Right);
        let wrong = Verdict::Wrong("remaining: expected 3, found 2".to_owned());
        assert_eq!(verdict(vector.clone(), json!({"allowed": true, "remaining": 2})), wrong);
        assert_eq!(verdict(vector.clone(), json!({"remaining": 3})), Verdict::Missing("allowed".to_owned()));
        assert_eq!(verdict(vector.clone(), json!({"remaining": 2})), wrong);
        assert_eq!(verdict(vector.clone(), json!({"error": true})), Verdict::Refused);
        assert_eq!(verdict(vector, json!([])), Verdict::Wrong("not an object: []".to_owned()));
    }

    #[test]
    fn an_expected_error_must_be_one() {
        let vector = json!({"expect": {"error": true}});
        assert_eq!(verdict(vector.clone(), json!({"error": true})), Verdict::Right);
        assert_eq!(verdict(vector.clone(), json!({"allowed": false})), Verdict::Wrong("expected an error".to_owned()));
        assert_eq!(verdict(vector, json!({"error": false})), Verdict::Wrong("expected an error".to_owned()));
    }

    #[test]
    fn integers_are_exact_and_floats_are_close() {
        let integer = json!({"expect": {"wait": 9_007_199_254_740_993u64}});
        assert!(matches!(verdict(integer, json!({"wait": 9_007_199_254_740_992u64})), Verdict::Wrong(_)));
        let float = json!({"expect": {"counts": [1.5, 0.0]}});
        assert_eq!(verdict(float.clone(), json!({"counts": [1.500_000_1, 0]})), Verdict::Right);
        assert!(matches!(verdict(float.clone(), json!({"counts": [1.500_01, 0.0]})), Verdict::Wrong(_)));
        assert!(matches!(verdict(float, json!({"counts": [1.5]})), Verdict::Wrong(_)));
    }

    #[test]
    fn headers_that_are_as_good_are_accepted() {
        let vector = json!({"expect": {"headers": ["2", "1", "0"], "accept_headers": [["2", "0", "0"]]}});
        assert_eq!(verdict(vector.clone(), json!({"headers": ["2", "1", "0"]})), Verdict::Right);
        assert_eq!(verdict(vector.clone(), json!({"headers": ["2", "0", "0"]})), Verdict::Right);
        assert!(matches!(verdict(vector, json!({"headers": ["2", "2", "0"]})), Verdict::Wrong(_)));
    }

    #[test]
    fn null_is_a_value_and_not_an_absence() {
        let vector = json!({"expect": {"last": null}});
        assert_eq!(verdict(vector.clone(), json!({"last": null})), Verdict::Right);
        assert_eq!(verdict(vector, json!({})), Verdict::Missing("last".to_owned()));
    }
}
