//! The raw output of a limiter.

use tollgate_dialects::Reply;

/// The output of a script, or of a built-in limiter in process, which returns the same as its script.
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

    /// Returns the elements of a list; an empty slice for anything else.
    pub fn list(&self) -> &[Output] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

impl From<Reply> for Output {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil => Self::Nothing,
            Reply::Int(number) => Self::Integer(number),
            Reply::Text(text) => Self::Text(text.into_bytes()),
            Reply::Array(replies) => Self::List(replies.into_iter().map(Self::from).collect()),
        }
    }
}

#[cfg(feature = "redis")]
impl From<tollgate::redis::Output> for Output {
    fn from(output: tollgate::redis::Output) -> Self {
        use tollgate::redis::Output as Came;
        match output {
            Came::Nothing => Self::Nothing,
            Came::Integer(number) => Self::Integer(number),
            Came::Text(text) => Self::Text(text),
            Came::List(list) => Self::List(list.into_iter().map(Self::from).collect()),
        }
    }
}
