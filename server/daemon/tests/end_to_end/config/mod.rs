//! A server and its policy file, a real one: what a change does to what was consumed, that changes are seen
//! however they are made, and what is told of it.

mod identity;
mod reloads;
mod replies;
mod store;
mod support;
mod watching;
