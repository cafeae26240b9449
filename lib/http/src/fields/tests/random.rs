//! Random policies and decisions, by a seeded generator.

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Micros, Mode, Policy, Request, Timestamp, Wait};

use super::{Decided, START};

/// A small random number generator: SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// Returns a number of any bit length.
    pub(super) fn number(&mut self) -> u64 {
        let bits = self.below(65);
        if bits == 0 { 0 } else { self.next() >> (64 - bits) }
    }

    /// Returns a policy of up to 32 different limits.
    pub(super) fn policy(&mut self) -> Policy {
        let count = if self.below(8) == 0 { 32 } else { 1 + self.below(4) };
        let limits = (0..count).map(|place| {
            let (units, period) = (1 + self.below(1_000_000), 1 + self.below(400));
            let unit = self.one(&["ms", "s", "min", "h"]);
            let kind = self.one(&["", " fixed", " gcra", " bucket burst=1"]);
            let spacing = self.one(&["", "", " spacing=3s"]);
            let long = "x".repeat(self.below(50) as usize);
            let name = if self.below(2) == 0 || count > 4 { format!(" name=l{place}_{long}-") } else { String::new() };
            format!("{units}/{period}{unit}{kind}{spacing}{name}")
        });
        let text = limits.collect::<Vec<_>>().join(", ");
        // Two limits may be equal by chance: then only the first limit is used.
        text.parse().unwrap_or_else(|_| text.split(", ").next().unwrap().parse().unwrap())
    }

    /// Returns a decision of the kernel under a random policy.
    pub(super) fn decided(&mut self) -> Decided {
        let policy = self.policy();
        let mode = *self.one(&[Mode::Binary, Mode::Nary, Mode::Uniform]);
        let (mut key, mut at) = (KeyState::default(), START);
        let mut last = None;
        for _ in 0..=self.below(6) {
            at += self.below(5_000_000);
            let cost = if self.below(3) == 0 { self.below(2_000_000) } else { self.below(4) };
            let request = Request::cost(Cost::new(cost).unwrap()).mode(mode);
            last = Some(key.decide_full(&policy, Timestamp::saturating(at), &request));
        }
        let (decision, details) = last.unwrap();
        Decided { policy, decision, details }
    }

    /// Returns a decision that no kernel makes: any number in any field.
    pub(super) fn strange(&mut self) -> Decided {
        let policy = self.policy();
        let details: Vec<Detail> = policy.limits().iter().map(|_| self.detail()).collect();
        let decision = Decision {
            allowed: self.below(2) == 0,
            granted: self.number(),
            charged: self.number(),
            remaining: self.number() as i64,
            retry_after: self.wait(),
            next_after: self.wait(),
            reset_after: Micros::new(self.number()),
            limited_by: (self.below(2) == 0).then(|| self.below(40) as usize),
            at: Timestamp::saturating(self.number()),
            source: tollgate_kernel::Source::Home,
        };
        Decided { policy, decision, details }
    }

    fn detail(&mut self) -> Detail {
        Detail {
            fits: self.below(2) == 0,
            remaining: self.number() as i64,
            retry_after: self.wait(),
            reset_after: Micros::new(self.number()),
            count: self.number(),
        }
    }

    fn wait(&mut self) -> Wait {
        if self.below(5) == 0 { Wait::Never } else { Wait::After(Micros::new(self.number())) }
    }
}
