//! Bytes that connections make the server keep: halves of long commands, long pipelines, commands that wait
//! for EXEC. Each may keep a little; what is more comes out of one bound for all, since a client that means
//! harm has many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one keeper may have beside the bound: a command as nearly all are.
const FREE: usize = 2 << 10;
/// What all together may have beyond that.
const MOST: usize = 12 << 20;

/// The bound for all.
#[derive(Debug)]
pub(crate) struct Held {
    left: AtomicUsize,
}

/// What one keeper has of it, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    of: Option<Arc<Held>>,
    bytes: usize,
}

impl Default for Held {
    fn default() -> Self {
        Self { left: AtomicUsize::new(MOST) }
    }
}

impl Held {
    fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Hold {
    /// Keeps so many bytes instead of what was kept before; `false` if there is no room for more, and then
    /// nothing is changed.
    #[must_use]
    pub(crate) fn keep(&mut self, of: &Arc<Held>, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(FREE);
        if bytes > self.bytes {
            if !of.take(bytes - self.bytes) {
                return false;
            }
            self.of.get_or_insert_with(|| Arc::clone(of));
        } else if bytes < self.bytes {
            of.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keep_so_much_and_each_a_little() {
        let held = Arc::new(Held::default());
        let mut holds: Vec<Hold> = (0..13).map(|_| Hold::default()).collect();
        let kept = holds.iter_mut().filter_map(|hold| hold.keep(&held, (1 << 20) + FREE).then_some(())).count();
        assert_eq!(kept, 12);
        assert!(holds[12].keep(&held, FREE), "a little is always kept");
        assert!(!holds[12].keep(&held, FREE + 1));
        assert!(holds[0].keep(&held, FREE + 7), "less than before");
        assert!(holds[12].keep(&held, (1 << 20) - 7 + FREE));
        assert!(!holds[0].keep(&held, FREE + 8), "nothing is left");
        assert!(holds[0].keep(&held, FREE + 7), "what it has it may have");
        drop(holds);
        assert_eq!(held.left.load(Ordering::Relaxed), MOST);
    }
}
