//! The layer end to end: real servers and clients on the loopback, on clocks that the tests move. One program, so that
//! it is linked once.
//!
//! | file | what it shows |
//! |---|---|
//! | `fields.rs` | header fields byte for byte, and bodies of refusals |
//! | `streams.rs` | streams, trailers, uploads and websockets pass untouched |
//! | `grpc.rs` | gRPC calls pass, and are refused as gRPC has it |
//! | `retry.rs` | whoever comes when told passes |
//! | `identity.rs` | nobody gets more by saying to be others |
//! | `keys.rs` | every kind of key, and requests without one |
//! | `tolls.rs` | costs, skip rules, routes, the switch |
//! | `settle.rs` | responses that give back, or charge |
//! | `stores.rs` | one scenario over every store |
//! | `failures.rs` | stores that fail or hang, and what is logged |
//! | `outage.rs` | a Redis server that stops and comes back under load |
//! | `plug_redis.rs`, `plug_vectors.rs` | seed 003's limiters in a Redis server, and its vectors through the layer |
//! | `stacked.rs` | two layers, one behind the other |
//! | `ready.rs` | readiness, requests that are given up, kinds of bodies |
//! | `waiting.rs` | waiting instead of refusing |
//! | `load.rs` | many requests at once: exactly as many pass as may |
//! | `support/` | servers, clients and chance |

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
mod settle;
mod stacked;
mod stores;
mod streams;
mod support;
mod tolls;
mod waiting;
