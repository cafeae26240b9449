//! The front-end as its clients see it, over a stream in memory.
//!
//! | file | what it is |
//! |---|---|
//! | `client.rs` | a client, and a server for it |
//! | `scopes.rs` | every route with no token, wrong scopes, right scope |
//! | `answers.rs` | the answer of each route |
//! | `errors.rs` | requests that are not valid, and their errors |
//! | `gate.rs` | the gate |
//! | `limits.rs` | sizes, times and numbers |
//! | `away.rs` | a store that does not answer |
//! | `metrics.rs` | the metrics |
//! | `fuzz.rs` | every input gets a well-formed answer |

mod answers;
mod away;
mod client;
mod errors;
mod fuzz;
mod gate;
mod limits;
mod metrics;
mod scopes;
