//! The selection of dialects to write, and how they are written.
//!
//! | file | what it is |
//! |---|---|
//! | `prepared.rs` | the parts that are the same for every response, prepared once; the fields of a response |
//! | `list.rs` | draft-10 and draft-8: a list of all limits |
//! | `single.rs` | all other dialects: a set of fields that describes one limit |

mod list;
mod prepared;
mod single;

#[cfg(test)]
mod tests;

use http::HeaderMap;
use tollgate_kernel::Policy;

use crate::dialect::HeaderDialect;
use crate::report::DecisionReport;
use crate::seconds::Jitter;

pub use prepared::PreparedFields;

/// The header fields that describe a decision, in several dialects at once. The default is draft-10 with `Retry-After`.
///
/// A field that two dialects share is written by the earlier one. A response may already have such fields, as behind
/// another layer or a proxy. Lists then grow by another line; of fields with a single value, the set with the least
/// left is kept as a whole.
///
/// ```
/// use tollgate_http::{HeaderDialect, HeaderFields};
/// let policy = "10/min".parse()?;
/// let prepared = HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::Draft6]).jitter(5).prepare(&policy);
/// # Ok::<(), tollgate_kernel::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderFields {
    dialects: Vec<HeaderDialect>,
    retry_after: bool,
    exact: bool,
    jitter: Jitter,
}

impl Default for HeaderFields {
    fn default() -> Self {
        Self::new([HeaderDialect::Draft10])
    }
}

impl HeaderFields {
    /// Returns a selection that writes no field at all.
    pub fn none() -> Self {
        Self { dialects: Vec::new(), retry_after: false, exact: false, jitter: Jitter::default() }
    }

    /// Returns a selection of these dialects, with `Retry-After` in refusals.
    pub fn new(dialects: impl IntoIterator<Item = HeaderDialect>) -> Self {
        let dialects: Vec<HeaderDialect> = dialects.into_iter().collect();
        // PlugLimit writes `Retry-After` itself.
        let retry_after = dialects.is_empty() || dialects.iter().any(|dialect| *dialect != HeaderDialect::Plug);
        Self { dialects, retry_after, exact: false, jitter: Jitter::default() }
    }

    /// Disables `Retry-After` in refusals.
    #[must_use]
    pub fn without_retry_after(self) -> Self {
        Self { retry_after: false, ..self }
    }

    /// Lengthens every wait by up to this percentage of it (at most 10), in whole seconds. Each response draws a
    /// different part, so that refused clients do not all come back at once. A wait is never shortened.
    #[must_use]
    pub fn jitter(self, percent: u8) -> Self {
        Self { jitter: Jitter::percent(percent), ..self }
    }

    /// Adds the exact figures: `tollgate-remaining`, `tollgate-retry-after-us` (-1 for never) and `tollgate-source`.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// Returns whether no field is written at all.
    pub fn is_none(&self) -> bool {
        self.dialects.is_empty() && !self.retry_after && !self.exact
    }

    /// Prepares the parts that are the same for every response under `policy`.
    pub fn prepare(&self, policy: &Policy) -> PreparedFields {
        PreparedFields::new(self, policy)
    }

    /// Writes the fields of one decision. For many decisions, [`HeaderFields::prepare`] is faster.
    pub fn write(&self, report: &DecisionReport<'_>, into: &mut HeaderMap) {
        self.prepare(report.policy).write(report, into);
    }
}
