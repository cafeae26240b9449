//! Helpers for the tests of the dialects: an in-process home with a clock that the test controls.

use std::collections::HashMap;

use tollgate_kernel::{KeyState, Timestamp};

use crate::api_counter::ApiCounterUsage;
use crate::call::DialectOutcome;
use crate::{Dialect, ParsedCall};

/// The reading of the home's clock, for dialects that do not use it.
pub(crate) const HOME: u64 = 1_700_000_000_000_000;

/// Makes a call of o1.rate-limiter's dialects on the key `k` in the namespace `ns`.
pub(crate) fn ask_slotted(home: &mut TestHome, count: &str, limits: &str, now: &str, want_wait: &str) -> String {
    home.ask(HOME, &["k"], &[count, "ns", limits, now, want_wait])
}

/// One dialect and the states of its keys.
pub(crate) struct TestHome {
    dialect: &'static Dialect,
    states: HashMap<Vec<u8>, (KeyState, ApiCounterUsage)>,
}

impl TestHome {
    pub(crate) fn new(dialect: &'static Dialect) -> Self {
        Self { dialect, states: HashMap::new() }
    }

    /// Returns the reply at the home's time `t` as text; for an error, its message after `ERR`.
    pub(crate) fn ask(&mut self, t: u64, keys: &[&str], args: &[&str]) -> String {
        match self.decide(t, keys, args) {
            Ok((_, outcome)) => outcome.reply.to_string(),
            Err(message) => format!("ERR {message}"),
        }
    }

    /// Returns the replies to the same call made `times` times.
    pub(crate) fn ask_times(&mut self, times: usize, t: u64, keys: &[&str], args: &[&str]) -> Vec<String> {
        (0..times).map(|_| self.ask(t, keys, args)).collect()
    }

    /// Returns the time to live after the call, in microseconds.
    pub(crate) fn ttl(&mut self, t: u64, keys: &[&str], args: &[&str]) -> Option<u64> {
        let (call, outcome) = self.decide(t, keys, args).unwrap();
        call.ttl(&outcome.decision?, Timestamp::saturating(t)).map(|ttl| ttl.get())
    }

    fn decide(&mut self, t: u64, keys: &[&str], args: &[&str]) -> Result<(ParsedCall, DialectOutcome), String> {
        let call = parse(self.dialect, keys, args)?;
        let (state, usage) = self.states.entry(call.state_key().to_vec()).or_default();
        let outcome = call.run_with(state, usage, Timestamp::saturating(t)).map_err(|error| error.to_string())?;
        Ok((call, outcome))
    }
}

/// Returns the message of a call that must be refused.
pub(crate) fn error(dialect: &Dialect, keys: &[&str], args: &[&str]) -> String {
    parse(dialect, keys, args).unwrap_err()
}

fn parse(dialect: &Dialect, keys: &[&str], args: &[&str]) -> Result<ParsedCall, String> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    (dialect.parse)(&keys, &args).map_err(|error| error.to_string())
}
