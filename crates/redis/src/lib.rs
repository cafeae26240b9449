//! The store in Redis and Valkey, and in the Tollgate server: exact limits that many processes share, decided
//! inside the server by the same algorithms as everywhere, one atomic call a decision.
//!
//! What it promises: **one request, at most one charge** (`verdict.rs`), no decision later than its deadline,
//! and a policy's `on_error` while the server does not answer, which every such decision says in its `source`.
//!
//! | file | what it is |
//! |---|---|
//! | `store.rs`, `seam.rs`, `together.rs` | the store as its callers see it; as a home among others; several keys at once |
//! | `builder.rs`, `settings.rs`, `url.rs`, `tls.rs`, `error.rs` | what it is told, and what is wrong with that |
//! | `prepared.rs`, `call.rs`, `reply.rs` | policies and requests as calls, and the replies |
//! | `code.rs` | calls of the Lua, for Redis and Valkey |
//! | `commands.rs` | calls of a server that has commands of ours, for `tollgate://` |
//! | `asker.rs` | a call from question to answer, within the deadline |
//! | `verdict.rs` | what an error of the server means: what is sent again, and what never is |
//! | `router.rs`, `topology.rs`, `slot.rs` | which server a key belongs to |
//! | `link.rs`, `batch.rs`, `connect.rs`, `breaker.rs` | the way to one server: queue, pipelines, connection, probe |
//! | `standin.rs`, `scaled.rs` | who decides while the server does not |
//! | `lua.rs` | the Lua, for those who install it by themselves |
//! | `custom.rs` | scripts of one's own |
//! | `stats.rs` | what a store counts of itself |

mod asker;
mod batch;
mod breaker;
mod builder;
mod call;
mod code;
mod commands;
mod connect;
mod custom;
mod error;
mod link;
pub mod lua;
mod prepared;
mod reply;
mod router;
mod scaled;
mod seam;
mod settings;
mod slot;
mod standin;
mod stats;
mod store;
mod tls;
mod together;
mod topology;
mod url;
mod verdict;

pub use builder::Builder;
pub use custom::{Custom, CustomReply, Header, Output};
pub use error::OpenError;
pub use settings::Packaging;
pub use slot::state_key;
pub use stats::Stats;
pub use store::Redis;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/redis.md")]
struct Guide;
