//! The output of a script that this project need not know, in types that every Redis protocol has.

use crate::{DialectReply, ReplyValue};

/// The output of a script, or of a built-in limiter, which returns the same as its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// No value: `false` or `nil` in Lua.
    Nothing,
    /// A number, truncated to an integer by Redis.
    Integer(i64),
    /// A string of any bytes.
    Text(Vec<u8>),
    /// A list.
    List(Vec<Output>),
}

impl Output {
    /// Returns a text, or a number as text.
    pub fn text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string().into_bytes()),
            Self::Nothing | Self::List(_) => None,
        }
    }

    /// Returns its first two values, or itself if it is not a list.
    pub fn values(&self) -> [ReplyValue<'_>; 2] {
        match self {
            Self::List(list) => [0, 1].map(|place| list.get(place).map_or(ReplyValue::Nothing, Self::value)),
            one => [one.value(), ReplyValue::Nothing],
        }
    }

    fn value(&self) -> ReplyValue<'_> {
        match self {
            Self::Integer(number) => ReplyValue::Integer(*number),
            Self::Text(text) => ReplyValue::Text(text),
            Self::Nothing | Self::List(_) => ReplyValue::Nothing,
        }
    }

    /// Returns the elements of a list; an empty slice for anything else.
    pub fn list(&self) -> &[Output] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

impl From<DialectReply> for Output {
    fn from(reply: DialectReply) -> Self {
        match reply {
            DialectReply::Nil => Self::Nothing,
            DialectReply::Int(number) => Self::Integer(number),
            DialectReply::Text(text) => Self::Text(text.into_bytes()),
            DialectReply::Array(replies) => Self::List(replies.into_iter().map(Self::from).collect()),
        }
    }
}
