//! A request: a cost, a mode, and whether it only peeks.

use crate::decision::Decision;
use crate::policy::Policy;
use crate::units::EXACT;

/// How a request that does not fit is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The request is granted in full or not at all.
    #[default]
    Binary,
    /// The request is granted as far as it fits.
    Nary,
    /// The request is counted anyway, so that refused attempts use up the limit too.
    Uniform,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Binary, Self::Nary, Self::Uniform];

    /// Returns the name, which is the same in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Nary => "nary",
            Self::Uniform => "uniform",
        }
    }

    /// Returns the mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// The number of units that a request asks for: 0 to 2^53 - 1. A cost of 0 only peeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// One unit, the usual cost.
    pub const ONE: Self = Self(1);

    /// Creates a cost of `units`; `None` from 2^53 on.
    pub const fn new(units: u64) -> Option<Self> {
        if units < EXACT { Some(Self(units)) } else { None }
    }

    /// Returns the number of units.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// One request to a policy.
///
/// ```
/// use tollgate_kernel::{Cost, Mode, Request};
/// let request = Request::cost(Cost::new(5).unwrap()).mode(Mode::Nary);
/// assert_eq!(request.cost.get(), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of units.
    pub cost: Cost,
    /// The mode; `None` means the policy's.
    pub mode: Option<Mode>,
    /// Whether the request charges nothing.
    pub peek: bool,
    /// The number of units that reported waits are for, if not those that the mode needs to pass. Dialects whose
    /// convention differs set it.
    pub wait_for: Option<u64>,
}

impl Request {
    /// A request for one unit.
    pub const ONE: Self = Self::cost(Cost::ONE);

    /// Creates a request for `cost` units.
    pub const fn cost(cost: Cost) -> Self {
        Self { cost, mode: None, peek: false, wait_for: None }
    }

    /// Returns the same request under a mode other than the policy's.
    #[must_use]
    pub const fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Returns the same request, charging nothing.
    #[must_use]
    pub const fn peek(self) -> Self {
        Self { peek: true, ..self }
    }

    /// Returns the same request, reporting waits for `units`.
    #[must_use]
    pub const fn wait_for(self, units: u64) -> Self {
        Self { wait_for: Some(units), ..self }
    }

    /// Returns whether the request may charge anything. A peek never does, nor does a request for no units.
    pub const fn may_charge(&self) -> bool {
        !self.peek && self.cost.get() > 0
    }

    /// Returns the units that this request recorded, given its decision under `policy`: what must be charged again,
    /// whether it fits or not, to produce the same state. A refusal in uniform mode may change the state even if no
    /// more units could be counted.
    pub fn leaves(&self, policy: &Policy, decision: &Decision) -> u64 {
        match self.mode.unwrap_or(policy.mode()) {
            _ if self.peek => 0,
            Mode::Uniform => self.cost.get(),
            Mode::Binary | Mode::Nary => decision.charged,
        }
    }

    /// Returns the units that must fit for a request of this mode to be allowed.
    pub(crate) fn needs(&self, mode: Mode) -> u64 {
        self.wait_for.unwrap_or(match mode {
            Mode::Nary => self.cost.get().min(1),
            Mode::Binary | Mode::Uniform => self.cost.get(),
        })
    }
}
