//! Names of Tollgate's functions that a library of another author already uses.

use std::fmt;

/// A library that uses some of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameConflict {
    /// The node.
    pub(crate) node: String,
    /// The library that has them.
    pub(crate) library: String,
    /// The names of the functions.
    pub(crate) functions: Vec<String>,
}

impl NameConflict {
    /// Returns what to do about all of them.
    pub(crate) fn remedy(conflicts: &[Self]) -> String {
        let mut libraries: Vec<&str> = conflicts.iter().map(|conflict| conflict.library.as_str()).collect();
        libraries.sort_unstable();
        libraries.dedup();
        format!(
            "if nobody calls it any more, remove it with FUNCTION DELETE {}; or keep it, and install the functions whose \
             names end in {version} (--only tollgate{version}) or scripts (--scripts)",
            libraries.join(" and FUNCTION DELETE "),
            version = tollgate_redis::lua::VERSION
        )
    }
}

impl fmt::Display for NameConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: library {} holds {}", self.node, self.library, self.functions.join(", "))
    }
}
