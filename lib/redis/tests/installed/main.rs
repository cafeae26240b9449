//! The store in Redis: these tests need redis-server.
//!
//! | file | what it shows |
//! |---|---|
//! | `cluster.rs` | on a cluster: keys find their nodes, slots may move and nodes may die under load, and still no request is charged twice |
//! | `custom.rs` | scripts of one's own |
//! | `once.rs` | one request, at most one charge: an unknown outcome is never sent again |
//! | `outage.rs` | while the server does not answer: the deadline holds, the policy's on_error decides and says so, the breaker spares callers the wait, and the server is used again soon after it answers |
//! | `recovery.rs` | what the server forgets is brought again, in the pipeline that found it missing, and no caller sees it |
//! | `server.rs` | the store under `tollgate://`, against a server in this process: it decides as the embedded store does, says who decided, and tells a refusal from an outage |
//! | `speed.rs` | what batching saves |
//! | `store.rs` | the store as a home: it decides as the embedded one does, shows no password, and refuses what is wrong |
//! | `ways.rs` | the ways to a server beside plain TCP: TLS, sentinels, and a server of the other house |
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
