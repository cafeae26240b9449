//! Limiters by name, as Elixir's PlugLimit has them: each with a script, header names, options, a key function, a log
//! level and a response function, and each of these may be another for a route.
//!
//! ```
//! use tollgate_tower::{ClientIp, by, plug::Limiters};
//!
//! let limiters = Limiters::memory().enabled(|| std::env::var_os("LIMITS_OFF").is_none());
//! let layer = limiters
//!     .plug("token_bucket")
//!     .opts([15, 60, 3]) // 15 in 60 seconds, 3 of them at once
//!     .key((by(|_: &http::request::Parts| Some("api")), ClientIp::peer()))
//!     .route("/login", |named| named.limiter("fixed_window").opts([5, 60]))
//!     .build()?;
//! // axum: Router::new().route(…).layer(layer)
//! # Ok::<(), tollgate_tower::plug::PlugError>(())
//! ```
//!
//! What it promises, which is not what [`GateLayer`](crate::GateLayer) does:
//!
//! * It is **off unless switched on**, by a function that is asked for each request. Off, every request passes
//!   untouched.
//! * When the store, the key function or the script fails, or a script answers what cannot be a header, that is logged,
//!   as an error or at another level or not at all, and **the request passes** as if there were no limiter.
//! * A script answers `{'allow' or 'block', {header, …}, …}`. Headers are values, matched by place with the configured
//!   names, or pairs that bring their own name; pairs beyond the configured names are added. Anything but `allow` is
//!   answered 429, `text/plain`, `Too Many Requests`, with the headers.
//! * What a script answers is not trusted: at most 32 headers of at most 4,096 bytes, none that frames a message
//!   (`content-length`, `connection` and their kin), and no line end gets through.
//! * A response function gets all that the script answered, or why it did not, and says what is done.
//!
//! | limiter | options | headers |
//! |---|---|---|
//! | `fixed_window` | limit, seconds | `x-ratelimit-limit`, `x-ratelimit-reset`, `x-ratelimit-remaining` |
//! | `token_bucket` | limit, seconds, burst | the same, and `retry-after` when the bucket is empty |
//!
//! # Lua of one's own
//!
//! In Redis or Valkey, with the feature `redis`; the script is run by its SHA-1.
//!
//! ```
//! # #[cfg(feature = "redis")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tollgate::redis::Redis;
//! use tollgate_tower::{Header, plug::{Limiters, Named}};
//!
//! let store = Redis::builder("redis://127.0.0.1:6379").lazy()?;
//! let limiters = Limiters::over(store).enabled(|| true).add(
//!     "tenant_quota",
//!     Named::script(
//!         "local used = redis.call('INCR', KEYS[1])
//!          if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
//!          local left = tonumber(ARGV[1]) - used
//!          return {left >= 0 and 'allow' or 'block', {ARGV[1], tostring(math.max(0, left))}}",
//!     )
//!     .headers(["x-acme-limit", "x-acme-remaining"])
//!     .takes(2)
//!     .opts([10, 60])
//!     .key(Header::new("x-tenant")?),
//! )?;
//! let layer = limiters.plug("tenant_quota").build()?;
//! let strict = limiters.plug("tenant_quota").opts([2, 60]).log(tracing::Level::WARN).build()?;
//! # let _ = (layer, strict);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without names and registry, and with `on_error`, keys and log of [`GateLayer`](crate::GateLayer), a script is a
//! [`Limiter::custom`](crate::Limiter::custom):
//!
//! ```
//! # #[cfg(feature = "redis")] mod example {
//! use http::request::Parts;
//! use http::{HeaderName, HeaderValue};
//! use tollgate::{Cost, StoreError, redis};
//! use tollgate_tower::{Custom, Decide, Deciding};
//!
//! struct Quota { store: redis::Redis, script: redis::Custom }
//!
//! impl Decide for Quota {
//!     fn decide(&self, _: &Parts, key: &[u8], cost: Cost) -> Deciding {
//!         let (store, script, key) = (self.store.clone(), self.script.clone(), key.to_vec());
//!         Box::pin(async move {
//!             let reply = store.run_custom(&script, &[key], &[cost.get().to_string()]).await?;
//!             let bad = |error: &dyn std::fmt::Display| StoreError::Refused(error.to_string());
//!             let mut headers = Vec::new();
//!             for (name, value) in reply.headers(&["x-acme-limit", "x-acme-remaining"])? {
//!                 let name = HeaderName::try_from(name).map_err(|error| bad(&error))?;
//!                 headers.push((name, HeaderValue::try_from(value).map_err(|error| bad(&error))?));
//!             }
//!             Ok(Custom { allowed: reply.allowed, headers, ..Custom::default() })
//!         })
//!     }
//! }
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `limiters.rs` | limiters by name, and where they decide |
//! | `named.rs` | what one is told |
//! | `route.rs` | one before a service, and its layer |
//! | `asked.rs` | from a request to what is done with it |
//! | `said.rs`, `output.rs`, `fields.rs` | what a limiter said, as it came, and its headers |
//! | `error.rs` | what can be wrong with a limiter |

mod asked;
mod error;
mod fields;
mod limiters;
mod named;
mod output;
mod route;
mod said;
#[cfg(test)]
mod tests;

pub use error::PlugError;
pub use fields::Pairs;
pub use limiters::Limiters;
pub use named::{Named, Opt};
pub use output::Output;
pub use route::{Plug, PlugLayer};
pub use said::{Answer, Failure, Said};
