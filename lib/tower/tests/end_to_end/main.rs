//! The layer end to end: real servers and clients on the loopback, on clocks that the tests move. One program, so that
//! it is linked once.
//!
//! | file | what it shows |
//! |---|---|
//! | `fields.rs` | header fields byte for byte, and bodies of refusals |
//! | `streams.rs` | streams, trailers, uploads and websockets pass untouched |
//! | `grpc.rs` | gRPC calls pass, and are refused with a gRPC status |
//! | `retry.rs` | a request that waits as long as it was told passes |
//! | `identity.rs` | clients that claim other addresses |
//! | `keys.rs` | every kind of key, and requests without one |
//! | `routes.rs` | costs, skip rules, routes, the switch |
//! | `settle.rs` | responses that refund or charge |
//! | `stores.rs` | one scenario over every store |
//! | `failures.rs` | stores that fail or hang, and what is logged |
//! | `outage.rs` | a Redis server that stops and comes back under load |
//! | `plug_redis.rs`, `plug_vectors.rs` | PlugLimit's limiters in a Redis server, and its vectors through the layer |
//! | `stacked.rs` | two layers, one behind the other |
//! | `ready.rs` | readiness, requests that are dropped, kinds of bodies |
//! | `waiting.rs` | waiting instead of refusing |
//! | `load.rs` | many requests at once: exactly as many pass as the limit permits |
//! | `support/` | servers and clients |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failures;
mod fields;
mod grpc;
mod identity;
mod keys;
mod load;
mod outage;
mod plug_redis;
mod plug_vectors;
mod ready;
mod retry;
mod routes;
mod settle;
mod stacked;
mod stores;
mod streams;
mod support;
mod waiting;
