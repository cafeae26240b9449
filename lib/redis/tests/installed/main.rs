//! The store in Redis: these tests need redis-server.
//!
//! | file | what it shows |
//! |---|---|
//! | `cluster.rs` | on a cluster: keys find their nodes, slots may move and nodes may die under load, and still no request is charged twice |
//! | `custom.rs` | custom scripts |
//! | `once.rs` | one request, at most one charge: an unknown outcome is never sent again |
//! | `outage.rs` | while the server does not answer: the deadline holds, the policy's on_error decides and says so, the breaker spares callers the wait, and the server is used again soon after it answers |
//! | `recovery.rs` | a script or library that the server has lost is sent again in the next pipeline, and no caller gets an error |
//! | `server.rs` | the store under `tollgate://`, against a server in this process: it decides as the embedded store does, reports the source of each decision, and distinguishes a refusal from an outage |
//! | `speed.rs` | what pipelines save |
//! | `store.rs` | the store as a home: it decides as the embedded one does, shows no password, and refuses what is wrong |
//! | `ways.rs` | connections other than plain TCP to Redis: TLS, sentinels, and Valkey |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod custom;
mod once;
mod outage;
mod recovery;
mod server;
mod speed;
mod store;
mod ways;
