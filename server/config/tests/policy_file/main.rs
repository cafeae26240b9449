//! The policy file from its text to its words. One test program, since each would link everything anew.

#[cfg(test)]
mod changes;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod files;
#[cfg(test)]
mod fuzz;
