//! Lists of keys and patterns.

use std::collections::HashSet;

use tollgate_kernel::MAX_KEY;

use super::MAX_ENTRIES;
use super::findings::ConfigReader;
use crate::pattern::Pattern;
use crate::tree::{TreeNode, TreeValue};

/// Keys that are always allowed, and keys that are always refused.
#[derive(Default)]
pub(super) struct KeyLists {
    pub(super) allow: Vec<Pattern>,
    pub(super) deny: Vec<Pattern>,
}

impl<'a> ConfigReader<'a> {
    /// Reads a list of patterns. `parts` is the number of parts of a key, if it is known.
    pub(super) fn list(&mut self, node: &TreeNode<'a>, parts: Option<usize>) -> Vec<Pattern> {
        let TreeValue::List(nodes) = &node.value else {
            self.wrong_value(node, "a list of keys and patterns", "for example [\"10.0.0.*\", health]");
            return Vec::new();
        };
        if !self.fits(node, nodes.len()) {
            return Vec::new();
        }
        let mut seen = HashSet::with_capacity(nodes.len());
        let mut patterns = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let Some(pattern) = self.at_index(index, |reader| reader.pattern(node, parts)) else { continue };
            if seen.insert(pattern.clone()) {
                patterns.push(pattern);
            } else {
                let found = node.describe();
                self.at_index(index, |reader| {
                    reader.warn(node.at, "each key once", found, "the second changes nothing")
                });
            }
        }
        patterns
    }

    /// Returns whether a list is short enough; reports a mistake if it is not.
    pub(super) fn fits(&mut self, node: &TreeNode<'a>, length: usize) -> bool {
        if length > MAX_ENTRIES {
            let hint = "a pattern such as \"bad:*\" stands for many keys";
            self.wrong(node.at, format!("at most {MAX_ENTRIES} entries"), length.to_string(), hint);
        }
        length <= MAX_ENTRIES
    }

    /// Reads a key or a pattern, or, for keys of several parts, a list with one pattern for each part.
    pub(super) fn pattern(&mut self, node: &TreeNode<'a>, parts: Option<usize>) -> Option<Pattern> {
        let pattern = match &node.value {
            TreeValue::List(nodes) => {
                if parts != Some(nodes.len()) {
                    let (expected, hint) = match parts {
                        None => ("a key or a pattern".to_owned(), "lists for all policies hold texts alone".to_owned()),
                        Some(0) => ("a key or a pattern".to_owned(), "a list needs a policy with key parts".to_owned()),
                        Some(parts) => {
                            (format!("{parts} patterns, one a part of the key"), "\"*\" is any value".to_owned())
                        }
                    };
                    let found = format!("a list of {}", nodes.len());
                    self.wrong(node.at, expected, found, hint);
                    return None;
                }
                let mut texts = Vec::with_capacity(nodes.len());
                for (index, node) in nodes.iter().enumerate() {
                    texts.push(self.at_index(index, |reader| reader.text(node, "a pattern of a part", ""))?);
                }
                Pattern::of_parts(&texts)
            }
            _ => Pattern::new(self.text(node, "a key or a pattern", "")?),
        };
        let length = pattern.as_str().len();
        if !(1..=MAX_KEY).contains(&length) {
            let found = if length == 0 { "none".to_owned() } else { format!("{length} bytes") };
            self.wrong(node.at, format!("a key or a pattern of 1 to {MAX_KEY} bytes"), found, "");
            return None;
        }
        Some(pattern)
    }
}
