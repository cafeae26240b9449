//! The store in Redis, in Valkey and in the Tollgate server: exact limits that many processes share. The server
//! makes each decision in one atomic call, by the same algorithms as every other home.
//!
//! Guarantees: **one request causes at most one charge** (`verdict.rs`); no decision takes longer than its
//! deadline; while the server does not answer, the policy's `on_error` decides, and every such decision says so in
//! its `source`.
//!
//! | file | what it is |
//! |---|---|
//! | `store.rs`, `store_impl.rs`, `together.rs` | the store; its `Store` implementation; several keys decided together |
//! | `url.rs` | the URL of a store |
//! | `builder.rs`, `settings.rs`, `tls.rs`, `error.rs` | settings, and the errors of opening a store |
//! | `prepared.rs`, `call.rs`, `reply.rs` | policies and requests as calls, and the replies |
//! | `code.rs` | calls of the Lua, for Redis and Valkey |
//! | `commands.rs` | calls of the Tollgate server's own commands, for `tollgate://` |
//! | `dispatcher.rs` | one call from request to answer, within the deadline |
//! | `verdict.rs` | what an error of the server means: which calls are sent again, and which never are |
//! | `router.rs`, `topology.rs`, `slot.rs`, `databases.rs` | which server a key belongs to, and which database |
//! | `link.rs`, `batch.rs`, `connect.rs`, `breaker.rs` | the link to one server: queue, pipelines, connection, probe |
//! | `standin.rs`, `scaled.rs` | decisions of this process while the server does not answer |
//! | `lua/` | the Lua that decides inside Redis: the twins assembled into scripts and into a function library |
//! | `custom.rs` | the user's own scripts |
//! | `dialect.rs` | calls of dialects on keys of their callers |
//! | `keys.rs`, `pages.rs` | commands on plain keys, with the check of whose they are; all keys in steps |
//! | `forward.rs` | scripts and functions of callers, passed on as they are |
//! | `stats.rs` | the counters of a store |

mod batch;
mod breaker;
mod builder;
mod call;
mod code;
mod commands;
mod connect;
mod custom;
mod databases;
mod dialect;
mod dispatcher;
mod error;
mod forward;
mod keys;
mod link;
pub mod lua;
mod pages;
mod prepared;
mod reply;
mod router;
mod scaled;
mod settings;
mod slot;
mod standin;
mod stats;
mod store;
mod store_impl;
mod tls;
mod together;
mod topology;
mod url;
mod verdict;

pub use builder::RedisBuilder;
pub use custom::{CustomHeader, CustomReply, CustomScript};
pub use error::{RedisOpenError, StoreUrlError};
pub use forward::{ForwardedCommand, ForwardedReply};
pub use keys::{GuardedCommand, GuardedReply, KeyGuard};
pub use settings::Packaging;
pub use slot::{SLOTS, hash_tag, slot, state_key};
pub use stats::RedisStats;
pub use store::Redis;
pub use tollgate_dialects::Output;
pub use url::{RedisDeployment, RedisNode, RedisSecret, StoreUrl};
