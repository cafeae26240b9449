//! This process's share of a policy: each count and burst times the share, rounded down, at least 1.

use tollgate_kernel::{Limit, Options, Policy};

/// Returns the policy scaled by `share`; the ids of the limits, the mode and the name stay the same. A limit whose
/// algorithm refuses the smaller numbers is not scaled.
pub(crate) fn scaled(policy: &Policy, share: f64) -> Policy {
    let limits = policy.limits().iter().map(|limit| part(limit, share).unwrap_or_else(|| (**limit).clone()));
    let Ok(mut scaled) = Policy::new(limits.collect()) else { return policy.clone() };
    if !policy.name().is_empty() {
        scaled = match scaled.with_name(policy.name()) {
            Ok(named) => named,
            Err(_) => return policy.clone(),
        };
    }
    scaled.with_mode(policy.mode()).with_on_error(policy.on_error())
}

fn part(limit: &Limit, share: f64) -> Option<Limit> {
    let (count, period, options) = limit.rule().numbers();
    let options = Options {
        burst: options.burst.map(|burst| times(burst, share)),
        level: options.level.map(|level| level * share),
        ..options
    };
    let mut part = Limit::build(limit.rule().name(), times(count, share), period, &options).ok()?;
    if let Some(spacing) = limit.spacing() {
        part = part.spaced(spacing).ok()?;
    }
    match limit.given_name() {
        Some(name) => part.named(name).ok(),
        None => Some(part),
    }
}

fn times(count: u64, share: f64) -> u64 {
    // Counts are below 2^53, so the product is exact enough to round down.
    if count == 0 { 0 } else { ((count as f64 * share) as u64).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bursts_shrink_and_identities_stay() {
        let rows = [
            ("100/min", 0.25, "25/min"),
            ("3/s", 0.1, "1/s"),
            ("10/s gcra burst=20", 0.5, "5/s gcra burst=10"),
            ("100/min name=api, 7/h sliding", 0.5, "50/min name=api, 3/h sliding"),
            ("100/min spacing=1s", 0.5, "50/min spacing=1s"),
            ("100/min", 1.0, "100/min"),
        ];
        for (text, share, expected) in rows {
            let policy: Policy = text.parse().unwrap();
            let part = scaled(&policy, share);
            assert_eq!(part.to_string(), expected.parse::<Policy>().unwrap().to_string(), "{text}");
            let ids = |policy: &Policy| policy.limits().iter().map(|limit| limit.id().clone()).collect::<Vec<_>>();
            assert_eq!(ids(&part), ids(&policy), "{text}");
        }
        let named = "5/s".parse::<Policy>().unwrap().with_name("login").unwrap();
        assert_eq!(scaled(&named, 0.5).name(), "login");
    }
}
