//! The user's own scripts that decide: keys and options in, `["allow" | "block", headers, …]` out.
//!
//! They are run like ours: by their SHA-1, or by their text where the server does not have them. They may write
//! before they fail, so an error does not mean that nothing was changed.

use std::sync::Arc;

use redis::Value;
use tollgate_dialects::{DIALECTS, Dialect, Output, PublishedKind, normalized, published};
use tollgate_kernel::StoreError;

use crate::call::{CallArg, RedisCall};
use crate::code::LuaScript;
use crate::lua::dialect_script;
use crate::slot::slot;
use crate::stats::add;
use crate::store::Redis;

/// A user's own script.
///
/// ```
/// let custom = tollgate_redis::CustomScript::new("return {'allow', {'10', '60', '9'}}");
/// assert_eq!(custom.sha().len(), 40);
/// ```
#[derive(Clone, Debug)]
pub struct CustomScript {
    script: Arc<LuaScript>,
}

impl CustomScript {
    /// Creates a script from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { script: Arc::new(LuaScript::new(text.into())) }
    }

    /// Returns the SHA-1 under which the server caches the script.
    pub fn sha(&self) -> &str {
        &self.script.sha
    }

    /// Returns whether every Tollgate server knows the script: it is the published script of a limiter that the server
    /// speaks, or Tollgate's own script for it. A server may know further ones, which it was told.
    pub fn is_spoken(&self) -> bool {
        let normal = LuaScript::new(normalized(&self.script.text)).sha;
        let own = |dialect: &Dialect| {
            dialect_script(dialect.name).is_some_and(|script| LuaScript::new(normalized(&script.text)).sha == normal)
        };
        published(PublishedKind::Script, &normal).is_some() || DIALECTS.iter().any(own)
    }
}

/// The reply of a user's own script that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CustomReply {
    /// Whether the word is `allow`.
    pub allowed: bool,
    /// `allow`, `block`, or any other word, which also means that the request is blocked.
    pub word: String,
    /// The headers for the response; see [`CustomReply::headers`].
    pub headers: Vec<CustomHeader>,
    /// The values after the headers, unchanged.
    pub outputs: Vec<Output>,
}

/// A header for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomHeader {
    /// The value of the header whose name is configured for this position.
    Plain(String),
    /// A header with its own name, and its value.
    Named(String, String),
}

impl Redis {
    /// Runs a user's own script that decides. On a cluster its keys must be in one slot.
    pub async fn run_custom<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        custom: &CustomScript,
        keys: &[K],
        args: &[A],
    ) -> Result<CustomReply, StoreError> {
        let reply = CustomReply::read(self.run(custom, keys, args).await?);
        reply.inspect_err(|_| self.count_failed_script())
    }

    /// Like [`Redis::run_custom`], for a script with any kind of reply.
    pub async fn run_script<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        custom: &CustomScript,
        keys: &[K],
        args: &[A],
    ) -> Result<Output, StoreError> {
        Ok(output(&self.run(custom, keys, args).await?))
    }

    /// Sends a script to the server without running it. Fails if the server cannot run it: Redis and Valkey compile it, and
    /// a Tollgate server looks whether it knows it. On a cluster one node is asked.
    pub async fn load_script(&self, custom: &CustomScript) -> Result<(), StoreError> {
        let args = vec![CallArg::Word("LOAD"), CallArg::Text(custom.script.text.as_str().into())];
        self.inner.dispatcher.dispatch(RedisCall::of_command("SCRIPT", args)).await.map(|_| ())
    }

    fn count_failed_script(&self) {
        add(&self.inner.dispatcher.context.counters.failed_scripts, 1);
    }

    async fn run<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        custom: &CustomScript,
        keys: &[K],
        args: &[A],
    ) -> Result<Value, StoreError> {
        let dispatcher = &self.inner.dispatcher;
        let first = keys.first().map(|key| slot(key.as_ref()));
        let apart = |key: &K| Some(slot(key.as_ref())) != first;
        if dispatcher.router.is_cluster()
            && let Some(second) = keys.iter().position(apart)
        {
            return Err(StoreError::Slots(0, second));
        }
        let keys = keys.iter().map(|key| key.as_ref().to_vec()).collect();
        let args = args.iter().map(|arg| CallArg::Bytes(arg.as_ref().to_vec())).collect();
        let ran = dispatcher.dispatch(RedisCall::new(None, custom.script.clone(), keys, args)).await;
        ran.inspect_err(|_| self.count_failed_script())
    }
}

impl CustomReply {
    fn read(value: Value) -> Result<Self, StoreError> {
        let unexpected = |value: &Value| {
            StoreError::Refused(format!(
                "expected a list like {{\"allow\", {{\"10\", {{\"x-acme-header\", \"60\"}}}}}} from the script, found {value:?}"
            ))
        };
        let Value::Array(parts) = &value else { return Err(unexpected(&value)) };
        let [word, Value::Array(headers), outputs @ ..] = parts.as_slice() else { return Err(unexpected(&value)) };
        let word = text(word).ok_or_else(|| unexpected(&value))?;
        let headers: Option<Vec<CustomHeader>> = headers.iter().map(header).collect();
        Ok(Self {
            allowed: word == "allow",
            word,
            headers: headers.ok_or_else(|| unexpected(&value))?,
            outputs: outputs.iter().map(output).collect(),
        })
    }

    /// Returns the headers with their names: a plain value gets the name configured for its position, a pair
    /// contains its own. Pairs beyond the configured names are added.
    pub fn headers<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<(String, String)>, StoreError> {
        let named = |(place, header): (usize, &CustomHeader)| match (header, names.get(place)) {
            (CustomHeader::Named(name, value), _) => Ok((name.clone(), value.clone())),
            (CustomHeader::Plain(value), Some(name)) => Ok((name.as_ref().to_string(), value.clone())),
            (CustomHeader::Plain(value), None) => Err(StoreError::Refused(format!(
                "expected a name for header {} ({value:?}): {} are configured; let the script answer a pair {{name, value}}",
                place + 1,
                names.len()
            ))),
        };
        self.headers.iter().enumerate().map(named).collect()
    }
}

fn header(value: &Value) -> Option<CustomHeader> {
    match value {
        Value::Array(pair) => match pair.as_slice() {
            [name, value] => Some(CustomHeader::Named(text(name)?, text(value)?)),
            _ => None,
        },
        value => text(value).map(CustomHeader::Plain),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Okay => Some("OK".into()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(crate) fn output(value: &Value) -> Output {
    match value {
        Value::Int(number) => Output::Integer(*number),
        Value::BulkString(bytes) => Output::Text(bytes.clone()),
        Value::Array(values) => Output::List(values.iter().map(output).collect()),
        value => text(value).map_or(Output::Nothing, |text| Output::Text(text.into_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn list(values: Vec<Value>) -> Value {
        Value::Array(values)
    }

    const NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining"];

    #[test]
    fn headers_are_matched_by_place_and_pairs_name_their_own() {
        let pair = |name, value| list(vec![bulk(name), bulk(value)]);
        let rows = [
            (vec![bulk("10"), bulk("60"), bulk("9")], vec![(NAMES[0], "10"), (NAMES[1], "60"), (NAMES[2], "9")]),
            (
                vec![bulk("10"), pair("x-acme-header", "60"), Value::Int(9)],
                vec![(NAMES[0], "10"), ("x-acme-header", "60"), (NAMES[2], "9")],
            ),
            (
                vec![bulk("10"), bulk("60"), bulk("0"), pair("retry-after", "5")],
                vec![(NAMES[0], "10"), (NAMES[1], "60"), (NAMES[2], "0"), ("retry-after", "5")],
            ),
            (vec![bulk("10")], vec![(NAMES[0], "10")]),
        ];
        for (headers, expected) in rows {
            let reply = CustomReply::read(list(vec![bulk("allow"), list(headers)])).unwrap();
            let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
            assert_eq!(reply.headers(&NAMES).unwrap(), expected);
        }
    }

    #[test]
    fn a_plain_header_without_a_name_is_an_error_that_says_so() {
        let reply = CustomReply::read(list(vec![bulk("allow"), list(vec![bulk("1"), bulk("2")])])).unwrap();
        let error = reply.headers(&NAMES[..1]).unwrap_err().to_string();
        assert!(error.contains("header 2") && error.contains("1 are configured"), "{error}");
    }

    #[test]
    fn other_words_block_and_outputs_are_passed_through() {
        let outputs = vec![Value::Int(7), list(vec![bulk("x"), Value::Nil])];
        let reply = CustomReply::read(list([vec![bulk("deny"), list(vec![])], outputs].concat())).unwrap();
        assert_eq!((reply.allowed, reply.word.as_str()), (false, "deny"));
        let expected = [Output::Integer(7), Output::List(vec![Output::Text(b"x".to_vec()), Output::Nothing])];
        assert_eq!(reply.outputs, expected);
    }

    #[test]
    fn another_form_is_an_error_that_shows_what_was_expected() {
        let rows = [
            Value::Nil,
            Value::Int(1),
            list(vec![]),
            list(vec![bulk("allow")]),
            list(vec![bulk("allow"), bulk("10")]),
            list(vec![Value::Nil, list(vec![])]),
            list(vec![bulk("allow"), list(vec![list(vec![bulk("x")])])]),
        ];
        for row in rows {
            let error = CustomReply::read(row.clone()).unwrap_err().to_string();
            assert!(error.contains("x-acme-header"), "{row:?}: {error}");
        }
    }
}
