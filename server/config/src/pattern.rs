//! A key, or a glob pattern of keys.

use std::sync::Arc;

use tollgate_kernel::matches;

use crate::key::{join, split};

/// A key, or a pattern with `*`, `?`, `[a-c]` and `\`. It is cheap to clone, because a list of the whole file is in
/// every policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Arc<str>,
    kind: PatternKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PatternKind {
    /// The text is the only key that matches.
    Key,
    /// The text is a glob pattern.
    Glob,
    /// A glob pattern for each part of a key; a `*` does not extend into the next part.
    Parts(Arc<[Box<str>]>),
}

impl Pattern {
    /// Returns the pattern of a text.
    pub fn new(text: &str) -> Self {
        Self { kind: if is_glob(text) { PatternKind::Glob } else { PatternKind::Key }, text: text.into() }
    }

    /// Returns a pattern for keys of several parts, with one pattern for each part.
    pub fn of_parts(parts: &[&str]) -> Self {
        let bytes: Vec<_> = parts.iter().map(|part| part.as_bytes()).collect();
        // The parts are valid text and the inserted characters are ASCII, so the result is valid text too.
        let text: Arc<str> = String::from_utf8_lossy(&join(&bytes)).into();
        match parts.iter().any(|part| is_glob(part)) {
            true => Self { kind: PatternKind::Parts(parts.iter().map(|&part| part.into()).collect()), text },
            false => Self { kind: PatternKind::Key, text },
        }
    }

    /// Returns the pattern as it was written; patterns of several parts are joined in the same way as their values.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the only key that matches, if the pattern is a single key.
    pub fn key(&self) -> Option<&[u8]> {
        (self.kind == PatternKind::Key).then_some(self.text.as_bytes())
    }

    /// Returns whether a key matches.
    pub fn matches(&self, key: &[u8]) -> bool {
        match &self.kind {
            PatternKind::Key => self.text.as_bytes() == key,
            PatternKind::Glob => matches(self.text.as_bytes(), key, &mut 0),
            PatternKind::Parts(parts) => {
                let mut values = split(key);
                let all = parts
                    .iter()
                    .all(|part| values.next().is_some_and(|value| matches(part.as_bytes(), &value, &mut 0)));
                all && values.next().is_none()
            }
        }
    }
}

fn is_glob(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_signs_is_one_key() {
        assert_eq!(Pattern::new("user:42").key(), Some(&b"user:42"[..]));
        assert!(Pattern::new("user:42").matches(b"user:42") && !Pattern::new("user:42").matches(b"user:421"));
        let pattern = Pattern::new("user:*");
        assert!(pattern.key().is_none() && pattern.matches(b"user:42") && !pattern.matches(b"team:42"));
        assert!(Pattern::new(r"a\*b").matches(b"a*b") && !Pattern::new(r"a\*b").matches(b"axb"));
    }

    #[test]
    fn a_pattern_of_parts_keeps_to_its_parts() {
        let pattern = Pattern::of_parts(&["vip*", "/pay"]);
        assert_eq!((pattern.key(), pattern.as_str()), (None, "vip*|/pay"));
        assert!(pattern.matches(b"vip1|/pay") && pattern.matches(br"vip\|x|/pay"));
        // The value of the second part is `x|/pay`, which would match if the pattern were a single glob.
        assert!(!pattern.matches(br"vip1|x\|/pay") && Pattern::new("vip*|/pay").matches(br"vip1|x\|/pay"));
        assert!(!pattern.matches(b"vip1") && !pattern.matches(b"vip1|/pay|") && !pattern.matches(b""));
        let key = Pattern::of_parts(&["a|b", "c"]);
        assert_eq!(key.key(), Some(&br"a\|b|c"[..]));
        assert!(key.matches(br"a\|b|c") && !key.matches(b"a|b|c"));
    }
}
