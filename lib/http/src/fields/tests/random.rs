//! Random policies and decisions, by a seeded generator.

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Micros, Mode, Policy, Request, Timestamp, Wait};
use tollgate_random::Rng;

use super::{DecisionCase, START};

/// Random policies and decisions of a seed.
pub(super) struct RandomCases(Rng);

impl RandomCases {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Returns a number of any bit length.
    pub(super) fn number(&mut self) -> u64 {
        let bits = self.0.below(65);
        if bits == 0 { 0 } else { self.0.next_u64() >> (64 - bits) }
    }

    /// Returns a policy of up to 32 different limits.
    pub(super) fn policy(&mut self) -> Policy {
        let count = if self.0.one_in(8) { 32 } else { 1 + self.0.below(4) };
        let limits = (0..count).map(|place| {
            let (units, period) = (1 + self.0.below(1_000_000), 1 + self.0.below(400));
            let unit = self.0.pick(&["ms", "s", "min", "h"]);
            let kind = self.0.pick(&["", " fixed", " gcra", " bucket burst=1"]);
            let spacing = self.0.pick(&["", "", " spacing=3s"]);
            let long = "x".repeat(self.0.below(50) as usize);
            let name = if self.0.one_in(2) || count > 4 { format!(" name=l{place}_{long}-") } else { String::new() };
            format!("{units}/{period}{unit}{kind}{spacing}{name}")
        });
        let text = limits.collect::<Vec<_>>().join(", ");
        // Two limits may be equal by chance: then only the first limit is used.
        text.parse().unwrap_or_else(|_| text.split(", ").next().unwrap().parse().unwrap())
    }

    /// Returns a decision of the kernel under a random policy.
    pub(super) fn decided(&mut self) -> DecisionCase {
        let policy = self.policy();
        let mode = self.0.pick(&[Mode::Binary, Mode::Nary, Mode::Uniform]);
        let (mut key, mut at) = (KeyState::default(), START);
        let mut last = None;
        for _ in 0..=self.0.below(6) {
            at += self.0.below(5_000_000);
            let cost = if self.0.one_in(3) { self.0.below(2_000_000) } else { self.0.below(4) };
            let request = Request::cost(Cost::new(cost).unwrap()).mode(mode);
            last = Some(key.decide_full(&policy, Timestamp::saturating(at), &request));
        }
        let (decision, details) = last.unwrap();
        DecisionCase { policy, decision, details }
    }

    /// Returns a decision that no kernel makes: any number in any field.
    pub(super) fn strange(&mut self) -> DecisionCase {
        let policy = self.policy();
        let details: Vec<Detail> = policy.limits().iter().map(|_| self.detail()).collect();
        let decision = Decision {
            allowed: self.0.one_in(2),
            granted: self.number(),
            charged: self.number(),
            remaining: self.number() as i64,
            retry_after: self.wait(),
            next_after: self.wait(),
            reset_after: Micros::new(self.number()),
            limited_by: self.0.one_in(2).then(|| self.0.below(40) as usize),
            at: Timestamp::saturating(self.number()),
            source: tollgate_kernel::Source::Home,
        };
        DecisionCase { policy, decision, details }
    }

    fn detail(&mut self) -> Detail {
        Detail {
            fits: self.0.one_in(2),
            remaining: self.number() as i64,
            retry_after: self.wait(),
            reset_after: Micros::new(self.number()),
            count: self.number(),
        }
    }

    fn wait(&mut self) -> Wait {
        if self.0.one_in(5) { Wait::Never } else { Wait::After(Micros::new(self.number())) }
    }
}
