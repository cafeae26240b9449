//! The front-end over HTTP/1.1: JSON in, JSON out, one route a question. What it shares with services that decide in
//! process, such as header fields and the identity of a client, is in `tollgate-http`.
//!
//! | file | what it is |
//! |---|---|
//! | `shared.rs` | the state that connections share: the bounds; the host names of this server |
//! | `connection.rs`, `phase.rs` | one connection to its end; how long each part of it may take |
//! | `routes.rs` | every route: its method, path, scope and handler |
//! | `call.rs` | a request on its way to a route: host, login, body |
//! | `bodies.rs`, `values.rs` | the bodies of requests and answers, as JSON |
//! | `decision.rs`, `reason.rs` | a decision, and the reasons for it |
//! | `problem.rs` | errors, as RFC 9457 words them |
//! | `decide.rs`, `batch.rs` | check, peek, reset, refund, explain; many at once |
//! | `parts.rs`, `path.rs` | keys that are made of parts; paths in their normal form |
//! | `listing.rs` | the policies that have names |
//! | `gate.rs`, `query.rs` | forward auth, its parameters |
//! | `state.rs` | readiness, metrics |
//! | `openapi.rs` | the document, generated from the routes and the types |

mod batch;
mod bodies;
mod call;
mod connection;
mod decide;
mod decision;
mod gate;
mod listing;
mod openapi;
mod parts;
mod path;
mod phase;
mod problem;
mod query;
mod reason;
mod routes;
mod shared;
mod state;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use connection::serve;
pub(crate) use routes::ROUTES;
pub(crate) use shared::HttpState;
