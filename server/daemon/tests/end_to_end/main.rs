//! The server from end to end. Some of these tests need redis-server, nginx or schemathesis.
//!
//! | file | what it shows |
//! |---|---|
//! | `http.rs` | HTTP over a real socket, beside RESP: one server, one state, one page of metrics |
//! | `http_nginx.rs` | a real nginx with the recipe of `docs/gate.md` in front of a service: what the guide says is what is run |
//! | `http_schemathesis.rs` | schemathesis, which nobody here wrote, asks the server whatever its OpenAPI document allows and much that it does not: no answer is undocumented, malformed or 500, and what is valid is accepted |
//! | `config/` | a server and its policy file, a real one: what a change does to what was consumed, that changes are seen however they are made, and what is told of it |
//! | `data/` | what is kept over a restart, over real sockets and in real directories |
//! | `listeners/` | connections from end to end: caps, TLS, tokens, and the end |
//! | `keys/` | the keys of other conventions, their dialects and scripts, over real sockets |
//! | `stock/` | the front-end for Redis clients beside a redis-server: the same bytes to both |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod data;
mod http;
mod http_nginx;
mod http_schemathesis;
mod keys;
mod listeners;
mod stock;
