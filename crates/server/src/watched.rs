//! What is looked at in the decisions of a policy beside counting them: how near its keys are to
//! their limits, and who used how much.

use std::sync::Arc;

use tollgate_core::{Decision, Detail, Request};

use crate::alerts::Near;
use crate::desk::{Home, Known};
use crate::usage::Usage;

/// What is looked at in the decisions of a policy. A policy without it pays nothing.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) near: Option<Near>,
    /// Whether it is kept who used how much.
    pub(crate) usage: bool,
}

impl Watched {
    /// Something to look at, if there is.
    pub(crate) fn new(near: Option<Near>, usage: bool) -> Option<Arc<Self>> {
        (near.is_some() || usage).then(|| Arc::new(Self { near, usage }))
    }

    /// Looks at decisions, each with its key. `parts` are the limits' own, if there is one decision and they
    /// are known.
    #[inline]
    pub(crate) fn look<'a>(
        &self,
        usage: &Usage,
        home: &Home,
        known: &Known,
        keys: impl IntoIterator<Item = &'a [u8]> + Clone,
        decisions: &[Decision],
        parts: &[Detail],
    ) {
        if self.usage {
            usage.count(known.policy.name(), keys.clone(), decisions);
        }
        if let Some(near) = &self.near {
            for (key, decision) in keys.into_iter().zip(decisions) {
                near.look(key, decision, parts, || peek(home, known, key));
            }
        }
    }
}

/// How each limit stands, where that is told at once.
#[cold]
fn peek(home: &Home, known: &Known, key: &[u8]) -> Option<Vec<Detail>> {
    let (Home::Embedded(embedded), Some(filed)) = (home, &known.prepared) else { return None };
    let look = Request { peek: true, ..Request::ONE };
    embedded.check_full(filed, key, &look).ok().map(|(_, parts)| parts)
}
