//! The telemetry of a Tollgate server, for the people who operate it: its log, its audit log, and traces of its
//! requests.
//!
//! | file | what it is |
//! |---|---|
//! | `log/` | lines on stderr, as text or JSON, that never make a request wait |
//! | `audit/` | the audit log: who did what, when and from where |
//! | `traces/` | spans for OpenTelemetry collectors |
//! | `post.rs` | one POST request, which sends alerts and traces |
//!
//! Metrics are not here: they are read from the server's own counters, and formatted there.

pub mod audit;
pub mod log;
pub mod post;
pub mod traces;
