//! Limiters by name, like those of Elixir's PlugLimit: each has a script, header names, options, a key function, a
//! log level and a response function, and a route may replace each of these.
//!
//! ```
//! use tollgate_tower::{ClientIp, key_fn, plug::Limiters};
//!
//! let limiters = Limiters::memory().enabled(|| std::env::var_os("LIMITS_OFF").is_none());
//! let layer = limiters
//!     .plug("token_bucket")
//!     .opts([15, 60, 3]) // 15 in 60 seconds, 3 of them at once
//!     .key((key_fn(|_: &http::request::Parts| Some("api")), ClientIp::peer()))
//!     .route("/login", |settings| settings.limiter("fixed_window").opts([5, 60]))
//!     .build()?;
//! // axum: Router::new().route(…).layer(layer)
//! # Ok::<(), tollgate_tower::plug::PlugError>(())
//! ```
//!
//! What it guarantees, in contrast to [`GateLayer`](crate::GateLayer):
//!
//! * It is **off unless switched on**, by a function that is called for each request. While it is off, every
//!   request passes unchanged.
//! * When the store, the key function or the script fails, or a script returns something that cannot be a header,
//!   the failure is logged, as an error, at another level or not at all, and **the request passes**,
//!   unless [`on_error`](PlugSettings::on_error) says otherwise. The response then has the field `tollgate-source`, and
//!   [`Limiters::counts`] tells how many requests passed or were refused that way.
//! * Over a Tollgate server, a limiter whose Lua the server does not know is not built.
//! * A script returns `{'allow' or 'block', {header, …}, …}`. Headers are values, matched by position with the
//!   configured names, or pairs that contain their own name; pairs beyond the configured names are added. Anything
//!   but `allow` is answered with 429, `text/plain`, `Too Many Requests`, and the headers.
//! * The output of a script is not trusted: at most 32 headers of at most 4,096 bytes are accepted, none that
//!   frames a message (such as `content-length` and `connection`), and none that contains a line end.
//! * A response function receives everything that the script returned, or the reason for its failure, and
//!   determines what is done.
//!
//! | limiter | options | headers |
//! |---|---|---|
//! | `fixed_window` | limit, seconds | `x-ratelimit-limit`, `x-ratelimit-reset`, `x-ratelimit-remaining` |
//! | `token_bucket` | limit, seconds, burst | the same, and `retry-after` when the bucket is empty |
//!
//! # The user's own Lua
//!
//! It runs in Redis or Valkey, with the feature `redis`; the script is called by its SHA-1.
//!
//! ```
//! # #[cfg(feature = "redis")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tollgate::redis::Redis;
//! use tollgate_tower::{HeaderKey, plug::{Limiters, PlugSettings}};
//!
//! let store = Redis::builder("redis://127.0.0.1:6379").lazy()?;
//! let limiters = Limiters::over(store).enabled(|| true).add(
//!     "tenant_quota",
//!     PlugSettings::script(
//!         "local used = redis.call('INCR', KEYS[1])
//!          if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
//!          local left = tonumber(ARGV[1]) - used
//!          return {left >= 0 and 'allow' or 'block', {ARGV[1], tostring(math.max(0, left))}}",
//!     )
//!     .headers(["x-acme-limit", "x-acme-remaining"])
//!     .takes(2)
//!     .opts([10, 60])
//!     .key(HeaderKey::new("x-tenant")?),
//! )?;
//! let layer = limiters.plug("tenant_quota").build()?;
//! let strict = limiters.plug("tenant_quota").opts([2, 60]).log(tracing::Level::WARN).build()?;
//! # let _ = (layer, strict);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A script can also be a [`Limiter::custom`](crate::Limiter::custom), which has no name and no registry, and uses
//! the `on_error`, keys and log of [`GateLayer`](crate::GateLayer):
//!
//! ```
//! # #[cfg(feature = "redis")] mod example {
//! use http::request::Parts;
//! use http::{HeaderName, HeaderValue};
//! use tollgate::{Cost, StoreError, redis};
//! use tollgate_tower::{CustomDecision, CustomLimiter, DecisionFuture};
//!
//! struct Quota { store: redis::Redis, script: redis::CustomScript }
//!
//! impl CustomLimiter for Quota {
//!     fn decide(&self, _: &Parts, key: &[u8], cost: Cost) -> DecisionFuture {
//!         let (store, script, key) = (self.store.clone(), self.script.clone(), key.to_vec());
//!         Box::pin(async move {
//!             let reply = store.run_custom(&script, &[key], &[cost.get().to_string()]).await?;
//!             let bad = |error: &dyn std::fmt::Display| StoreError::Refused(error.to_string());
//!             let mut headers = Vec::new();
//!             for (name, value) in reply.headers(&["x-acme-limit", "x-acme-remaining"])? {
//!                 let name = HeaderName::try_from(name).map_err(|error| bad(&error))?;
//!                 headers.push((name, HeaderValue::try_from(value).map_err(|error| bad(&error))?));
//!             }
//!             Ok(CustomDecision { allowed: reply.allowed, headers, ..CustomDecision::default() })
//!         })
//!     }
//! }
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `limiters.rs` | the registry of limiters by name, and the store in which they decide |
//! | `settings.rs` | the settings of one limiter |
//! | `builder.rs` | a limiter for a service, and its layer |
//! | `plug_limiter.rs` | from a request to the answer to it |
//! | `counts.rs` | what limiters did, by name |
//! | `reply.rs`, `fields.rs` | the reply of a limiter, and its headers |
//! | `error.rs` | the errors of building a limiter |

mod builder;
mod counts;
mod error;
mod fields;
mod limiters;
mod plug_limiter;
mod reply;
mod settings;
#[cfg(test)]
mod tests;

pub use builder::{PlugBuilder, PlugLayer};
pub use counts::PlugCounts;
pub use error::PlugError;
pub use fields::HeaderPairs;
pub use limiters::Limiters;
pub use reply::{PlugAnswer, PlugFailure, PlugReply};
pub use settings::{PlugOption, PlugSettings};
pub use tollgate_dialects::Output;
