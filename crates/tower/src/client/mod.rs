//! The client's side: requests that keep to what the services one calls say of their limits.
//!
//! [`ObeyLayer`] goes around a client. It reads the header fields of every response: `Retry-After` of those with status
//! 429 and 503, and what is left until when, as `RateLimit` in the forms of several drafts, as `RateLimit-Remaining` and
//! `RateLimit-Reset`, or as `X-RateLimit-…`. From then on it sends to that origin no more than it said: a request that
//! has to be held back fails with [`ObeyError::Held`], which tells for how long, or waits if the layer was told how
//! long one may ([`ObeyLayer::longest`]).
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
//! What it does, and does not:
//! - `r=0` and `t` hold everything for `t` seconds from the response; `r=n` lets `n` more go until then, those in flight
//!   among them. Every limit that a response names is kept to; one that it does not name counts the request all the
//!   same. Each request counts as one unit.
//! - `Retry-After` goes before `t`, and nothing shortens it. Responses of caches (with `Age`), malformed fields and
//!   `Retry-After` with another status are ignored. No hold is longer than [`ObeyLayer::at_most`].
//! - Those who wait are sent in the order they came, as many as are left. When a hold ends without a word of how many
//!   may come, one goes, and more as answers come, or as seconds pass without one.
//! - To a service that has not said anything, everything is sent. So the first requests may be refused, if there are
//!   many at once.
//! - A refusal is handed on as it came: nothing is sent twice. Bodies are not touched.
//! - Others who use up the same limit are only seen in what responses say.
//! - A request that waits keeps the service inside that was made ready for it, as tower asks. Around a service with
//!   few places (`ConcurrencyLimit`, `Buffer`) it takes up one of them.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer and its settings |
//! | `service.rs` | the service |
//! | `future.rs` | a request: waits, is sent, its answer is heard |
//! | `hear.rs` | what a response says, with waits rounded, spread and bounded |
//! | `origin.rs` | whose limits a request falls under |
//! | `book.rs` | the accounts of all keys, bounded |
//! | `account.rs` | one key: what is known and who waits, under a lock |
//! | `known.rs` | what is known of one key, and whether a request may go; the rules |
//! | `limit.rs` | one limit, by answers whose order is unknown |
//! | `opening.rs` | how a line begins to move after a hold |
//! | `error.rs` | why a request has no answer |

mod account;
mod book;
mod error;
mod future;
mod hear;
mod known;
mod layer;
mod limit;
mod opening;
mod origin;
mod service;
#[cfg(test)]
mod tests;

pub use error::ObeyError;
pub use future::ObeyFuture;
pub use layer::ObeyLayer;
pub use service::Obey;
