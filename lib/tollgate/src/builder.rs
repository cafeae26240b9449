//! The builder of a gate.

use std::path::PathBuf;

use tollgate_kernel::{Clock, Policy};
use tollgate_memory::{DEFAULT_CAP, MAX_CAP, MIN_CAP, Memory};

use crate::error::Error;
use crate::gate::Gate;

/// A builder for a [`Gate`]: see [`Gate::builder`].
///
/// ```
/// use tollgate::{Gate, ManualClock, Micros};
/// let clock = ManualClock::default();
/// let gate = Gate::builder()
///     .named("login", "5/min")
///     .named("search", "10/s gcra burst=20")
///     .memory_cap(16 << 20)
///     .clock(clock.clone())
///     .build()?;
/// let login = gate.policy("login").unwrap();
/// assert!((0..5).all(|_| login.check("alice").is_ok_and(|decision| decision.allowed)));
/// assert!(!login.check("alice")?.allowed);
/// clock.advance(Micros::from_secs(60));
/// assert!(login.check("alice")?.allowed);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Default)]
pub struct GateBuilder {
    policies: Vec<Result<Policy, Error>>,
    cap: Option<usize>,
    clock: Option<Box<dyn Clock>>,
    snapshot: Option<PathBuf>,
}

impl GateBuilder {
    /// Adds a policy without a name, parsed from this text.
    #[must_use]
    pub fn policy(self, text: &str) -> Self {
        let policy = text.parse().map_err(Error::from);
        self.add(policy)
    }

    /// Adds a policy with a name, parsed from this text. The gate checks against the first policy that was added;
    /// [`Gate::policy`] returns the others.
    #[must_use]
    pub fn named(self, name: &str, text: &str) -> Self {
        let policy = text.parse::<Policy>().map_err(Error::from).and_then(|policy| Ok(policy.with_name(name)?));
        self.add(policy)
    }

    /// Adds a policy that is already a value.
    #[must_use]
    pub fn value(self, policy: Policy) -> Self {
        self.add(Ok(policy))
    }

    fn add(mut self, policy: Result<Policy, Error>) -> Self {
        self.policies.push(policy);
        self
    }

    /// Sets the maximum number of bytes that the store uses. The default is 64 MiB.
    #[must_use]
    pub fn memory_cap(self, bytes: usize) -> Self {
        Self { cap: Some(bytes), ..self }
    }

    /// Sets the clock. The default is the monotonic clock of the process.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Some(Box::new(clock)), ..self }
    }

    /// Starts with the keys of the snapshot at `path`, as written by [`Gate::save`]. If the file does not exist, the
    /// store starts empty. A damaged file is an error, and none of its contents are used.
    #[must_use]
    pub fn restore(self, path: impl Into<PathBuf>) -> Self {
        Self { snapshot: Some(path.into()), ..self }
    }

    /// Builds the gate.
    pub fn build(self) -> Result<Gate, Error> {
        let policies: Vec<Policy> = self.policies.into_iter().collect::<Result<_, _>>()?;
        for (index, policy) in policies.iter().enumerate() {
            if policies[..index].iter().any(|other| other.name() == policy.name()) {
                return Err(Error::SameName(policy.name().to_owned()));
            }
        }
        let cap = self.cap.unwrap_or(DEFAULT_CAP);
        if !(MIN_CAP..=MAX_CAP).contains(&cap) {
            return Err(Error::Cap(cap));
        }
        let memory = match self.snapshot.filter(|path| !is_missing(path)) {
            Some(path) => Memory::restore(path, cap, self.clock, &policies)?,
            None => self.clock.map_or_else(|| Memory::new(cap), |clock| Memory::with_clock(cap, clock)),
        };
        let prepared: Vec<_> = policies.iter().map(|policy| memory.prepare(policy)).collect::<Result<_, _>>()?;
        let first = prepared.first().cloned().ok_or(Error::NoPolicy)?;
        Ok(Gate::over(memory, first, prepared.into()))
    }
}

/// Returns whether the file certainly does not exist. A file that cannot be examined is an error, not an empty store.
fn is_missing(path: &std::path::Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
