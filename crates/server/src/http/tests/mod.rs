//! The front-end as its clients see it, over a stream in memory.
//!
//! | file | what it is |
//! |---|---|
//! | `client.rs` | a client and a server to ask |
//! | `scopes.rs` | every route times no token, wrong scopes, right scope |
//! | `answers.rs` | what each route answers |
//! | `errors.rs` | what is wrong, and what is said of it |
//! | `gate.rs` | the gate |
//! | `limits.rs` | sizes, times and numbers |
//! | `away.rs` | a store that does not answer |
//! | `metrics.rs` | what is counted |
//! | `fuzz.rs` | whatever comes, an answer goes |

mod answers;
mod away;
mod client;
mod errors;
mod fuzz;
mod gate;
mod limits;
mod metrics;
mod scopes;
