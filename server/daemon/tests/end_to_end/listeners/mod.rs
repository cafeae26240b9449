//! Connections from end to end: caps, TLS, tokens, and the end. One test program, since each would link
//! everything anew.

mod access;
mod audit;
mod caps;
mod shutdown;
mod support;
mod tls;
mod traces;
