//! A tree from a TOML document.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{MAX_DEPTH, MAX_NODES, SyntaxError, TreeField, TreeNode, TreeValue};

/// The length above which only the first syntax error is reported, because every byte of a text may be one.
const ALL_MISTAKES: usize = 1 << 18;

/// Returns the tree of a TOML text.
pub(super) fn parse(text: &str) -> Result<TreeNode<'_>, Vec<SyntaxError>> {
    let document = DeTable::parse(text).map_err(|first| {
        if text.len() > ALL_MISTAKES {
            return vec![syntax_error(text, &first)];
        }
        let (_, errors) = DeTable::parse_recoverable(text);
        let all: Vec<_> = errors.iter().map(|error| syntax_error(text, error)).collect();
        if all.is_empty() { vec![syntax_error(text, &first)] } else { all }
    })?;
    let mut builder = TomlTreeBuilder { text, nodes: 0 };
    builder.table(0, document.into_inner(), 0).map_err(|error| vec![error])
}

/// Returns a syntax error with the parser's message.
fn syntax_error(text: &str, error: &toml::de::Error) -> SyntaxError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let message: Vec<_> = error.message().lines().collect();
    let message = message.join("; ");
    let hint = match message.as_str() {
        deep if deep.contains("recurs") => return SyntaxError::too_deep(at),
        "duplicate key" => "each name stands once",
        _ => "",
    };
    SyntaxError::new(at, "valid TOML", format!("a mistake: {message}"), hint)
}

/// The text, and the number of nodes so far.
struct TomlTreeBuilder<'a> {
    text: &'a str,
    nodes: usize,
}

impl<'a> TomlTreeBuilder<'a> {
    fn table(&mut self, at: usize, table: DeTable<'a>, depth: usize) -> Result<TreeNode<'a>, SyntaxError> {
        self.count(at, depth)?;
        let mut fields = Vec::with_capacity(table.len());
        for (name, value) in table {
            let begins = name.span().start;
            fields.push(TreeField { name: name.into_inner(), at: begins, node: self.node(begins, value, depth + 1)? });
        }
        // Restores the order of the file, whatever the order of the table.
        fields.sort_by_key(|field| field.at);
        Ok(TreeNode { at, value: TreeValue::Map(fields) })
    }

    fn node(&mut self, name_at: usize, value: Spanned<DeValue<'a>>, depth: usize) -> Result<TreeNode<'a>, SyntaxError> {
        let span = value.span();
        // A table that is defined only by its parts has no position of its own.
        let at = if span.is_empty() { name_at } else { span.start };
        self.count(at, depth)?;
        let value = match value.into_inner() {
            DeValue::String(text) => TreeValue::Text(text),
            DeValue::Integer(_) | DeValue::Float(_) => TreeValue::Number(self.source(span)),
            DeValue::Boolean(bool) => TreeValue::Bool(bool),
            DeValue::Datetime(_) => TreeValue::Date(self.source(span)),
            DeValue::Array(array) => {
                let mut list = Vec::with_capacity(array.len());
                for value in array {
                    let begins = value.span().start;
                    list.push(self.node(begins, value, depth + 1)?);
                }
                TreeValue::List(list)
            }
            DeValue::Table(table) => return self.table(at, table, depth),
        };
        Ok(TreeNode { at, value })
    }

    fn source(&self, span: Range<usize>) -> Cow<'a, str> {
        Cow::Borrowed(self.text.get(span).unwrap_or_default())
    }

    fn count(&mut self, at: usize, depth: usize) -> Result<(), SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(SyntaxError::too_many(at)) } else { Ok(()) }
    }
}
