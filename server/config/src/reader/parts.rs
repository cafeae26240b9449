//! The parts of keys.

use strsim::osa_distance;
use tollgate_kernel::is_word;

use super::MAX_PARTS;
use super::findings::ConfigReader;
use crate::model::KeyPart;
use crate::tree::{TreeNode, TreeValue};

const KNOWN: [(&str, KeyPart); 4] =
    [("address", KeyPart::Address), ("method", KeyPart::Method), ("path", KeyPart::Path), ("host", KeyPart::Host)];
const EXPECTED: &str = "address, method, path, host, header:NAME or the name of a field";

impl<'a> ConfigReader<'a> {
    /// Reads the parts of a policy's keys: a single one, or a list.
    pub(super) fn parts(&mut self, node: &TreeNode<'a>) -> Vec<KeyPart> {
        let nodes = match &node.value {
            TreeValue::List(nodes) => nodes.as_slice(),
            TreeValue::Text(_) => return self.part(node).into_iter().collect(),
            _ => {
                self.wrong_value(node, "a list of key parts", "for example [address, header:x-tenant]");
                return Vec::new();
            }
        };
        if !(1..=MAX_PARTS).contains(&nodes.len()) {
            let found = nodes.len().to_string();
            self.wrong(node.at, format!("1 to {MAX_PARTS} key parts"), found, "without any leave key away");
            return Vec::new();
        }
        let mut parts = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            self.at_index(index, |reader| {
                let Some(part) = reader.part(node) else { return };
                if parts.contains(&part) {
                    reader.wrong_value(node, "each part once", "");
                }
                parts.push(part);
            });
        }
        parts
    }

    fn part(&mut self, node: &TreeNode<'a>) -> Option<KeyPart> {
        let text = self.text(node, EXPECTED, "")?;
        if let Some((_, part)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return Some(part.clone());
        }
        if let Some(name) = text.strip_prefix("header:") {
            if is_header(name) {
                return Some(KeyPart::Header(name.to_ascii_lowercase().into()));
            }
            self.wrong_value(node, "header: and the name of a header", "for example header:x-tenant");
            return None;
        }
        if !is_word(text) || text == "header" {
            self.wrong_value(node, EXPECTED, "for example header:x-tenant");
            return None;
        }
        if let Some((near, _)) = KNOWN.iter().find(|(known, _)| osa_distance(&text.to_lowercase(), known) <= 1) {
            let hint = format!("{text} is a field that the caller gives; did you mean {near}?");
            self.warn(node.at, EXPECTED, node.describe(), hint);
        }
        Some(KeyPart::Field(text.into()))
    }
}

/// Returns whether a name is an HTTP token of at most 64 characters.
fn is_header(name: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(sign)
}
