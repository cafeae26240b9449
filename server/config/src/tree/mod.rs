//! A file as a small tree of nodes, each with its position, independent of the format.
//!
//! | file | what it is |
//! |---|---|
//! | `yaml.rs` | the tree of YAML's events |
//! | `scalar.rs` | the type of a plain YAML scalar: YAML 1.2's core schema |
//! | `toml.rs` | the tree of a TOML document |

mod scalar;
mod toml;
mod yaml;

use std::borrow::Cow;

use crate::format::ConfigFormat;

/// The most nodes of a file, including those repeated by aliases: enough for 16 MB of short list entries.
const MAX_NODES: usize = 2_000_000;
/// The deepest nesting; a policy file needs six levels.
const MAX_DEPTH: usize = 64;

/// A value and the byte of the text where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeNode<'a> {
    pub(crate) at: usize,
    pub(crate) value: TreeValue<'a>,
}

/// The content of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TreeValue<'a> {
    /// A text, quoted or not.
    Text(Cow<'a, str>),
    /// A number as it is written.
    Number(Cow<'a, str>),
    /// True or false.
    Bool(bool),
    /// A date, time or both as it is written (TOML).
    Date(Cow<'a, str>),
    /// Null, or an empty value (YAML).
    Nothing,
    /// A list.
    List(Vec<TreeNode<'a>>),
    /// Fields in the order of the file; a name may occur twice.
    Map(Vec<TreeField<'a>>),
}

/// A name, its position, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeField<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) at: usize,
    pub(crate) node: TreeNode<'a>,
}

/// A syntax error.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) expected: String,
    pub(crate) found: String,
    pub(crate) hint: String,
}

impl SyntaxError {
    fn new(at: usize, expected: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { at, expected: expected.into(), found: found.into(), hint: hint.into() }
    }

    fn too_many(at: usize) -> Self {
        let found = "more (values repeated by aliases count)";
        Self::new(at, format!("at most {MAX_NODES} values in a file"), found, "")
    }

    fn too_deep(at: usize) -> Self {
        Self::new(
            at,
            format!("at most {MAX_DEPTH} levels"),
            "more",
            "a policy file has policies, their fields and lists",
        )
    }
}

/// Returns the tree of a text, or at least one syntax error.
pub(crate) fn parse(text: &str, format: ConfigFormat) -> Result<TreeNode<'_>, Vec<SyntaxError>> {
    match format {
        ConfigFormat::Yaml => yaml::parse(text).map_err(|error| vec![error]),
        ConfigFormat::Toml => toml::parse(text),
    }
}

impl<'a> TreeNode<'a> {
    /// Describes the value, for `found …`.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            TreeValue::Text(text) => quoted(text),
            TreeValue::Number(text) => format!("the number {}", short(text)),
            TreeValue::Bool(bool) => bool.to_string(),
            TreeValue::Date(text) => short(text).into_owned(),
            TreeValue::Nothing => "nothing".to_owned(),
            TreeValue::List(_) => "a list".to_owned(),
            TreeValue::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns the position of this node's text in the source, if it is there literally and on one line.
    pub(crate) fn text_start(&self, source: &'a str) -> Option<usize> {
        let (TreeValue::Text(text) | TreeValue::Number(text) | TreeValue::Date(text)) = &self.value else {
            return None;
        };
        let from = source.get(self.at..)?;
        if text.contains('\n') {
            return None;
        }
        ["", "\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| {
                let rest = from.strip_prefix(quote).and_then(|rest| rest.strip_prefix(text.as_ref()));
                rest.is_some_and(|rest| rest.starts_with(quote))
            })
            .map(|quote| self.at + quote.len())
    }
}

/// Returns a text in quotes, truncated so that it stays readable.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", short(text))
}

fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
