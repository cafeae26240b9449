//! Decisions in HTTP: header fields in several dialects, the body of a refusal, the rate limit fields of other
//! services, and the address of a client behind proxies. This crate contains no server and no clock: `tollgate-tower`
//! and the Tollgate server provide both.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate_kernel::{KeyState, Policy, Request, Timestamp};
//! use tollgate_http::{DecisionReport, HeaderDialect, HeaderFields, Proxies, Reset};
//!
//! let policy: Policy = "10/min name=permin, 100/h name=perhr".parse()?;
//! let fields = HeaderFields::new([HeaderDialect::Draft10, HeaderDialect::XRateLimit(Reset::Delta)]).prepare(&policy);
//!
//! let now = Timestamp::saturating(1_790_000_000_000_000);
//! let (decision, details) = KeyState::default().decide_full(&policy, now, &Request::ONE);
//! let mut headers = HeaderMap::new();
//! fields.write(&DecisionReport { policy: &policy, decision: &decision, details: &details }, &mut headers);
//! assert_eq!(headers["ratelimit-policy"], r#""permin";q=10;w=60, "perhr";q=100;w=3600"#);
//! assert_eq!(headers["ratelimit"], r#""permin";r=9;t=60, "perhr";r=99;t=3600"#);
//! assert_eq!(headers["x-ratelimit-remaining"], "9");
//!
//! // A header counts only as far as trusted proxies wrote it.
//! headers.insert("x-forwarded-for", "6.6.6.6, 203.0.113.7".parse()?);
//! let proxies = Proxies::new(["10.0.0.0/8"])?;
//! assert_eq!(proxies.client([10, 1, 2, 3].into(), &headers).to_string(), "203.0.113.7");
//! assert_eq!(proxies.client([198, 51, 100, 1].into(), &headers).to_string(), "198.51.100.1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `report.rs` | a decision to be reported; its tightest limit, and the waits to report |
//! | `dialect.rs` | the dialects by name, and custom header names |
//! | `fields/` | the selection of dialects; what is prepared once; list fields, and fields of one value |
//! | `seconds.rs` | the one place that rounds, upward; jitter |
//! | `text.rs` | strings and integers of structured fields, and the buffer they are written to |
//! | `problem.rs` | response bodies as defined by RFC 9457 |
//! | `proxies.rs`, `hop.rs` | the address of a client behind trusted proxies; addresses as proxies write them |
//! | `prefix.rs` | the address prefix that is attributed to one caller |
//! | `upstream/` | a parser for `RateLimit` and `Retry-After` of other services |

mod dialect;
mod fields;
mod hop;
mod prefix;
mod problem;
mod proxies;
mod report;
mod seconds;
mod text;
mod upstream;

pub use dialect::{HeaderDialect, HeaderNames, Reset};
pub use fields::{HeaderFields, PreparedFields};
pub use hop::read as read_address;
pub use prefix::{Prefix, PrefixText};
pub use problem::{QUOTA_EXCEEDED, blank_problem, problem, quota_exceeded};
pub use proxies::{Proxies, ProxyError, trusted_proxy};
pub use report::DecisionReport;
pub use upstream::{UpstreamLimit, UpstreamLimits, parse_upstream_limits};
