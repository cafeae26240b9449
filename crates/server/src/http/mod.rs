//! The front-end over HTTP/1.1: JSON in, JSON out, one route a question. What it shares with services that decide in
//! process, as header fields and who a client is, is in `tollgate-http`.
//!
//! | file | what it is |
//! |---|---|
//! | `front.rs` | what the connections share: the bounds; which names are this server's |
//! | `connection.rs`, `pace.rs` | one connection to its end; how long each part of it may take |
//! | `routes.rs` | every route: its method, path, scope, and what runs it |
//! | `call.rs` | a request on its way to a route: host, login, body |
//! | `bodies.rs`, `values.rs` | what is asked and answered, as JSON |
//! | `decided.rs`, `because.rs` | a decision, and why a key is decided so |
//! | `problem.rs` | errors, as RFC 9457 words them |
//! | `decide.rs`, `batch.rs` | check, peek, reset, refund, explain; many at once |
//! | `parts.rs`, `path.rs` | keys that are made of parts; paths in their normal form |
//! | `listing.rs` | the policies that have names |
//! | `gate.rs`, `query.rs` | forward auth, its parameters |
//! | `state.rs` | health, readiness, metrics |
//! | `openapi.rs` | the document, made of the routes and the types |

mod batch;
mod because;
mod bodies;
mod call;
mod connection;
mod decide;
mod decided;
mod front;
mod gate;
mod listing;
mod openapi;
mod pace;
mod parts;
mod path;
mod problem;
mod query;
mod routes;
mod state;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use connection::serve;
pub(crate) use front::Front;
pub(crate) use routes::ROUTES;
