//! A request to a gate: a key, a cost and a mode.

use tollgate_kernel::{Cost, Decision, Detail, Mode, Request, StoreError};

use crate::gate::Gate;

/// A request that has not been decided yet: see [`Gate::ask`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a request is decided by check or peek"]
pub struct GateRequest<'a> {
    gate: &'a Gate,
    key: &'a [u8],
    cost: u64,
    mode: Option<Mode>,
}

impl<'a> GateRequest<'a> {
    pub(crate) fn new(gate: &'a Gate, key: &'a [u8]) -> Self {
        Self { gate, key, cost: 1, mode: None }
    }

    /// Sets the number of units requested; a cost of 0 charges nothing.
    pub fn cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// Uses this mode instead of the policy's.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Decides the request and charges the units that are granted.
    pub fn check(self) -> Result<Decision, StoreError> {
        self.gate.store().check(self.gate.prepared(), self.key, &self.request()?)
    }

    /// Decides like [`GateRequest::check`], and also returns the details of each limit in policy order.
    pub fn check_full(self) -> Result<(Decision, Vec<Detail>), StoreError> {
        self.gate.store().check_full(self.gate.prepared(), self.key, &self.request()?)
    }

    /// Returns the decision that a check would make, without charging anything.
    pub fn peek(self) -> Result<Decision, StoreError> {
        self.gate.store().check(self.gate.prepared(), self.key, &self.request()?.peek())
    }

    pub(crate) fn gate(&self) -> &'a Gate {
        self.gate
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        self.key
    }

    pub(crate) fn units(&self) -> Result<Cost, StoreError> {
        Cost::new(self.cost).ok_or(StoreError::Cost(self.cost))
    }

    fn request(&self) -> Result<Request, StoreError> {
        let request = Request::cost(self.units()?);
        Ok(Request { mode: self.mode, ..request })
    }
}
