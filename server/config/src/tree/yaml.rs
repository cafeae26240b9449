//! The tree of YAML's events. Aliases are supported, and count as the values they repeat; merge keys, tags and several
//! documents are not part of the policy file.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};

use super::{Broken, DEEPEST, Field, MAX_NODES, Node, Value, scalar};

/// Returns the tree of a YAML text.
pub(super) fn grow(text: &str) -> Result<Node<'_>, Broken> {
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: false,
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
    };
    let mut grower = Grower::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| broken(text, &error))?;
        grower.event(event, span, text)?;
    }
    Ok(grower.root.unwrap_or(Node { at: 0, value: Value::Nothing }))
}

/// Returns a syntax error with the parser's message, and a hint for common mistakes.
fn broken(text: &str, error: &ScanError) -> Broken {
    let at = error.marker().byte_offset().unwrap_or(text.len());
    let hint = match error.kind() {
        ErrorKind::RecursionLimitExceeded => return Broken::too_deep(at),
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
    Broken::new(at, "valid YAML", format!("a mistake: {}", error.info()), hint)
}

#[derive(Default)]
struct Grower<'a> {
    root: Option<Node<'a>>,
    /// The nodes that are not finished, the innermost last.
    open: Vec<Open<'a>>,
    /// The values that aliases repeat, by the number of their anchor.
    anchors: HashMap<usize, (Node<'a>, Size)>,
    nodes: usize,
}

/// The size of a node.
#[derive(Clone, Copy)]
struct Size {
    /// The number of nodes, itself included; a long text that is stored apart from the source counts as several.
    nodes: usize,
    /// The levels below it.
    depth: usize,
}

struct Open<'a> {
    at: usize,
    anchor: usize,
    /// The number of nodes before it.
    before: usize,
    /// The levels below it.
    depth: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    List(Vec<Node<'a>>),
    /// The fields, and the name whose value comes next.
    Map(Vec<Field<'a>>, Option<(Cow<'a, str>, usize)>),
}

impl<'a> Grower<'a> {
    fn event(&mut self, event: Event<'a>, span: Span, text: &'a str) -> Result<(), Broken> {
        let at = span.start.byte_offset().unwrap_or(text.len());
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Broken::new(at, "one document", "a second one", "a policy file has no --- within it"))
            }
            Event::Scalar(value, style, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                let value = match style {
                    ScalarStyle::Plain => scalar::plain(value),
                    _ => Value::Text(value),
                };
                let size = Size { nodes: weight(&value), depth: 0 };
                self.count(at, size.nodes)?;
                self.finish(Node { at, value }, anchor, size)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                self.begin(at, anchor, Kind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(at, tag.is_some())?;
                self.begin(at, anchor, Kind::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    let hint = "the value of an anchor cannot be in itself";
                    return Err(Broken::new(at, "an alias of a value that is finished", "one that is not", hint));
                };
                // Counted before it is copied.
                let size = *size;
                self.nodes += size.nodes;
                if self.nodes > MAX_NODES {
                    return Err(Broken::too_many(at));
                }
                if self.open.len() + size.depth > DEEPEST {
                    return Err(Broken::too_deep(at));
                }
                let node = node.clone();
                self.finish(node, 0, size)
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, at: usize, nodes: usize) -> Result<(), Broken> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES { Err(Broken::too_many(at)) } else { Ok(()) }
    }

    fn begin(&mut self, at: usize, anchor: usize, kind: Kind<'a>) -> Result<(), Broken> {
        if self.open.len() >= DEEPEST {
            return Err(Broken::too_deep(at));
        }
        let before = self.nodes;
        self.count(at, 1)?;
        self.open.push(Open { at, anchor, before, depth: 0, kind });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Broken> {
        let Some(Open { at, anchor, before, depth, kind }) = self.open.pop() else { return Ok(()) };
        let value = match kind {
            Kind::List(nodes) => Value::List(nodes),
            Kind::Map(fields, _) => Value::Map(fields),
        };
        self.finish(Node { at, value }, anchor, Size { nodes: self.nodes - before, depth })
    }

    /// Puts a finished node in its place.
    fn finish(&mut self, node: Node<'a>, anchor: usize, size: Size) -> Result<(), Broken> {
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
            Some(Kind::List(list)) => list.push(node),
            Some(Kind::Map(fields, name)) => match name.take() {
                Some((name, at)) => fields.push(Field { name, at, node }),
                None => *name = Some(as_name(node)?),
            },
        }
        Ok(())
    }
}

fn weight(value: &Value<'_>) -> usize {
    match value {
        Value::Text(Cow::Owned(text)) | Value::Number(Cow::Owned(text)) => 1 + text.len() / 32,
        _ => 1,
    }
}

fn as_name(node: Node<'_>) -> Result<(Cow<'_, str>, usize), Broken> {
    let at = node.at;
    match node.value {
        Value::Text(text) if text == "<<" => {
            let hint = "merge keys are not read; repeat a whole value by *name, or write the fields out";
            Err(Broken::new(at, "the name of a field", "\"<<\"", hint))
        }
        Value::Text(text) | Value::Number(text) => Ok((text, at)),
        Value::Bool(bool) => Ok((Cow::Borrowed(if bool { "true" } else { "false" }), at)),
        _ => Err(Broken::new(at, "the name of a field", node.in_words(), "")),
    }
}

fn refuse_tag(at: usize, tagged: bool) -> Result<(), Broken> {
    if !tagged {
        return Ok(());
    }
    Err(Broken::new(at, "a value without a tag", "one with a tag", "leave the word with ! away; quotes make a text"))
}
