//! Writing a snapshot while others decide.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tollgate_journal::JournalError;
use tollgate_kernel::Timestamp;
use tollgate_keyspace::{ClockReadings, Keyspace};
use tollgate_memory::Memory;

use super::binding::Binding;
use super::sections::{self, BanLister, SnapshotSource};
use super::touched::TouchedKeys;

impl Binding {
    /// Writes a snapshot while others decide; returns its size in bytes. `late` returns whether the time for it has run
    /// out.
    pub(super) fn snapshot(
        &self,
        memory: &Memory,
        keys: &Mutex<Keyspace>,
        bans: &BanLister<'_>,
        now: impl Into<ClockReadings>,
        late: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, JournalError> {
        let (began, now) = (Instant::now(), now.into());
        // Set before the files change, so that no change falls in between; keys written whole in the old file do not
        // count in the new one.
        self.lock().set_touched(Some(TouchedKeys::new()));
        let notes = || {
            let (state, latest) = (self.framing_state(), Timestamp::saturating(self.latest.load(Ordering::Relaxed)));
            (now.now.max(latest), state.generation)
        };
        let source = SnapshotSource { memory, keys, notes: &notes, bans, now, late };
        let written = self.journal.rotate().and_then(|rotation| rotation.write(|to| sections::write(&source, to)));
        self.lock().set_touched(None);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(took, Ordering::Relaxed);
        written
    }
}
