//! At most so many requests of a key in flight: a layer that holds a permit from a request's head to the end of its
//! response's body. Whatever ends it frees the place: the end, a client that leaves, a panic.
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
//! A connection that a service upgrades, as for websockets, outlives the response: such a service keeps the
//! [`InFlight`] of its request.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs` | the layer, and what it is told |
//! | `rules.rs` | from a request's head to whether it passes, and what is answered if not |
//! | `service.rs` | the service behind the layer |
//! | `body.rs` | the body that holds the permit |

mod body;
mod layer;
mod rules;
mod service;
#[cfg(test)]
mod tests;

pub use body::PermittedBody;
pub use layer::ConcurrencyLayer;
pub use rules::{Busy, InFlight};
pub use service::{Permitted, PermittedFuture};
pub use tollgate_permits::Concurrency;
