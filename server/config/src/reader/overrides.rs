//! Other limits for some keys.

use std::collections::HashMap;

use super::fields::OVERRIDE;
use super::findings::ConfigReader;
use crate::model::Override;
use crate::tree::{TreeNode, TreeValue};

const EXAMPLE: &str = "for example {key: \"vip:*\", limit: \"100/min\"}";

impl<'a> ConfigReader<'a> {
    /// Reads the overrides of a policy whose keys have `parts` parts. Their policies have no name or mode yet.
    pub(super) fn overrides(&mut self, node: &TreeNode<'a>, parts: usize) -> Vec<Override> {
        let TreeValue::List(nodes) = &node.value else {
            self.wrong_value(node, "a list of overrides", EXAMPLE);
            return Vec::new();
        };
        if !self.fits(node, nodes.len()) {
            return Vec::new();
        }
        let mut seen = HashMap::with_capacity(nodes.len());
        let mut overrides = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let read = self.at_index(index, |reader| reader.override_(node, parts));
            let Some((own, key_at)) = read else { continue };
            if let Some(first) = seen.insert(own.key.clone(), key_at) {
                let found = format!("{:?}", own.key.as_str());
                self.at_index(index, |reader| {
                    reader.within("key", |reader| reader.duplicate(key_at, "each key once", found, first));
                });
            } else {
                overrides.push(own);
            }
        }
        overrides
    }

    fn override_(&mut self, node: &TreeNode<'a>, parts: usize) -> Option<(Override, usize)> {
        let fields = self.fields(node, "the fields of an override", OVERRIDE, EXAMPLE)?;
        for name in ["key", "limit"] {
            if fields.lacks(name) {
                self.wrong(node.at, format!("the field {name}"), "none", EXAMPLE);
            }
        }
        let key_node = fields.get("key");
        let key = key_node.and_then(|node| self.within("key", |reader| reader.pattern(node, Some(parts))));
        let policy = fields.get("limit").and_then(|node| self.within("limit", |reader| reader.limits(node)));
        let note = fields.get("note").and_then(|node| self.within("note", |reader| reader.note(node)));
        let mut until = None;
        if let Some(node) = fields.get("until") {
            until = self.within("until", |reader| {
                let until = reader.moment(node)?;
                if until <= reader.now {
                    let hint = "the override has ended and is not used";
                    reader.warn(node.at, "a moment to come", node.describe(), hint);
                }
                Some(until)
            });
        }
        Some((Override { key: key?, policy: policy?, until, note }, key_node?.at))
    }
}
