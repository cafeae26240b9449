//! Every home through the same vectors and questions. Some of them need redis-server.
//!
//! | file | what it shows |
//! |---|---|
//! | `agreement.rs` | the embedded store decides as the kernel does, whatever is asked in whatever order |
//! | `campaign.rs` | a short campaign, a tenth of `cargo xtask campaign` |
//! | `hostile.rs` | five million keys against 32 MB: the short form of `cargo xtask hostile` |
//! | `keys.rs` | a key is 1 to 512 bytes in every home, and any other is refused in the same words |
//! | `player.rs` | tests of the tests: the player notices what is wrong |
//! | `redis.rs` | the homes in Redis: vectors, traces, faults, numbers, bad arguments, and what the Lua may not contain |
//! | `redis_keys.rs` | what keys in Redis hold and for how long, whoever shares them, and what a user with few rights leaves behind |
//! | `rolling.rs` | the rolling limiter in Rust over Redis, a cluster and a server answers what it answers in memory |
//! | `vectors.rs` | all vectors through the homes in this process, and through the built program |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod campaign;
mod hostile;
mod keys;
mod player;
mod redis;
mod redis_keys;
mod rolling;
mod vectors;
