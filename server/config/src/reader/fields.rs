//! The known fields, and the fields of a map by name.

use std::collections::HashMap;

use strsim::osa_distance;

use super::findings::ConfigReader;
use crate::tree::{TreeField, TreeNode, TreeValue, quoted};

/// The fields of a file.
pub(crate) const FILE: &[&str] = &["policies", "allow", "deny", "webhook"];
/// The fields of a policy.
pub(crate) const POLICY: &[&str] = &[
    "limit",
    "mode",
    "key",
    "on_error",
    "allow",
    "deny",
    "overrides",
    "shadow",
    "candidate",
    "ban",
    "usage",
    "alerts",
    "note",
];
/// The fields of an override.
pub(crate) const OVERRIDE: &[&str] = &["key", "limit", "until", "note"];

/// The known fields of a map.
pub(super) struct FieldMap<'n, 'a> {
    by_name: HashMap<&'n str, &'n TreeField<'a>>,
    /// Known names that unknown ones were probably meant to be.
    meant: Vec<&'static str>,
}

impl<'n, 'a> FieldMap<'n, 'a> {
    /// Returns the value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'n TreeNode<'a>> {
        self.by_name.get(name).map(|field| &field.node)
    }

    /// Returns whether a field is missing. A misspelt field does not count as missing, because it has been reported.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.by_name.contains_key(name) && !self.meant.contains(&name)
    }
}

impl<'a> ConfigReader<'a> {
    /// Returns the fields of `node`, which is `what`; reports unknown and duplicate names as mistakes.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n TreeNode<'a>,
        what: &str,
        known: &[&'static str],
        example: &str,
    ) -> Option<FieldMap<'n, 'a>> {
        let TreeValue::Map(fields) = &node.value else {
            self.wrong_value(node, what, example);
            return None;
        };
        let (mut by_name, mut meant) = (HashMap::new(), Vec::new());
        for field in fields {
            if !known.contains(&field.name.as_ref()) {
                if !self.has_room() {
                    continue;
                }
                let hint = match nearest(&field.name, known) {
                    Some(near) => {
                        meant.push(near);
                        format!("did you mean {near}?")
                    }
                    // The rest of a text that was cut off at a comma in a flow map.
                    None if field.name.contains('/') || field.name.starts_with("up to ") => {
                        "in {…} a comma ends a value, so put the text in quotes, as in {limit: \"5/min, 20/h\"}"
                            .to_owned()
                    }
                    None => format!("the fields are {}", known.join(", ")),
                };
                self.within(&field.name, |reader| {
                    reader.wrong(field.at, format!("a field of {}", last_word(what)), quoted(&field.name), hint);
                });
            } else if let Some(first) = by_name.insert(field.name.as_ref(), field) {
                self.twice(field, first.at);
            }
        }
        Some(FieldMap { by_name, meant })
    }

    /// Reports a duplicate name.
    pub(super) fn twice(&mut self, field: &TreeField<'_>, first: usize) {
        self.within(&field.name, |reader| reader.duplicate(field.at, "each name once", quoted(&field.name), first));
    }
}

/// Returns `a policy` for `the fields of a policy`.
fn last_word(what: &str) -> &str {
    what.rsplit_once(" of ").map_or(what, |(_, last)| last)
}

/// Returns the known name that is most similar, if one is similar enough.
pub(super) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer names cannot be similar, and comparing them would take long.
    if name.len() > 64 {
        return None;
    }
    let far = |known: &str| osa_distance(&name.to_lowercase(), known);
    let near = known.iter().map(|known| (far(known), *known)).min()?;
    (near.0 <= 1 + near.1.len() / 4).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_meant() {
        for (name, near) in [
            ("limt", Some("limit")),
            ("Limit", Some("limit")),
            ("limits", Some("limit")),
            ("overides", Some("overrides")),
            ("on-error", Some("on_error")),
            ("hsadow", Some("shadow")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, POLICY), near, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), POLICY), None);
    }
}
