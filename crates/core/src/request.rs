//! What is asked: a cost, a mode, and whether it is only a look.

use crate::decision::Decision;
use crate::policy::Policy;
use crate::units::EXACT;

/// What happens to a request that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// All or nothing.
    #[default]
    Binary,
    /// Grant what fits.
    Nary,
    /// Count it anyway, so that refused attempts hurt too.
    Uniform,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Binary, Self::Nary, Self::Uniform];

    /// The word for it in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Nary => "nary",
            Self::Uniform => "uniform",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// How many units a request asks for: 0 to 2^53 - 1, where 0 only looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// The usual cost.
    pub const ONE: Self = Self(1);

    /// A cost of `units`; `None` from 2^53 on.
    pub const fn new(units: u64) -> Option<Self> {
        if units < EXACT { Some(Self(units)) } else { None }
    }

    /// The number of units.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// One question to a policy.
///
/// ```
/// use tollgate_core::{Cost, Mode, Request};
/// let request = Request::cost(Cost::new(5).unwrap()).mode(Mode::Nary);
/// assert_eq!(request.cost.get(), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many units.
    pub cost: Cost,
    /// The mode; `None` takes the policy's.
    pub mode: Option<Mode>,
    /// Whether to charge nothing.
    pub peek: bool,
    /// For how many units waits are told, if not for what the mode needs to pass. The dialects
    /// whose convention differs set it.
    pub wait_for: Option<u64>,
}

impl Request {
    /// A request for one unit.
    pub const ONE: Self = Self::cost(Cost::ONE);

    /// A request for `cost` units.
    pub const fn cost(cost: Cost) -> Self {
        Self { cost, mode: None, peek: false, wait_for: None }
    }

    /// The same under another mode than the policy's.
    #[must_use]
    pub const fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// The same, charging nothing.
    #[must_use]
    pub const fn peek(self) -> Self {
        Self { peek: true, ..self }
    }

    /// The same, telling waits for `units`.
    #[must_use]
    pub const fn wait_for(self, units: u64) -> Self {
        Self { wait_for: Some(units), ..self }
    }

    /// The units that this request had recorded, given its decision under `policy`: what has to be charged
    /// again, whether it fits or not, to leave the same behind. A refusal in uniform mode may leave something
    /// behind though no more could be counted.
    pub fn leaves(&self, policy: &Policy, decision: &Decision) -> u64 {
        match self.mode.unwrap_or(policy.mode()) {
            _ if self.peek => 0,
            Mode::Uniform => self.cost.get(),
            Mode::Binary | Mode::Nary => decision.charged,
        }
    }

    /// The units that must fit for a request of this mode to be allowed.
    pub(crate) fn needs(&self, mode: Mode) -> u64 {
        self.wait_for.unwrap_or(match mode {
            Mode::Nary => self.cost.get().min(1),
            Mode::Binary | Mode::Uniform => self.cost.get(),
        })
    }
}
