//! The query parameters of an address: each known, and given once at most.

use std::borrow::Cow;

use super::problem::HttpProblem;
use tollgate_keyspace::quoted;

/// Returns the values of parameters, in the order of `known`.
pub(super) fn parameters<'a, const N: usize>(
    query: Option<&'a str>,
    known: [&str; N],
) -> Result<[Option<Cow<'a, str>>; N], HttpProblem> {
    let mut values = [const { None }; N];
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let Some(place) = known.iter().position(|known| *known == name) else {
            let found = quoted(name.as_bytes());
            return Err(HttpProblem::bad_request(format!(
                "expected the parameters {}, found {found}",
                known.join(", ")
            )));
        };
        if values[place].replace(value).is_some() {
            return Err(HttpProblem::bad_request(format!("{name}: expected it once")));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_and_given_once() {
        let read = |query| parameters(query, ["policy", "cost"]).map_err(|problem| problem.detail);
        assert_eq!(read(None), Ok([None, None]));
        assert_eq!(read(Some("cost=2&policy=1%2Fs,%205/h")), Ok([Some("1/s, 5/h".into()), Some("2".into())]));
        assert_eq!(read(Some("policy=1/s+gcra")), Ok([Some("1/s gcra".into()), None]));
        assert!(read(Some("cost=1&cost=1")).unwrap_err().contains("cost: expected it once"));
        assert!(read(Some("key=1")).unwrap_err().contains("expected the parameters policy, cost, found \"key\""));
    }
}
