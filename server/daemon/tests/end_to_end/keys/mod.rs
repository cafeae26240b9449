//! The keys of other conventions, their dialects and scripts, over real sockets.
//!
//! | file | what it shows |
//! |---|---|
//! | `support.rs` | a server with a clock of its own, and a client that shows replies as they came |
//! | `plain.rs` | GET, SET, INCR, EXPIRE, SCAN, … and their errors |
//! | `api.rs` | redis-limiter: its application, and `api_counter` on the same keys |
//! | `dialects.rs` | every dialect, and when its keys expire |
//! | `random.rs` | random calls of every dialect agree with the kernel, which forgets nothing |
//! | `scripts.rs` | EVALSHA, NOSCRIPT, EVAL; FUNCTION; our own functions |
//! | `cap.rs` | what happens when there is no memory left |
//! | `seen.rs` | decisions by dialect in the metrics |
//! | `store.rs`, `in_store.rs` | with Redis as the store: dialects; plain keys beside those of an application |
//! | `forward.rs` | scripts and functions that the store runs |
//! | `differential.rs` | random commands answered as redis-server answers them |

mod api;
mod cap;
mod dialects;
mod differential;
mod forward;
mod in_store;
mod plain;
mod random;
mod scripts;
mod seen;
mod store;
mod support;
