//! The reply to a call, in types that every Redis protocol has.

use std::fmt;

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialectReply {
    /// An integer.
    Int(i64),
    /// No value.
    Nil,
    /// A text.
    Text(String),
    /// Several replies, in order.
    Array(Vec<DialectReply>),
}

/// A value of a reply, whatever type holds the reply: what [`crate::Dialect::allows`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyValue<'a> {
    /// No value, or a list.
    Nothing,
    /// A number.
    Integer(i64),
    /// A text.
    Text(&'a [u8]),
}

impl DialectReply {
    /// Returns its first two values, or itself if it is not a list.
    pub fn values(&self) -> [ReplyValue<'_>; 2] {
        match self {
            Self::Array(replies) => [0, 1].map(|place| replies.get(place).map_or(ReplyValue::Nothing, Self::value)),
            one => [one.value(), ReplyValue::Nothing],
        }
    }

    fn value(&self) -> ReplyValue<'_> {
        match self {
            Self::Int(number) => ReplyValue::Integer(*number),
            Self::Text(text) => ReplyValue::Text(text.as_bytes()),
            Self::Nil | Self::Array(_) => ReplyValue::Nothing,
        }
    }

    pub(crate) fn ints(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::Array(numbers.into_iter().map(Self::Int).collect())
    }

    pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::Array(texts.into_iter().map(Self::Text).collect())
    }
}

/// Formats the reply for people: `[allow, [10, 60, 9]]`.
impl fmt::Display for DialectReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Nil => f.write_str("nil"),
            Self::Text(text) => f.write_str(text),
            Self::Array(replies) => {
                f.write_str("[")?;
                for (index, reply) in replies.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    reply.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}
