//! Traces from end to end: what a collector gets.

#[cfg(test)]
mod spans;
