//! The form of a promise: stairs that rise evenly for ever.
//!
//! | algorithm | promise in a span s | first | step | rate | every | lead |
//! |---|---|---|---|---|---|---|
//! | sliding, slots, rolling | N * ceil(s / W) | N | N | 1 | W | 0 |
//! | fixed, bucket, estimate, decay | N * (1 + ceil((s - 1) / W)) | N | N | 1 | W | W - 1 |
//! | gcra | burst + floor(N * (s - 1) / W) | burst | 1 | N | W | 0 |
//!
//! They are not listed by algorithm but found by asking for the promise, so that a new algorithm needs
//! nothing here, and a promise that is changed is not checked by its old numbers.

use tollgate_kernel::{EXACT, Limit, Micros};

/// `first + step * floor((rate * (span - 1) + lead) / every)` units in a span of at least 1us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stairs {
    pub(super) first: u64,
    pub(super) step: u64,
    pub(super) rate: u64,
    /// At least 1.
    pub(super) every: u64,
    /// Below `every`.
    pub(super) lead: u64,
}

impl Stairs {
    /// The stairs of a limit's promise, if it has that form.
    pub(super) fn of(limit: &Limit) -> Option<Self> {
        [Self::even(limit), Self::line(limit)].into_iter().flatten().find(|stairs| stairs.agree(limit))
    }

    /// The most units in a span.
    pub(super) fn most_in(&self, span: u64) -> u128 {
        let x = u128::from(self.rate) * u128::from(span - 1) + u128::from(self.lead);
        u128::from(self.first) + u128::from(self.step) * (x / u128::from(self.every))
    }

    /// Stairs whose steps are equally long, by their first two.
    fn even(limit: &Limit) -> Option<Self> {
        let first = most_in(limit, 1);
        let Some(end) = last_alike(limit, 1) else {
            return Some(Self { first, step: 0, rate: 1, every: 1, lead: 0 });
        };
        let step = most_in(limit, end + 1) - first;
        let every = last_alike(limit, end + 1)? - end;
        Some(Self { first, step, rate: 1, every, lead: every.checked_sub(end)? })
    }

    /// A unit at a time, at the pace of the count in a period.
    fn line(limit: &Limit) -> Option<Self> {
        let every = limit.period().get();
        let first = most_in(limit, 1);
        let rate = most_in(limit, every + 1).checked_sub(first)?;
        Some(Self { first, step: 1, rate, every, lead: 0 })
    }

    /// Whether the promise is these stairs, by samples: short spans, the edges of many periods and of
    /// many steps, and lengths of every size.
    fn agree(&self, limit: &Limit) -> bool {
        let steps = (1..=64).flat_map(|step| edge(step * u128::from(self.every) / u128::from(self.rate.max(1))));
        let periods = (1..=64).flat_map(|period| edge(period * u128::from(limit.period().get())));
        let sizes = (0..53).flat_map(|bits| edge((1 << bits) + (1 << bits) / 3));
        let mut spans = (1..=64).chain(steps).chain(periods).chain(sizes);
        spans.all(|span| {
            let most = most_in(limit, span);
            // Promises are counted up to 2^64.
            most == u64::MAX || u128::from(most) == self.most_in(span)
        })
    }
}

/// Spans around one, as far as there are such.
fn edge(span: u128) -> impl Iterator<Item = u64> {
    let span = u64::try_from(span).unwrap_or(EXACT).min(EXACT);
    span.saturating_sub(2).max(1)..=span + 2
}

fn most_in(limit: &Limit, span: u64) -> u64 {
    limit.rule().most_in(Micros::new(span))
}

/// The longest span for which as much is promised as for `span`, if the promise ever rises.
fn last_alike(limit: &Limit, span: u64) -> Option<u64> {
    let alike = |longer: u64| most_in(limit, longer) == most_in(limit, span);
    let mut high = span + 1;
    while alike(high) {
        if high >= EXACT {
            return None;
        }
        high *= 2;
    }
    let mut low = span;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if alike(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}
