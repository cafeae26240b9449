//! Which dialects are written, and how.
//!
//! | file | what it is |
//! |---|---|
//! | `prepared.rs` | what is the same for every response, made once; a response's fields |
//! | `list.rs` | draft-10 and draft-8: a list of all limits |
//! | `single.rs` | all others: a set of fields that tells of one limit |

mod list;
mod prepared;
mod single;

#[cfg(test)]
mod tests;

use http::HeaderMap;
use tollgate_core::Policy;

use crate::dialect::Dialect;
use crate::seconds::Jitter;
use crate::told::Told;

pub use prepared::PreparedFields;

/// The header fields that tell a decision, in several dialects at once. By default draft-10 with `Retry-After`.
///
/// A field that two dialects have is the earlier one's. Where a response has such fields already, as behind another
/// layer or a proxy, lists grow by another line; of fields with one value those with the least left stay, as a set.
///
/// ```
/// use tollgate_http::{Dialect, Fields};
/// let policy = "10/min".parse()?;
/// let prepared = Fields::new([Dialect::Draft10, Dialect::Draft6]).jitter(5).prepare(&policy);
/// # Ok::<(), tollgate_core::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fields {
    dialects: Vec<Dialect>,
    retry_after: bool,
    exact: bool,
    jitter: Jitter,
}

impl Default for Fields {
    fn default() -> Self {
        Self::new([Dialect::Draft10])
    }
}

impl Fields {
    /// No field at all.
    pub fn none() -> Self {
        Self { dialects: Vec::new(), retry_after: false, exact: false, jitter: Jitter::default() }
    }

    /// The fields of these dialects, and `Retry-After` in refusals.
    pub fn new(dialects: impl IntoIterator<Item = Dialect>) -> Self {
        let dialects: Vec<Dialect> = dialects.into_iter().collect();
        // PlugLimit says itself when it has one.
        let retry_after = dialects.is_empty() || dialects.iter().any(|dialect| *dialect != Dialect::Plug);
        Self { dialects, retry_after, exact: false, jitter: Jitter::default() }
    }

    /// The same without `Retry-After` in refusals.
    #[must_use]
    pub fn without_retry_after(self) -> Self {
        Self { retry_after: false, ..self }
    }

    /// The same with every wait longer by up to so many percent of it (at most 10) in whole seconds, by another part in
    /// each response: so that not all who were refused come back at once. Nobody is told to come early.
    #[must_use]
    pub fn jitter(self, percent: u8) -> Self {
        Self { jitter: Jitter::percent(percent), ..self }
    }

    /// The same with the exact figures: `tollgate-remaining`, `tollgate-retry-after-us` (-1 for never) and
    /// `tollgate-source`.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// Whether no field is written at all.
    pub fn is_none(&self) -> bool {
        self.dialects.is_empty() && !self.retry_after && !self.exact
    }

    /// What is the same for every response under `policy`, made once.
    pub fn prepare(&self, policy: &Policy) -> PreparedFields {
        PreparedFields::new(self, policy)
    }

    /// Writes the fields of one decision. Whoever tells many prepares.
    pub fn write(&self, told: &Told<'_>, into: &mut HeaderMap) {
        self.prepare(told.policy).write(told, into);
    }
}
