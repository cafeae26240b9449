//! A replay decides as the kernel does: every line of random traffic is compared with a plain loop
//! over `KeyState::decide`, which neither sweeps nor distributes keys among threads.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;

use crate::support::{file, path, tollgate};
use tollgate_kernel::{Cost, KeyState, Mode, Policy, Request, Timestamp};
use tollgate_random::Rng;

const POLICIES: &[&str] = &[
    "1/5s, 5/h",
    "100/min, 1000/h",
    "10/s gcra burst=20",
    "30/10s fixed, 7/s spacing=20ms",
    "40/min slots resolution=5s, 900/h estimate",
    "15/60s bucket burst=3",
    "20/s decay factor=1.5",
];

struct TrafficLine {
    t: u64,
    key: u64,
    cost: u64,
}

/// Traffic with bursts, long pauses, steps back and all sorts of costs.
fn traffic(rng: &mut Rng, lines: usize, keys: u64) -> Vec<TrafficLine> {
    let mut now = 1_700_000_000_000_000u64;
    let mut traffic = Vec::new();
    for _ in 0..lines {
        now += match rng.below(1_000) {
            0 => 3_700_000_000,
            1..10 => 60_000_000,
            10..400 => rng.below(100_000),
            _ => rng.below(10),
        };
        let back = if rng.one_in(20) { rng.below(90_000_000) } else { 0 };
        let cost = match rng.below(10) {
            0 => 0,
            1 => rng.below(40),
            _ => 1,
        };
        // A few keys make most of the requests.
        let end = 1 + rng.below(keys);
        traffic.push(TrafficLine { t: now - back, key: rng.below(end), cost });
    }
    traffic
}

/// The decisions of the kernel, as `--decisions` writes them, and the numbers of the summary.
fn expected(traffic: &[TrafficLine], policies: &[Policy]) -> (String, Vec<[u64; 3]>) {
    let mut states: HashMap<(usize, u64), KeyState> = HashMap::new();
    let mut text = String::new();
    let mut counts = vec![[0; 3]; policies.len()];
    let mut latest = 0;
    for (line, request) in traffic.iter().enumerate() {
        latest = request.t.max(latest);
        for (place, policy) in policies.iter().enumerate() {
            let state = states.entry((place, request.key)).or_default();
            let (at, cost) = (Timestamp::new(latest).unwrap(), Cost::new(request.cost).unwrap());
            let decision = state.decide(policy, at, &Request::cost(cost));
            let name = decision.limited_by.map(|limit| format!("{:?}", policy.limits()[limit].name()));
            let index = if policies.len() > 1 { format!("\"policy\":{},", place + 1) } else { String::new() };
            writeln!(
                text,
                "{{\"line\":{},\"t_us\":{latest},\"key\":\"k{}\",\"cost\":{},{index}\"allowed\":{},\"granted\":{},\
                 \"remaining\":{},\"retry_after_us\":{},\"reset_after_us\":{},\"limited_by\":{}}}",
                line + 1,
                request.key,
                request.cost,
                decision.allowed,
                decision.granted,
                decision.remaining,
                decision.retry_after.as_flat(),
                decision.reset_after.get(),
                name.as_deref().unwrap_or("null"),
            )
            .unwrap();
            let add = [u64::from(decision.allowed), u64::from(!decision.allowed), decision.granted];
            counts[place].iter_mut().zip(add).for_each(|(count, more)| *count += more);
        }
    }
    (text, counts)
}

fn check(name: &str, seed: u64, keys: u64, policies: &[&str], mode: Mode) {
    let traffic = traffic(&mut Rng::new(seed), 20_000, keys);
    let log: String = traffic
        .iter()
        .map(|line| format!("{{\"t\":{},\"key\":\"k{}\",\"cost\":{}}}\n", line.t, line.key, line.cost))
        .collect();
    let parsed: Vec<Policy> = policies.iter().map(|text| text.parse::<Policy>().unwrap().with_mode(mode)).collect();
    let (decisions, counts) = expected(&traffic, &parsed);

    let log = file(&format!("{name}.jsonl"), log.as_bytes());
    let mut args = vec!["replay", &log, "--mode", mode.name(), "--json"];
    policies.iter().for_each(|policy| args.extend(["--policy", policy]));
    let shared = tollgate(&args, b"").ok();
    let out = path(&format!("{name}.decisions"));
    args.extend(["--decisions", out.to_str().unwrap()]);
    // One decider or several, the summary is the same.
    assert_eq!(tollgate(&args, b"").ok(), shared);

    let written = fs::read_to_string(&out).unwrap();
    for (own, theirs) in written.lines().zip(decisions.lines()) {
        assert_eq!(own, theirs, "{policies:?} {mode:?}");
    }
    assert_eq!(written.len(), decisions.len());
    let summary: serde_json::Value = serde_json::from_str(&shared).unwrap();
    for (part, count) in summary["policies"].as_array().unwrap().iter().zip(counts) {
        let told = ["allowed", "refused", "granted_units"].map(|name| part[name].as_u64().unwrap());
        assert_eq!(told, count);
    }
}

#[test]
fn each_policy_in_each_mode() {
    for (place, policy) in POLICIES.iter().enumerate() {
        for mode in Mode::ALL {
            let name = format!("each-{place}-{}", mode.name());
            check(&name, 0x9e37_79b9 + place as u64, 300, &[policy], mode);
        }
    }
}

#[test]
fn all_policies_side_by_side() {
    check("all", 77, 2_000, POLICIES, Mode::Binary);
}
