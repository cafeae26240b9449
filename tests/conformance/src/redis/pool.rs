//! Random policies, and random changes of them, for the traces.

use tollgate_kernel::{Mode, Policy};

use tollgate_random::Rng;

const COUNTS: [u64; 11] = [1, 2, 3, 5, 10, 40, 90, 200, 700, 1_000_003, 999_999_937];
const PERIODS: [&str; 10] = ["1ms", "7ms", "100ms", "1s", "3s", "10s", "1min", "1h", "1d", "1w"];

/// A random policy under `name`, of one to four limits.
pub(super) fn policy(random: &mut Rng, name: &str) -> Policy {
    loop {
        if random.chance(10) {
            // A window that may hold more than its burst near its end, and then starts over: the wait for it and
            // another limit is not the greatest of the two.
            let (count, burst) = (random.within(3, 12), random.within(1, 3));
            let text = format!("{count}/10s bucket burst={burst}, {}/{}s", random.within(2, 6), random.within(2, 9));
            if let Some(policy) = named(&text, name) {
                return policy;
            }
        }
        let limits: Vec<String> = (0..1 + random.below(4) / 2).map(|_| limit(random)).collect();
        if let Some(policy) = named(&limits.join(", "), name) {
            return policy.with_mode(if random.below(6) == 0 { Mode::Nary } else { Mode::Binary });
        }
    }
}

/// The same with a limit that has a name, which texts of others can have too.
pub(super) fn with_named_limit(random: &mut Rng, name: &str) -> Policy {
    loop {
        let policy = policy(random, name);
        if policy.limits().iter().any(|limit| limit.given_name().is_some()) {
            return policy;
        }
    }
}

/// A policy whose log grows long.
pub(super) fn long(random: &mut Rng, name: &str) -> Policy {
    let count = random.within(70, 900);
    let period = random.pick(&["100ms", "1s", "10s", "1h"]);
    let rule = random.pick(&["", " grain=3us", " slots resolution=7us", ", 2M/d gcra", ", 5000/d slots resolution=1s"]);
    named(&format!("{count}/{period}{rule}"), name).unwrap_or_else(|| policy(random, name))
}

/// The same policy with one of its limits changed, gone or joined by another.
pub(super) fn changed(random: &mut Rng, policy: &Policy) -> Policy {
    for _ in 0..20 {
        let mut limits: Vec<String> = policy.limits().iter().map(|limit| limit.to_string()).collect();
        let place = random.index(limits.len());
        match random.below(4) {
            0 => limits.push(limit(random)),
            1 if limits.len() > 1 => drop(limits.remove(place)),
            2 => {
                // Another limit under the same name, perhaps of another algorithm.
                if let Some(name) = policy.limits()[place].given_name() {
                    let new = limit(random);
                    limits[place] = format!("{} name={name}", new.split(" name=").next().unwrap_or(&new));
                }
            }
            _ => {
                let count = random.pick(&COUNTS);
                let rest = limits[place].split_once('/').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
                limits[place] = format!("{count}/{rest}");
            }
        }
        if let Some(changed) = named(&limits.join(", "), policy.name()) {
            return changed.with_mode(policy.mode());
        }
    }
    policy.clone()
}

/// A policy that somebody else brings: limits of the same names, mostly, by any algorithm and of any period.
pub(super) fn beside(random: &mut Rng, policy: &Policy) -> Policy {
    for _ in 0..20 {
        let own = &policy.limits()[random.index(policy.limits().len())];
        let new = limit(random);
        let text = match own.given_name() {
            Some(name) if random.chance(80) => format!("{} name={name}", new.split(" name=").next().unwrap_or(&new)),
            _ => new,
        };
        if let Some(other) = named(&text, policy.name()) {
            return other;
        }
    }
    policy.clone()
}

/// A policy of one limit of that many days.
pub(super) fn of_days(days: u64, name: &str) -> Option<Policy> {
    named(&format!("1000/{days}d fixed"), name)
}

fn named(text: &str, name: &str) -> Option<Policy> {
    let policy: Policy = text.parse().ok()?;
    if name.is_empty() { Some(policy) } else { policy.with_name(name).ok() }
}

fn limit(random: &mut Rng) -> String {
    let count = random.pick(&COUNTS);
    let period = random.pick(&PERIODS);
    let some = |random: &mut Rng| COUNTS[random.below(6) as usize];
    let rule = match random.below(10) {
        0..3 => String::new(),
        3 => format!(" grain={}us", 1 + random.below(999)),
        4 => format!(" gcra burst={}", some(random)),
        5 => " gcra".to_owned(),
        6 => format!(" fixed align={}", random.pick(&["clock", "clock", "first"])),
        7 => format!(" bucket burst={}", some(random).min(count)),
        8 => format!(" slots resolution={}us", [1_000, 333, 900_001][random.below(3) as usize]),
        _ if random.below(2) == 0 => " estimate".to_owned(),
        _ => format!(" decay factor={}", ["2", "1.5", "1.00002", "10", "3.7"][random.below(5) as usize]),
    };
    let spacing =
        if random.below(6) == 0 { format!(" spacing={}us", 1 + random.below(200_000)) } else { String::new() };
    let name = if random.below(6) == 0 { format!(" name=n{}", random.below(3)) } else { String::new() };
    format!("{count}/{period}{rule}{spacing}{name}")
}
