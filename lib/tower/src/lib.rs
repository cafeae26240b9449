//! Rate limits in front of HTTP services: a tower layer that decides, sets the header fields and answers 429. It
//! works with axum, hyper, tonic and every other tower service.
//!
//! ```
//! use tollgate::Gate;
//! use tollgate_tower::{ClientIp, GateLayer};
//!
//! let layer = GateLayer::new(Gate::memory("100/min, 10/s")?).key(ClientIp::peer());
//! // axum: Router::new().route(…).layer(layer), served with into_make_service_with_connect_info::<SocketAddr>()
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! Bodies are not touched: streams, gRPC calls and websockets pass unchanged.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs`, `route_rules.rs` | the layer, and the rules of one route |
//! | `key/` | the key under which a request is counted |
//! | `limiter.rs`, `verdict.rs` | what decides, and its answer |
//! | `admission.rs` | from a request's head to whether it passes |
//! | `service.rs`, `body.rs` | the service behind the layer, and bodies |
//! | `refusal.rs`, `grpc.rs` | the responses to requests that do not pass |
//! | `settle.rs` | how a response changes the charge of its request |
//! | `skip.rs` | requests that are not limited |
//! | `client/` | the client's side: complies with the limits that the called services report |
//! | `line/` | waiting instead of refusing |
//! | `concurrency/` | limits on the number of requests of a key in flight |
//! | `plug/` | limiters by name, with their own scripts and headers |
//! | `log.rs` | failures in the log |
//! | `timer.rs` | the clock by which requests wait |
//! | `testing.rs`, `testing/` | a clock that tests move, requests made in process, a store that fails |

mod admission;
mod body;
pub mod client;
pub mod concurrency;
mod grpc;
mod key;
mod layer;
mod limiter;
pub mod line;
mod log;
pub mod plug;
mod refusal;
mod route_rules;
mod service;
mod settle;
pub mod skip;
pub mod testing;
mod timer;
mod verdict;

pub use body::GateBody;
pub use concurrency::ConcurrencyLayer;
pub use key::{
    ClientIp, ExtensionKey, FallbackKey, HeaderKey, Key, KeyBuf, KeyError, KeyFn, PathKey, Peer, TokenKey, key_fn,
};
pub use layer::GateLayer;
pub use limiter::{CustomLimiter, DecisionFuture, Limiter};
pub use line::WaitLine;
pub use refusal::{GateRefusal, RefusalReason};
pub use route_rules::RouteRules;
pub use service::{GateFuture, GateService};
pub use settle::Settlement;
pub use timer::{Sleep, Timer, TokioTimer};
pub use tollgate_http::{HeaderDialect, HeaderFields, HeaderNames, Proxies, Reset};
pub use verdict::{CustomDecision, Details, LimiterVerdict, RawReply};
