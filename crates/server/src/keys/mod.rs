//! The keys of the other conventions: what their clients find at the keys they name.

/// All keys of all databases.
#[derive(Debug, Default)]
pub(crate) struct Keys {}
