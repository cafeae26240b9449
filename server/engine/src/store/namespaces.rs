//! The namespaces that callers of this server used lately. A state in a store is at `NAMESPACE:{KEY}`, so that deleting a
//! key clears its states only in namespaces that are known.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate_dialects::state_name;

/// The most namespaces that are remembered; those of the latest calls stay.
const MAX_NAMESPACES: usize = 16;
/// The longest namespace that is remembered, in bytes.
const MAX_LENGTH: usize = 256;

/// The namespaces, the latest first.
#[derive(Debug, Default)]
pub(super) struct SeenNamespaces(Mutex<VecDeque<Vec<u8>>>);

impl SeenNamespaces {
    /// Remembers the namespace of a state's name.
    pub(super) fn note(&self, name: &[u8], key: &[u8]) {
        let tag = [b":{", key, b"}"].concat();
        let Some(namespace) = name.strip_suffix(&*tag).filter(|namespace| namespace.len() <= MAX_LENGTH) else {
            return;
        };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.iter().position(|known| known == namespace) {
            Some(0) => {}
            Some(place) => seen.swap(0, place),
            None => {
                seen.truncate(MAX_NAMESPACES - 1);
                seen.push_front(namespace.to_vec());
            }
        }
    }

    /// Returns the names that states of these keys may have in the namespaces.
    pub(super) fn names(&self, keys: &[&[u8]]) -> Vec<Vec<u8>> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().flat_map(|namespace| keys.iter().filter_map(|key| state_name(namespace, key))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_namespaces_are_remembered() {
        let seen = SeenNamespaces::default();
        assert!(seen.names(&[b"k"]).is_empty());
        for number in 0..2 * MAX_NAMESPACES {
            seen.note(format!("n{number}:{{k}}").as_bytes(), b"k");
            seen.note(b"kept:{k}", b"k");
        }
        let names = seen.names(&[b"a", b"a}"]);
        assert_eq!(names.len(), MAX_NAMESPACES);
        assert_eq!(names[0], b"kept:{a}");
        // What is not the name of a state of the key is passed over, and so is what is long.
        seen.note(b"k", b"k");
        seen.note(format!("{}:{{k}}", "n".repeat(MAX_LENGTH + 1)).as_bytes(), b"k");
        assert_eq!(seen.names(&[b"a"]), names);
    }
}
