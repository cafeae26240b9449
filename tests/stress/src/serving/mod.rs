//! A `tollgate serve` process of a campaign, with a folder of its own, and how it is asked.
//!
//! | file | what it is |
//! |---|---|
//! | `process.rs` | the process: started, refused, killed, ended, and what it said |
//! | `resp.rs` | a connection that speaks the Redis protocol, replies one by one |
//! | `http.rs` | one question over HTTP, and values of `/metrics` |
//! | `folder.rs` | a folder that is gone with the campaign |

mod folder;
mod http;
mod process;
mod resp;

pub(crate) use folder::Folder;
pub(crate) use http::{Metrics, post};
pub use process::TOLLGATE;
pub(crate) use process::{ServerProcess, StartOutcome, panic_in};
pub(crate) use resp::{Reply, Resp, push};
