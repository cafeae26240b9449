//! The tree of YAML's events. Aliases are supported, and count as the values they repeat; merge keys, tags and several
//! documents are not part of the policy file.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};

use super::{MAX_DEPTH, MAX_NODES, SyntaxError, TreeField, TreeNode, TreeValue, scalar};

/// Returns the tree of a YAML text.
pub(super) fn parse(text: &str) -> Result<TreeNode<'_>, SyntaxError> {
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = YamlTreeBuilder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax_error(text, &error))?;
        builder.event(event, span, text)?;
    }
    Ok(builder.root.unwrap_or(TreeNode { at: 0, value: TreeValue::Nothing }))
}

/// Returns a syntax error with the parser's message, and a hint for common mistakes.
fn syntax_error(text: &str, error: &ScanError) -> SyntaxError {
    let at = error.marker().byte_offset().unwrap_or(text.len());
    let hint = match error.kind() {
        ErrorKind::RecursionLimitExceeded => return SyntaxError::too_deep(at),
        ErrorKind::UnknownAnchor => {
            "an alias *name comes after its anchor &name; a text that begins with * needs quotes"
        }
        ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
            "YAML is indented by spaces"
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => "a text with \": \" in it needs quotes",
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => {
            "the fields of one thing stand in one column"
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => "is a quote missing before?",
        ErrorKind::InvalidTrailingDoubleQuotedScalar | ErrorKind::InvalidTrailingSingleQuotedScalar => {
            "is a comma missing, or a quote too many?"
        }
        ErrorKind::UnexpectedCharacter { .. } => "a text that begins with this sign needs quotes",
        _ => "",
    };
    SyntaxError::new(at, "valid YAML", format!("a mistake: {}", error.info()), hint)
}

/// The tree so far.
#[derive(Default)]
struct YamlTreeBuilder<'a> {
    root: Option<TreeNode<'a>>,
    /// The nodes that are not finished, the innermost last.
    open: Vec<OpenCollection<'a>>,
    /// The values that aliases repeat, by the number of their anchor.
    anchors: HashMap<usize, (TreeNode<'a>, YamlNodeSize)>,
    nodes: usize,
}

/// The size of a node.
#[derive(Clone, Copy)]
struct YamlNodeSize {
    /// The number of nodes, itself included; a long text that is stored apart from the source counts as several.
    nodes: usize,
    /// The levels below it.
    depth: usize,
}

/// A list or map whose end has not been read.
struct OpenCollection<'a> {
    at: usize,
    anchor: usize,
    /// The number of nodes before it.
    before: usize,
    /// The levels below it.
    depth: usize,
    kind: CollectionKind<'a>,
}

enum CollectionKind<'a> {
    List(Vec<TreeNode<'a>>),
    /// The fields, and the name whose value comes next.
    Map(Vec<TreeField<'a>>, Option<(Cow<'a, str>, usize)>),
}

impl<'a> YamlTreeBuilder<'a> {
    fn event(&mut self, event: Event<'a>, span: Span, text: &'a str) -> Result<(), SyntaxError> {
        let at = span.start.byte_offset().unwrap_or(text.len());
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(SyntaxError::new(at, "one document", "a second one", "a policy file has no --- within it"))
            }
            Event::Scalar(value, style, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                let value = match style {
                    ScalarStyle::Plain => scalar::plain(value),
                    _ => TreeValue::Text(value),
                };
                let size = YamlNodeSize { nodes: weight(&value), depth: 0 };
                self.count(at, size.nodes)?;
                self.finish(TreeNode { at, value }, anchor, size)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                self.begin(at, anchor, CollectionKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                self.begin(at, anchor, CollectionKind::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    let hint = "the value of an anchor cannot be in itself";
                    return Err(SyntaxError::new(at, "an alias of a value that is finished", "one that is not", hint));
                };
                // Counted before it is copied.
                let size = *size;
                self.nodes += size.nodes;
                if self.nodes > MAX_NODES {
                    return Err(SyntaxError::too_many(at));
                }
                if self.open.len() + size.depth > MAX_DEPTH {
                    return Err(SyntaxError::too_deep(at));
                }
                let node = node.clone();
                self.finish(node, 0, size)
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, at: usize, nodes: usize) -> Result<(), SyntaxError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES { Err(SyntaxError::too_many(at)) } else { Ok(()) }
    }

    fn begin(&mut self, at: usize, anchor: usize, kind: CollectionKind<'a>) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(SyntaxError::too_deep(at));
        }
        let before = self.nodes;
        self.count(at, 1)?;
        self.open.push(OpenCollection { at, anchor, before, depth: 0, kind });
        Ok(())
    }

    fn end(&mut self) -> Result<(), SyntaxError> {
        let Some(OpenCollection { at, anchor, before, depth, kind }) = self.open.pop() else { return Ok(()) };
        let value = match kind {
            CollectionKind::List(nodes) => TreeValue::List(nodes),
            CollectionKind::Map(fields, _) => TreeValue::Map(fields),
        };
        self.finish(TreeNode { at, value }, anchor, YamlNodeSize { nodes: self.nodes - before, depth })
    }

    /// Puts a finished node in its place.
    fn finish(&mut self, node: TreeNode<'a>, anchor: usize, size: YamlNodeSize) -> Result<(), SyntaxError> {
        if anchor > 0 {
            // The copy takes memory too.
            self.count(node.at, size.nodes)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        if let Some(open) = self.open.last_mut() {
            open.depth = open.depth.max(size.depth + 1);
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(CollectionKind::List(list)) => list.push(node),
            Some(CollectionKind::Map(fields, name)) => match name.take() {
                Some((name, at)) => fields.push(TreeField { name, at, node }),
                None => *name = Some(as_name(node)?),
            },
        }
        Ok(())
    }
}

fn weight(value: &TreeValue<'_>) -> usize {
    match value {
        TreeValue::Text(Cow::Owned(text)) | TreeValue::Number(Cow::Owned(text)) => 1 + text.len() / 32,
        _ => 1,
    }
}

fn as_name(node: TreeNode<'_>) -> Result<(Cow<'_, str>, usize), SyntaxError> {
    let at = node.at;
    match node.value {
        TreeValue::Text(text) if text == "<<" => {
            let hint = "merge keys are not read; repeat a whole value by *name, or write the fields out";
            Err(SyntaxError::new(at, "the name of a field", "\"<<\"", hint))
        }
        TreeValue::Text(text) | TreeValue::Number(text) => Ok((text, at)),
        TreeValue::Bool(bool) => Ok((Cow::Borrowed(if bool { "true" } else { "false" }), at)),
        _ => Err(SyntaxError::new(at, "the name of a field", node.describe(), "")),
    }
}

fn refuse_tag(at: usize, tagged: bool) -> Result<(), SyntaxError> {
    if !tagged {
        return Ok(());
    }
    Err(SyntaxError::new(
        at,
        "a value without a tag",
        "one with a tag",
        "leave the word with ! away; quotes make a text",
    ))
}
