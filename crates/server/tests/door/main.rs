//! The door from end to end: caps, TLS, tokens, and the end. One test program, since each would link
//! everything anew.

#[cfg(test)]
mod access;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod caps;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod traces;
