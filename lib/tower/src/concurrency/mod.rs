//! Limits on the number of requests of a key in flight: a layer that holds a permit from a request's head to the
//! end of its response's body. The permit is freed however the request ends: by its end, a client that disconnects,
//! or a panic.
//!
//! ```
//! use tollgate_permits::Concurrency;
//! use tollgate_tower::{ClientIp, concurrency::ConcurrencyLayer};
//!
//! // Eight downloads of a client at once; the ninth is answered 429.
//! let layer = ConcurrencyLayer::new(Concurrency::memory(8)?).key(ClientIp::peer()).name("downloads")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A connection that a service upgrades, as for websockets, outlives the response: such a service must keep the
//! [`RequestPermit`] of its request.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer and its settings |
//! | `rules.rs` | from a request's head to whether it passes, and the response if it does not |
//! | `service.rs` | the service behind the layer |
//! | `body.rs` | the body that holds the permit |

mod body;
mod layer;
mod rules;
mod service;
#[cfg(test)]
mod tests;

pub use body::ConcurrencyBody;
pub use layer::ConcurrencyLayer;
pub use rules::{ConcurrencyRefusal, RequestPermit};
pub use service::{ConcurrencyFuture, ConcurrencyService};
pub use tollgate_permits::Concurrency;
