//! Making a gate.

use std::path::PathBuf;

use tollgate_core::{Clock, Policy};
use tollgate_memory::{DEFAULT_CAP, LEAST_CAP, MOST_CAP, Memory};

use crate::error::Error;
use crate::gate::Gate;

/// What a gate is made of: see [`Gate::builder`].
///
/// ```
/// use tollgate::{Gate, Manual, Micros};
/// let clock = Manual::default();
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
pub struct Builder {
    policies: Vec<Result<Policy, Error>>,
    cap: Option<usize>,
    clock: Option<Box<dyn Clock>>,
    snapshot: Option<PathBuf>,
}

impl Builder {
    /// Adds a policy of this text, without a name.
    #[must_use]
    pub fn policy(self, text: &str) -> Self {
        let policy = text.parse().map_err(Error::from);
        self.add(policy)
    }

    /// Adds a policy of this text under a name. The gate checks against the first policy given;
    /// [`Gate::policy`] has the others.
    #[must_use]
    pub fn named(self, name: &str, text: &str) -> Self {
        let policy = text.parse::<Policy>().map_err(Error::from).and_then(|policy| Ok(policy.with_name(name)?));
        self.add(policy)
    }

    /// Adds a policy made by other means.
    #[must_use]
    pub fn value(self, policy: Policy) -> Self {
        self.add(Ok(policy))
    }

    fn add(mut self, policy: Result<Policy, Error>) -> Self {
        self.policies.push(policy);
        self
    }

    /// The most bytes the store takes; 64 MiB if not given.
    #[must_use]
    pub fn memory_cap(self, bytes: usize) -> Self {
        Self { cap: Some(bytes), ..self }
    }

    /// Another clock than the process's monotonic one.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Some(Box::new(clock)), ..self }
    }

    /// Begins with the keys of the snapshot at `path`, as [`Gate::save`] wrote it. Where there is no file
    /// yet the store begins empty; a damaged one is an error, and nothing of it is used.
    #[must_use]
    pub fn restore(self, path: impl Into<PathBuf>) -> Self {
        Self { snapshot: Some(path.into()), ..self }
    }

    /// Makes the gate.
    pub fn build(self) -> Result<Gate, Error> {
        let policies: Vec<Policy> = self.policies.into_iter().collect::<Result<_, _>>()?;
        for (index, policy) in policies.iter().enumerate() {
            if policies[..index].iter().any(|other| other.name() == policy.name()) {
                return Err(Error::SameName(policy.name().to_owned()));
            }
        }
        let cap = self.cap.unwrap_or(DEFAULT_CAP);
        if !(LEAST_CAP..=MOST_CAP).contains(&cap) {
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

/// Whether there is surely no file: one that cannot be looked at is an error, not an empty store.
fn is_missing(path: &std::path::Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
