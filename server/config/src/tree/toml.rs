//! A tree from a TOML document.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Broken, DEEPEST, Field, MAX_NODES, Node, Value};

/// The length above which only the first syntax error is reported, because every byte of a text may be one.
const ALL_MISTAKES: usize = 1 << 18;

/// Returns the tree of a TOML text.
pub(super) fn grow(text: &str) -> Result<Node<'_>, Vec<Broken>> {
    let document = DeTable::parse(text).map_err(|first| {
        if text.len() > ALL_MISTAKES {
            return vec![broken(text, &first)];
        }
        let (_, errors) = DeTable::parse_recoverable(text);
        let all: Vec<_> = errors.iter().map(|error| broken(text, error)).collect();
        if all.is_empty() { vec![broken(text, &first)] } else { all }
    })?;
    let mut grower = Grower { text, nodes: 0 };
    grower.table(0, document.into_inner(), 0).map_err(|broken| vec![broken])
}

/// Returns a syntax error with the parser's message.
fn broken(text: &str, error: &toml::de::Error) -> Broken {
    let at = error.span().map_or(text.len(), |span| span.start);
    let message: Vec<_> = error.message().lines().collect();
    let message = message.join("; ");
    let hint = match message.as_str() {
        deep if deep.contains("recurs") => return Broken::too_deep(at),
        "duplicate key" => "each name stands once",
        _ => "",
    };
    Broken::new(at, "valid TOML", format!("a mistake: {message}"), hint)
}

struct Grower<'a> {
    text: &'a str,
    nodes: usize,
}

impl<'a> Grower<'a> {
    fn table(&mut self, at: usize, table: DeTable<'a>, depth: usize) -> Result<Node<'a>, Broken> {
        self.count(at, depth)?;
        let mut fields = Vec::with_capacity(table.len());
        for (name, value) in table {
            let begins = name.span().start;
            fields.push(Field { name: name.into_inner(), at: begins, node: self.node(begins, value, depth + 1)? });
        }
        // Restores the order of the file, whatever the order of the table.
        fields.sort_by_key(|field| field.at);
        Ok(Node { at, value: Value::Map(fields) })
    }

    fn node(&mut self, name_at: usize, value: Spanned<DeValue<'a>>, depth: usize) -> Result<Node<'a>, Broken> {
        let span = value.span();
        // A table that is defined only by its parts has no position of its own.
        let at = if span.is_empty() { name_at } else { span.start };
        self.count(at, depth)?;
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text),
            DeValue::Integer(_) | DeValue::Float(_) => Value::Number(self.source(span)),
            DeValue::Boolean(bool) => Value::Bool(bool),
            DeValue::Datetime(_) => Value::Date(self.source(span)),
            DeValue::Array(array) => {
                let mut list = Vec::with_capacity(array.len());
                for value in array {
                    let begins = value.span().start;
                    list.push(self.node(begins, value, depth + 1)?);
                }
                Value::List(list)
            }
            DeValue::Table(table) => return self.table(at, table, depth),
        };
        Ok(Node { at, value })
    }

    fn source(&self, span: Range<usize>) -> Cow<'a, str> {
        Cow::Borrowed(self.text.get(span).unwrap_or_default())
    }

    fn count(&mut self, at: usize, depth: usize) -> Result<(), Broken> {
        if depth > DEEPEST {
            return Err(Broken::too_deep(at));
        }
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(Broken::too_many(at)) } else { Ok(()) }
    }
}
