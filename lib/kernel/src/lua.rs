//! The Lua twins of what the algorithms share, each beside its Rust file. The homes in Redis put them together; nothing
//! here runs Lua.

/// `units.lua`: exact products and quotients.
pub const UNITS: &str = include_str!("units.lua");
/// `spacing.lua`: a minimum time between two charges.
pub const SPACING: &str = include_str!("spacing.lua");
/// `ring.lua`: the storage of a log's entries.
pub const RING: &str = include_str!("ring.lua");
/// `log.lua`: the event log.
pub const LOG: &str = include_str!("log.lua");
/// `combine.lua`: the decision of a policy.
pub const COMBINE: &str = include_str!("combine.lua");
/// `text/parse.lua`: policy text.
pub const PARSE: &str = include_str!("text/parse.lua");
