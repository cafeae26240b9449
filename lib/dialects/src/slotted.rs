//! What `slot_window` and `ar1` of o1.rate-limiter share: `KEY count namespace limits now [want_wait]`.
//!
//! A count below 0 resets, 0 tests, and above 0 counts, even when the limit is exceeded. All times are in the caller's
//! unit. They are converted to whole ticks of a millionth of the unit or more, depending on how large `now` is, so the
//! tick is the same for all limits of all calls of one clock. All changes happen on a tick, so a `now` between two
//! ticks decides like the tick before it, and a wait rounded up to the caller's unit is the same.

use serde_json::{Number, Value};
use tollgate_kernel::{Cost, Decision, Detail, EXACT, Limit, Micros, Mode, Policy, Request, Timestamp, Wait, muldiv};

use crate::api_counter::ApiCounterUsage;
use crate::arguments::one_key;
use crate::call::{Action, CallClock, Convention, ParsedCall};
use crate::error::DialectError;
use crate::number::ExactDecimal;
use crate::reply::{DialectReply, ReplyValue};

/// The longest time that Redis keeps a state, whatever unit the caller counts in.
const MAX_LIFE: u64 = 366 * 86_400_000_000;

/// The names of the three numbers of a limit: the name for errors, then the names in objects.
pub(crate) type LimitFields = [(&'static str, &'static [&'static str]); 3];

/// The parsed arguments. The numbers of the limits are not yet checked.
pub(crate) struct SlottedArguments<'a> {
    state_key: Vec<u8>,
    state_name: Option<Vec<u8>>,
    /// `None` for a reset.
    count: Option<Cost>,
    now: &'a [u8],
    want_wait: bool,
    pub(crate) limits: Vec<[LimitNumber; 3]>,
}

/// A number of a limit, and its name.
pub(crate) struct LimitNumber {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) decimal: ExactDecimal,
    pub(crate) double: f64,
}

impl LimitNumber {
    pub(crate) fn wrong(&self, expected: impl Into<String>) -> DialectError {
        DialectError::new(self.name.as_str(), expected, self.text.as_bytes())
    }
}

/// The length of a tick: 10^-places of the caller's unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) places: u32,
}

/// The possible decimals of a tick, the most first. Those are used that leave the caller's clock below 2^53 ticks.
const PLACES: [u32; 3] = [6, 3, 0];

impl Ticks {
    /// Returns the shortest tick in which all these times can be counted.
    fn counting<'a>(times: impl Iterator<Item = &'a ExactDecimal> + Clone) -> Self {
        let fits =
            |places: u32| times.clone().all(|time| time.floor_shifted(places).is_some_and(|ticks| ticks < EXACT));
        Self { places: PLACES.into_iter().find(|places| fits(*places)).unwrap_or(0) }
    }

    /// Converts a time of a limit to ticks.
    pub(crate) fn span(self, time: &LimitNumber) -> Result<Micros, DialectError> {
        if time.decimal.places() > self.places {
            return Err(time.wrong(format!("a multiple of {}", self.tick())));
        }
        let ticks = time.decimal.floor_shifted(self.places).filter(|ticks| (1..EXACT).contains(ticks));
        ticks.map(Micros::new).ok_or_else(|| time.wrong(format!("above 0 and below 2^53 ticks of {}", self.tick())))
    }

    fn now(self, text: &[u8]) -> Result<Timestamp, DialectError> {
        let ticks = ExactDecimal::parse(text).and_then(|now| now.floor_shifted(self.places));
        let expected = || format!("a time from 0 and below 2^53 ticks of {}", self.tick());
        ticks.and_then(Timestamp::new).ok_or_else(|| DialectError::new("now", expected(), text))
    }

    /// Converts a time to the caller's unit, rounded up.
    fn up(self, span: Micros) -> i64 {
        let tick = 10u64.checked_pow(self.places).unwrap_or(u64::MAX);
        // Below 2^54 ticks.
        span.get().div_ceil(tick) as i64
    }

    fn tick(self) -> String {
        match self.places {
            0 => "1".to_owned(),
            places => format!("1e-{places}"),
        }
    }
}

/// Parses the arguments.
pub(crate) fn read<'a>(
    keys: &[&'a [u8]],
    args: &[&'a [u8]],
    fields: &LimitFields,
) -> Result<SlottedArguments<'a>, DialectError> {
    let key = one_key(keys)?;
    let (count, namespace, limits, now, want_wait) = match *args {
        [count, namespace, limits, now] => (count, namespace, limits, now, b"".as_slice()),
        [count, namespace, limits, now, want_wait] => (count, namespace, limits, now, want_wait),
        _ => {
            let expected = "4 or 5 (count, namespace, limits, now, want_wait)";
            return Err(DialectError::number("arguments", expected, args.len()));
        }
    };
    Ok(SlottedArguments {
        state_key: state_key(namespace, key),
        state_name: state_name(namespace, key),
        count: read_count(count)?,
        now,
        want_wait: !matches!(want_wait, b"" | b"0"),
        limits: read_limits(limits, fields)?,
    })
}

/// Returns `namespace:{key}` as the original writes it, but with the braces of the key escaped, so that no key reaches
/// into another namespace.
fn state_key(namespace: &[u8], key: &[u8]) -> Vec<u8> {
    [namespace, &escaped(key)].concat()
}

/// Returns `:{key}` with the braces of the key escaped.
fn escaped(key: &[u8]) -> Vec<u8> {
    let mut name = b":{".to_vec();
    for byte in key {
        match byte {
            b'{' => name.extend(b"%7B"),
            b'}' => name.extend(b"%7D"),
            b'%' => name.extend(b"%25"),
            _ => name.push(*byte),
        }
    }
    name.push(b'}');
    name
}

/// Returns the name `namespace:{key}` at which a state is stored: it begins with the namespace and is in the slot of the
/// key in a cluster. Returns `None` where no such name exists, because the key is empty or has a `}`, or the namespace has
/// a `{`; the state is then stored at the key.
pub fn state_name(namespace: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let has_name = !key.is_empty() && !key.contains(&b'}') && !namespace.contains(&b'{');
    has_name.then(|| [namespace, b":{", key, b"}"].concat())
}

/// Returns the key of a name that [`state_name`] may have returned.
pub fn key_of_name(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|byte| *byte == b'{')?;
    let key = name.get(open + 1..)?.strip_suffix(b"}")?;
    (open > 0 && name[open - 1] == b':' && !key.is_empty() && !key.contains(&b'}')).then_some(key)
}

/// Returns the namespace of a [`ParsedCall::state_key`] of this key.
pub fn namespace_of<'a>(state_key: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    state_key.strip_suffix(&*escaped(key))
}

fn read_count(text: &[u8]) -> Result<Option<Cost>, DialectError> {
    let wrong = || DialectError::new("count", format!("an integer of at most {}", EXACT - 1), text);
    let number = ExactDecimal::parse(text).filter(|number| number.places() == 0).ok_or_else(wrong)?;
    if number.is_negative() {
        return Ok(None);
    }
    number.whole().and_then(Cost::new).map(Some).ok_or_else(wrong)
}

fn read_limits(text: &[u8], fields: &LimitFields) -> Result<Vec<[LimitNumber; 3]>, DialectError> {
    let wrong = || {
        let names = fields.map(|(name, _)| name).join(", ");
        DialectError::new("limits", format!("a JSON array of limits such as [[{names}]]"), text)
    };
    let Ok(Value::Array(limits)) = serde_json::from_slice(text) else {
        return Err(wrong());
    };
    limits.iter().enumerate().map(|(index, limit)| read_limit(index, limit, fields).ok_or_else(wrong)).collect()
}

fn read_limit(index: usize, limit: &Value, fields: &LimitFields) -> Option<[LimitNumber; 3]> {
    let given = |place: usize| {
        let (name, names) = fields.get(place)?;
        let value = match limit {
            Value::Array(numbers) if numbers.len() == fields.len() => numbers.get(place),
            Value::Object(object) => names.iter().find_map(|name| object.get(*name)),
            _ => None,
        };
        match value? {
            Value::Number(number) => read_number(format!("limits[{index}] {name}"), number),
            _ => None,
        }
    };
    Some([given(0)?, given(1)?, given(2)?])
}

fn read_number(name: String, number: &Number) -> Option<LimitNumber> {
    let text = number.to_string();
    Some(LimitNumber { name, decimal: ExactDecimal::parse(text.as_bytes())?, double: number.as_f64()?, text })
}

impl SlottedArguments<'_> {
    /// Returns the ticks of the caller's clock. A reset needs no clock; it uses any ticks that suit the limits.
    pub(crate) fn ticks(&self) -> Ticks {
        match (self.count, ExactDecimal::parse(self.now)) {
            (Some(_), Some(now)) => Ticks::counting([now].iter()),
            _ => Ticks::counting(self.limits.iter().flat_map(|given| &given[1..]).map(|given| &given.decimal)),
        }
    }

    /// Builds the call, with limits in policy order. `longest` is the lifetime of a state in ticks, if it is not simply
    /// the time left until the state is reset.
    pub(crate) fn call(
        self,
        limits: Vec<Limit>,
        ticks: Ticks,
        longest: Option<Micros>,
    ) -> Result<ParsedCall, DialectError> {
        let mut different: Vec<Limit> = Vec::with_capacity(limits.len());
        for limit in limits {
            // A limit given twice is one limit.
            if different.iter().all(|other| other.id() != limit.id()) {
                different.push(limit);
            }
        }
        let policy = Policy::new(different).map_err(|error| DialectError::policy("limits", error))?;
        // The original's clients send 0 with a reset, and other callers may send an invalid time.
        let now = if self.count.is_some() { ticks.now(self.now)? } else { Timestamp::default() };
        let action = match self.count {
            Some(cost) => Action::Check(Request::cost(cost).mode(Mode::Uniform).wait_for(1)),
            None => Action::Reset,
        };
        let convention = SlottedConvention { want_wait: self.want_wait, ticks, now, longest };
        let call = ParsedCall::new(self.state_key, policy, action, convention).named(self.state_name);
        Ok(call.by_clock(CallClock::Caller(now)))
    }
}

#[derive(Debug)]
struct SlottedConvention {
    want_wait: bool,
    ticks: Ticks,
    now: Timestamp,
    longest: Option<Micros>,
}

/// Returns whether a reply allows what was asked for: nothing, or no wait.
pub(crate) fn allows([first, _]: [ReplyValue<'_>; 2]) -> bool {
    matches!(first, ReplyValue::Nothing | ReplyValue::Integer(0))
}

impl Convention for SlottedConvention {
    fn reply(&self, decision: &Decision, _details: &[Detail], _usage: &ApiCounterUsage) -> DialectReply {
        match (self.want_wait, decision.allowed, decision.next_after) {
            (false, true, _) => DialectReply::Nil,
            (false, false, _) => DialectReply::Int(1),
            (true, true, _) => DialectReply::Int(0),
            (true, false, Wait::After(wait)) => DialectReply::Int(self.ticks.up(wait)),
            (true, false, Wait::Never) => DialectReply::Int(-1),
        }
    }

    fn forgotten(&self) -> DialectReply {
        if self.want_wait { DialectReply::Int(0) } else { DialectReply::Nil }
    }

    /// Converts the lifetime to microseconds. The length of the caller's unit is the ratio of the home's time since the
    /// epoch to the caller's.
    fn life(&self, decision: &Decision, home: Timestamp) -> Micros {
        let span = self.longest.unwrap_or(decision.reset_after);
        if self.now == Timestamp::default() {
            return Micros::new(MAX_LIFE);
        }
        let (life, rest) = muldiv(span.get(), home.get(), self.now.get());
        Micros::new(life.saturating_add(u64::from(rest > 0)).min(MAX_LIFE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_its_namespace_and_has_the_key_as_its_tag() {
        for (namespace, key, name) in [
            ("ns", "login:1", Some("ns:{login:1}")),
            ("", "k", Some(":{k}")),
            ("n}s", "a{b%", Some("n}s:{a{b%}")),
            ("ns", "", None),
            ("ns", "{user}:login", None),
            ("n{s", "k", None),
        ] {
            let found = state_name(namespace.as_bytes(), key.as_bytes());
            assert_eq!(found.as_deref(), name.map(str::as_bytes), "{namespace} {key}");
            assert!(name.is_none_or(|name| key_of_name(name.as_bytes()) == Some(key.as_bytes())), "{namespace} {key}");
            let state_key = state_key(namespace.as_bytes(), key.as_bytes());
            assert_eq!(namespace_of(&state_key, key.as_bytes()), Some(namespace.as_bytes()));
        }
        for name in ["{k}", "ns{k}", "ns:{k}x", "ns:{}", "ns:{a}b}", "ns:k}", "ns"] {
            assert_eq!(key_of_name(name.as_bytes()), None, "{name}");
        }
        assert_eq!(namespace_of(b"ns:{k}", b"other"), None);
    }

    #[test]
    fn no_key_reaches_into_another_namespace() {
        assert_eq!(state_key(b"ns", b"k"), b"ns:{k}");
        assert_eq!(state_key(b"", b""), b":{}");
        assert_ne!(state_key(b"a", b"b}:{c"), state_key(b"a:{b}", b"c"));
        assert_ne!(state_key(b"", b"{"), state_key(b"", b"%7B"));
    }
}
