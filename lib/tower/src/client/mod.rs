//! The client's side: requests that comply with the limits that the called services report.
//!
//! [`ObeyLayer`] wraps a client. It reads the header fields of every response: `Retry-After` of those with status
//! 429 and 503, and what is left until when, as `RateLimit` in the forms of several drafts, as
//! `RateLimit-Remaining` and `RateLimit-Reset`, or as `X-RateLimit-…`. From then on it sends to that origin no more
//! than the origin permits: a request that has to be held back fails with [`ObeyError::Held`], which contains the
//! time to wait, or waits itself if the layer permits that ([`ObeyLayer::longest`]).
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! use http::{Request, Response};
//! use tollgate_tower::client::{ObeyError, ObeyLayer};
//! use tower::{Layer, Service, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // A client; hyper_util's in a program.
//! let client = service_fn(|_: Request<()>| async {
//!     Ok::<_, Infallible>(Response::builder().header("ratelimit", r#""default";r=0;t=60"#).body(()).unwrap())
//! });
//! let mut client = ObeyLayer::new().layer(client);
//! let get = || Request::get("http://api.example/").body(()).unwrap();
//!
//! assert!(client.ready().await.unwrap().call(get()).await.is_ok());
//! match client.ready().await.unwrap().call(get()).await {
//!     Err(ObeyError::Held { retry_after }) => assert!(retry_after > Duration::from_secs(50)),
//!     _ => panic!("nothing is left for a minute"),
//! }
//! # }
//! ```
//!
//! What it does, and does not do:
//! - `r=0` and `t` hold all requests for `t` seconds from the response; `r=n` permits `n` more until then,
//!   including those in flight. Every limit that a response names is obeyed; a limit that it does not name counts
//!   the request all the same. Each request counts as one unit.
//! - `Retry-After` takes precedence over `t`, and nothing shortens it. Responses from caches (with `Age`),
//!   malformed fields and `Retry-After` with another status are ignored. No hold is longer than
//!   [`ObeyLayer::at_most`].
//! - Waiting requests are sent in the order of their arrival, as many as are left. When a hold ends and it is not
//!   known how many requests are permitted, one is sent, and more as answers arrive, or as seconds pass without
//!   one.
//! - All requests to a service that has not reported limits are sent. So the first requests may be refused, if
//!   there are many at once.
//! - A refusal is returned as it is: nothing is sent twice. Bodies are not touched.
//! - Other clients that use the same limit are noticed only through what responses report.
//! - A waiting request keeps the inner service that was polled ready for it, as tower requires. Around a service
//!   with few places (`ConcurrencyLimit`, `Buffer`) it occupies one of them.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer and its settings |
//! | `service.rs` | the service |
//! | `future.rs` | a request: it waits, is sent, and its answer is recorded |
//! | `limit_reader.rs` | what a response reports, with waits rounded, spread and bounded |
//! | `origin.rs` | the origin, under whose limits a request falls by default |
//! | `accounts.rs` | the accounts of all keys, bounded |
//! | `account.rs` | one key: what is known and which requests wait, under a lock |
//! | `tracker.rs` | what is known of one key, and whether a request may be sent; the rules |
//! | `limit.rs` | one limit, derived from answers whose order is unknown |
//! | `opening.rs` | how a line begins to move after a hold |
//! | `error.rs` | the reason why a request has no answer |

mod account;
mod accounts;
mod error;
mod future;
mod layer;
mod limit;
mod limit_reader;
mod opening;
mod origin;
mod service;
#[cfg(test)]
mod tests;
mod tracker;

pub use error::ObeyError;
pub use future::ObeyFuture;
pub use layer::ObeyLayer;
pub use service::ObeyService;
