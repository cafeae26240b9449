//! The policy file from its text to its messages. It is one test program, because each test program links everything.

#[cfg(test)]
mod changes;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod files;
#[cfg(test)]
mod fuzz;
