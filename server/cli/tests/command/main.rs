//! The built binary from end to end. It is one test program, because each test program links everything.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod candidate;
#[cfg(test)]
mod config;
#[cfg(test)]
mod config_plan;
#[cfg(test)]
mod decide;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod example_log;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod redis_doctor;
#[cfg(test)]
mod redis_install;
#[cfg(test)]
mod redis_script;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod serve_data;
#[cfg(test)]
mod support;
#[cfg(test)]
mod token;
#[cfg(test)]
mod tollgate;

// The generator of the example log is an example program; the test of its log uses its files.
#[cfg(test)]
#[path = "../../examples/make_log/access.rs"]
mod access;
#[cfg(test)]
#[path = "../../examples/make_log/dice.rs"]
mod dice;
