//! Writing a snapshot while others decide.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate_journal::Failed;
use tollgate_kernel::Timestamp;
use tollgate_keyspace::{Keys, Times};
use tollgate_memory::Memory;

use super::binding::Binding;
use super::sections::{self, Source, Told};
use super::touched::Touched;

impl Binding {
    /// Writes a snapshot while others decide; returns its size in bytes. `late` returns whether the time for it has run
    /// out.
    pub(crate) fn snapshot(
        &self,
        memory: &Memory,
        keys: &Mutex<Keys>,
        bans: &Told<'_>,
        now: impl Into<Times>,
        late: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, Failed> {
        let (began, now) = (Instant::now(), now.into());
        // Set before the files change, so that no change falls in between; keys written whole in the old file do not
        // count in the new one.
        self.lock().touched(Some(Touched::new()));
        let notes = || {
            let (book, latest) = (self.book(), Timestamp::saturating(self.latest.load(Ordering::Relaxed)));
            (now.now.max(latest), book.generation)
        };
        let source = Source { memory, keys, notes: &notes, bans, now, late };
        let written = self.journal.rotate().and_then(|rotation| rotation.write(|to| sections::write(&source, to)));
        self.lock().touched(None);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
        written
    }
}
