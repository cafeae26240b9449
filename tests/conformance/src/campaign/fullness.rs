//! Fullness: what one thread alone would be admitted, for a store to be measured by.
//!
//! "The bound" that a key offered too much must nearly reach is not a formula: what `estimate` and `decay`
//! let through, or three limits together, depends on when they were asked. It is what the kernel admits,
//! asked the same in order. That this is no less than it should be is for the kernel's laws to say; and
//! for `sliding` and `gcra` under a clock that ticks it is all that they promise, which a test of the
//! interval checker shows.

use tollgate::{Policy, Request, Timestamp};
use tollgate_kernel::{Cost, KeyState};

use super::caller::Offer;

/// The units admitted by the kernel where, at each of `times`, one unit is asked for until it is refused.
///
/// With the clock of each step standing until the key is full, more was offered than fits at every time.
/// A run in which a clock is advanced only once a key has refused one unit must admit exactly as many,
/// however its threads interleave: at each time a key takes what fits then, which depends on what it took
/// at the times before and not on who asked or in what portions.
pub(super) fn when_full(policy: &Policy, times: &[u64]) -> u64 {
    let mut key = KeyState::default();
    let mut units = 0;
    for t in times {
        while key.decide(policy, Timestamp::saturating(*t), &Request::ONE).allowed {
            units += 1;
        }
    }
    units
}

/// The units admitted by the kernel if `offers` are made to it in the order of their times.
///
/// By a clock that does not wait this is near what a store admits, not the same: threads charge in an
/// order of their own within a microsecond, and a window that opens a microsecond later ends one later.
pub(super) fn when_offered(policy: &Policy, offers: &mut [Offer]) -> u64 {
    offers.sort_by_key(|offer| offer.at);
    let mut key = KeyState::default();
    let request = |offer: &Offer| Request::cost(Cost::new(offer.cost).unwrap_or(Cost::ONE)).mode(offer.mode);
    offers.iter().map(|offer| key.decide(policy, offer.at, &request(offer)).granted).sum()
}

#[cfg(test)]
mod tests {
    use tollgate::{Micros, Mode};

    use super::*;

    #[test]
    fn a_full_key_is_admitted_all_that_is_promised() {
        let times: Vec<u64> = (1_700_000_000_000_000..).take(10_000).collect();
        for text in ["40/ms", "40/ms gcra", "7/ms gcra burst=3"] {
            let policy: Policy = text.parse().unwrap();
            let promised = policy.limits()[0].rule().most_in(Micros::new(10_000));
            assert_eq!(when_full(&policy, &times), promised, "{text}");
        }
    }

    #[test]
    fn offers_are_made_in_the_order_of_their_times() {
        let policy: Policy = "5/ms, 7/s".parse().unwrap();
        let offer = |at: u64, cost, mode| Offer { at: Timestamp::saturating(1_700_000_000_000_000 + at), cost, mode };
        let (first, second) = (offer(0, 4, Mode::Binary), offer(10, 2, Mode::Binary));
        let third = offer(1_000, 9, Mode::Nary);
        assert_eq!(when_offered(&policy, &mut [third, second, first]), 7);
    }
}
