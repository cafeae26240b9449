//! The options of the rolling limiter with modes, as its documentation has them: one limit, a list of limits or a map of
//! them. Also the keys and arguments that its client makes of them for [`rolling`](crate::rolling).

use serde_json::{Map, Value};
use tollgate_kernel::{Micros, Mode, Policy, Timestamp};

use crate::call::ParsedCall;
use crate::error::DialectError;
use crate::number::ExactDecimal;
use crate::rolling::{DIALECT, MODES};

const DEFAULT_BUCKETS: u64 = 10_000;

/// One limit: a maximum number of actions in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingLimit {
    interval: Micros,
    max: u64,
    min_difference: Micros,
    buckets: u64,
}

impl RollingLimit {
    /// Creates a limit of at most `max` actions in an interval.
    pub const fn new(interval: Micros, max: u64) -> Self {
        Self { interval, max, min_difference: Micros::ZERO, buckets: DEFAULT_BUCKETS }
    }

    /// Returns the same limit with a minimum time between two actions.
    #[must_use]
    pub const fn min_difference(self, min_difference: Micros) -> Self {
        Self { min_difference, ..self }
    }

    /// Returns the same limit with the interval split into `buckets` buckets.
    #[must_use]
    pub const fn buckets(self, buckets: u64) -> Self {
        Self { buckets, ..self }
    }
}

/// The options of a rolling limiter with modes.
///
/// ```
/// use tollgate_kernel::{KeyState, Micros, Mode, Timestamp};
/// use tollgate_dialects::{RollingLimit, RollingOptions};
/// let limiter = RollingOptions::list([
///     RollingLimit::new(Micros::from_secs(3_600), 1_000),
///     RollingLimit::new(Micros::from_secs(60), 100),
/// ])
/// .namespace("requestRateLimiter")
/// .mode(Mode::Nary);
/// assert_eq!(limiter.keys(b"user"), [b"requestRateLimiter:0:user", b"requestRateLimiter:1:user"]);
///
/// let now = Timestamp::new(1_700_000_000_000_000).unwrap();
/// let reply = limiter.call(b"user", 5, now).unwrap().run(&mut KeyState::default(), now).unwrap();
/// assert_eq!(reply.to_string(), "[95, 5, 0]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollingOptions {
    mode: Mode,
    namespace: Vec<u8>,
    /// The limits, each with its index, which is empty for a single limit.
    limits: Vec<(Vec<u8>, RollingLimit)>,
}

impl RollingOptions {
    /// Creates options with a single limit, whose index is empty.
    pub fn single(limit: RollingLimit) -> Self {
        Self::map([("", limit)])
    }

    /// Creates options with a list of limits; their indices count from 0.
    pub fn list(limits: impl IntoIterator<Item = RollingLimit>) -> Self {
        Self::map(limits.into_iter().enumerate().map(|(index, limit)| (index.to_string(), limit)))
    }

    /// Creates options with limits that have indices of their own.
    pub fn map<I: Into<Vec<u8>>>(limits: impl IntoIterator<Item = (I, RollingLimit)>) -> Self {
        let limits = limits.into_iter().map(|(index, limit)| (index.into(), limit)).collect();
        Self { mode: Mode::Binary, namespace: Vec::new(), limits }
    }

    /// Returns the same options under a mode other than binary.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the same options in a namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Vec<u8>>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Returns the same options with each maximum times `share`, rounded down and at least 1: the part of one of several
    /// processes, which decide by themselves while the store that they share does not answer.
    #[must_use]
    pub fn scaled(&self, share: f64) -> Self {
        // Maxima are below 2^53, so the product is exact enough to round down.
        let part = |max: u64| ((max as f64 * share) as u64).clamp(1, max.max(1));
        let limits = self.limits.iter();
        let limits = limits.map(|(index, limit)| (index.clone(), RollingLimit { max: part(limit.max), ..*limit }));
        Self { limits: limits.collect(), ..self.clone() }
    }

    /// Parses the document's options object: `interval` and `minDifference` are in milliseconds.
    ///
    /// ```
    /// use tollgate_dialects::RollingOptions;
    /// let limiter = RollingOptions::from_json(br#"{"interval": 1000, "maxInInterval": 10, "minDifference": 100}"#);
    /// assert_eq!(limiter.unwrap().keys(b"user"), [b"user"]);
    /// ```
    pub fn from_json(text: &[u8]) -> Result<Self, DialectError> {
        let Ok(Value::Object(options)) = serde_json::from_slice(text) else {
            return Err(DialectError::new("options", "a JSON object", text));
        };
        let read = match options.get("limits") {
            None | Some(Value::Null) => Self::single(read_limit("", &options)?),
            Some(Value::Array(limits)) => {
                let each = limits.iter().enumerate();
                let read = each.map(|(index, limit)| read_limit(&format!("limits[{index}] "), object(limit)?));
                Self::list(read.collect::<Result<Vec<_>, _>>()?)
            }
            Some(Value::Object(limits)) => {
                let read = limits.iter().map(|(index, limit)| {
                    Ok((index.as_bytes(), read_limit(&format!("limits[{index:?}] "), object(limit)?)?))
                });
                Self::map(read.collect::<Result<Vec<_>, DialectError>>()?)
            }
            Some(other) => return Err(wrong("limits", "an array or an object of limits", other)),
        };
        let mode = match options.get("mode") {
            None | Some(Value::Null) => Mode::Binary,
            Some(mode) => mode
                .as_str()
                .and_then(Mode::from_name)
                .ok_or_else(|| wrong("mode", "\"nary\", \"binary\" or \"uniform\"", mode))?,
        };
        let namespace = match options.get("namespace") {
            None | Some(Value::Null) => "",
            Some(namespace) => namespace.as_str().ok_or_else(|| wrong("namespace", "a text", namespace))?,
        };
        Ok(read.mode(mode).namespace(namespace))
    }

    /// Returns the keys of an id, one per limit: namespace, index and id joined by colons, without empty parts.
    pub fn keys(&self, id: &[u8]) -> Vec<Vec<u8>> {
        let key = |(index, _): &(Vec<u8>, RollingLimit)| {
            let parts = [&self.namespace[..], index, id];
            let parts: Vec<&[u8]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join(&b':')
        };
        self.limits.iter().map(key).collect()
    }

    /// Returns the arguments after the keys, as the original's client sends them.
    pub fn args(&self, n: &str, now_us: &str) -> Vec<Vec<u8>> {
        let mode = MODES.iter().position(|mode| *mode == self.mode).unwrap_or_default();
        let mut args = vec![mode.to_string(), n.to_owned(), now_us.to_owned()];
        let limits = || self.limits.iter().map(|(_, limit)| limit);
        args.extend(limits().map(|limit| limit.min_difference.get().to_string()));
        args.extend(limits().map(|limit| limit.max.to_string()));
        args.extend(limits().map(|limit| (limit.interval.get() as f64 / limit.buckets as f64).to_string()));
        args.extend(limits().map(|limit| limit.buckets.to_string()));
        args.into_iter().map(String::into_bytes).collect()
    }

    /// Returns the policy of these limits, or an error if any of them is invalid.
    pub fn policy(&self) -> Result<Policy, DialectError> {
        Ok(self.call(b"", 1, Timestamp::default())?.policy().clone().with_mode(self.mode))
    }

    /// Returns the namespace that was given.
    pub fn given_namespace(&self) -> &[u8] {
        &self.namespace
    }

    /// Returns the call for `n` actions of an id, or an error if anything is invalid.
    pub fn call(&self, id: &[u8], n: u64, now: Timestamp) -> Result<ParsedCall, DialectError> {
        let (keys, args) = (self.keys(id), self.args(&n.to_string(), &now.get().to_string()));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        (DIALECT.parse)(&keys, &args)
    }
}

fn wrong(argument: &str, expected: &str, found: &Value) -> DialectError {
    DialectError::new(argument, expected, found.to_string().as_bytes())
}

fn object(limit: &Value) -> Result<&Map<String, Value>, DialectError> {
    limit.as_object().ok_or_else(|| wrong("limits", "limits that are objects", limit))
}

fn read_limit(place: &str, limit: &Map<String, Value>) -> Result<RollingLimit, DialectError> {
    let millis = "a number of milliseconds, in whole microseconds";
    let interval = number(place, limit, "interval", &format!("{millis} above 0"), |interval| {
        micros(interval).filter(|micros| *micros > 0)
    })?;
    let missing = || wrong(&format!("{place}interval"), millis, &Value::Null);
    let max = number(place, limit, "maxInInterval", "an integer above 0", |max| max.whole().filter(|max| *max > 0))?;
    let no_max = || wrong(&format!("{place}maxInInterval"), "an integer above 0", &Value::Null);
    let spacing = number(place, limit, "minDifference", millis, micros)?.unwrap_or_default();
    let buckets = number(place, limit, "buckets", "an integer above 0", |buckets| buckets.whole().filter(|n| *n > 0))?;
    let read = RollingLimit::new(Micros::new(interval.ok_or_else(missing)?), max.ok_or_else(no_max)?);
    Ok(read.min_difference(Micros::new(spacing)).buckets(buckets.unwrap_or(DEFAULT_BUCKETS)))
}

/// Reads the number of that name; `None` if it is left out.
fn number(
    place: &str,
    limit: &Map<String, Value>,
    name: &str,
    expected: &str,
    read: impl Fn(ExactDecimal) -> Option<u64>,
) -> Result<Option<u64>, DialectError> {
    let value = match limit.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let decimal = value.as_number().and_then(|number| ExactDecimal::parse(number.to_string().as_bytes()));
    let read = decimal.and_then(read).map(Some);
    read.ok_or_else(|| wrong(&format!("{place}{name}"), expected, value))
}

fn micros(millis: ExactDecimal) -> Option<u64> {
    (millis.places() <= 3).then(|| millis.floor_shifted(3)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_kernel::{KeyState, Timestamp};

    const HOUR: RollingLimit = RollingLimit::new(Micros::from_secs(3_600), 1_000);

    fn text(keys: Vec<Vec<u8>>) -> Vec<String> {
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn empty_parts_of_a_key_are_left_out() {
        let single = RollingOptions::single(HOUR);
        assert_eq!(text(single.keys(b"")), [""]);
        assert_eq!(text(single.keys(b"id")), ["id"]);
        assert_eq!(text(single.clone().namespace("ns").keys(b"id")), ["ns:id"]);
        assert_eq!(text(single.namespace("ns").keys(b"")), ["ns"]);
        let list = RollingOptions::list([HOUR, HOUR]);
        assert_eq!(text(list.keys(b"")), ["0", "1"]);
        assert_eq!(text(list.namespace("ns").keys(b"id")), ["ns:0:id", "ns:1:id"]);
        let map = RollingOptions::map([("hour", HOUR), ("", HOUR)]).namespace("ns");
        assert_eq!(text(map.keys(b"id")), ["ns:hour:id", "ns:id"]);
    }

    #[test]
    fn the_documents_options_are_read() {
        let single = RollingOptions::from_json(
            br#"{"interval": 1000, "maxInInterval": 10, "minDifference": 100, "buckets": 1000, "mode": "binary"}"#,
        );
        let limit = RollingLimit::new(Micros::from_secs(1), 10).min_difference(Micros::new(100_000)).buckets(1_000);
        assert_eq!(single.unwrap(), RollingOptions::single(limit));
        let list = RollingOptions::from_json(
            br#"{"namespace": "requestRateLimiter", "mode": "nary",
                "limits": [{"interval": 3600000, "maxInInterval": 1000}, {"interval": 60000, "maxInInterval": 100}]}"#,
        );
        let minute = RollingLimit::new(Micros::from_secs(60), 100);
        assert_eq!(
            list.unwrap(),
            RollingOptions::list([HOUR, minute]).namespace("requestRateLimiter").mode(Mode::Nary)
        );
        let map = RollingOptions::from_json(br#"{"limits": {"hourly": {"interval": 3600000, "maxInInterval": 1000}}}"#);
        assert_eq!(map.unwrap(), RollingOptions::map([("hourly", HOUR)]));
    }

    #[test]
    fn the_client_sends_what_the_script_reads() {
        let third = RollingLimit::new(Micros::new(1_000), 2).buckets(3).min_difference(Micros::new(7));
        let args = RollingOptions::list([third, HOUR]).mode(Mode::Uniform).args("4", "99");
        let sent = ["0", "4", "99", "7", "0", "2", "1000", "333.3333333333333", "360000", "3", "10000"];
        assert_eq!(text(args), sent);
    }

    // Two limits with the same interval are distinguished by their position.
    #[test]
    fn the_same_limit_twice_works() {
        let limiter = RollingOptions::list([HOUR, HOUR]);
        let now = Timestamp::saturating(1_700_000_000_000_000);
        let reply = limiter.call(b"id", 1_000, now).unwrap().run(&mut KeyState::default(), now).unwrap();
        assert_eq!(reply.to_string(), "[0, 1000, 3600180000]");
    }

    #[test]
    fn wrong_options_are_named() {
        let millis = "a number of milliseconds, in whole microseconds";
        for (json, message) in [
            ("[]", r#"options: expected a JSON object, found "[]""#.to_owned()),
            (r#"{"maxInInterval": 1}"#, format!(r#"interval: expected {millis}, found "null""#)),
            (r#"{"interval": 1000}"#, r#"maxInInterval: expected an integer above 0, found "null""#.to_owned()),
            (r#"{"interval": -1, "maxInInterval": 1}"#, format!(r#"interval: expected {millis} above 0, found "-1""#)),
            (
                r#"{"interval": 1, "maxInInterval": 0}"#,
                r#"maxInInterval: expected an integer above 0, found "0""#.to_owned(),
            ),
            (
                r#"{"limits": [{"interval": 1, "maxInInterval": 1, "minDifference": -1}]}"#,
                format!(r#"limits[0] minDifference: expected {millis}, found "-1""#),
            ),
            (
                r#"{"limits": {"a": {"interval": 1, "maxInInterval": 1, "buckets": 0}}}"#,
                r#"limits["a"] buckets: expected an integer above 0, found "0""#.to_owned(),
            ),
            (r#"{"limits": 5}"#, r#"limits: expected an array or an object of limits, found "5""#.to_owned()),
            (r#"{"limits": [5]}"#, r#"limits: expected limits that are objects, found "5""#.to_owned()),
            (
                r#"{"interval": 1, "maxInInterval": 1, "mode": "trinary"}"#,
                r#"mode: expected "nary", "binary" or "uniform", found "\"trinary\"""#.to_owned(),
            ),
        ] {
            assert_eq!(RollingOptions::from_json(json.as_bytes()).unwrap_err().to_string(), message);
        }
        let none = RollingOptions::list([]).call(b"id", 1, Timestamp::default());
        assert_eq!(none.unwrap_err().to_string(), "keys: expected 1 or more, found 0");
    }
}
