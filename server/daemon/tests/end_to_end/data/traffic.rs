//! Random commands: every algorithm in every mode, several keys at once, refunds, resets, every dialect, plain keys,
//! transactions.

use tollgate_random::Rng;

/// Policies of one name, which find each other's limits.
const POLICIES: &[&str] = &[
    "5/s gcra",
    "7/s gcra burst=3",
    "4/s fixed",
    "40/min fixed align=clock",
    "6/s sliding",
    "6/s slots resolution=100ms",
    "8/s estimate",
    "15/10s bucket burst=3",
    "9/10s decay factor=2",
    "6/s, 5/s gcra",
    "5/s gcra, 40/min fixed, 60/min sliding",
    "3/s spacing=50ms",
    "30/min gcra name=steady",
];
const NAMES: &[&str] = &["one", "two", "three"];
const MODES: &[&str] = &["binary", "binary", "nary", "uniform"];

/// Commands to be sent one after the other, without waiting for replies. `at` are times of decisions before.
pub(crate) fn commands(rng: &mut Rng, now: u64, at: &[u64]) -> Vec<Vec<String>> {
    match rng.below(20) {
        // A pipeline of one policy, as clients send them.
        0 => {
            let policy = rng.pick(POLICIES);
            (0..1 + rng.below(40)).map(|_| words(&["TG.CHECK", &key(rng), policy])).collect()
        }
        1 => {
            let mut all = vec![words(&["MULTI"])];
            (0..1 + rng.below(6)).for_each(|_| all.push(one(rng, now, at)));
            all.push(words(&["EXEC"]));
            all
        }
        _ => vec![one(rng, now, at)],
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

fn key(rng: &mut Rng) -> String {
    format!("key:{}", rng.below(12))
}

fn one(rng: &mut Rng, now: u64, at: &[u64]) -> Vec<String> {
    match rng.below(10) {
        0..=3 => native(rng, at),
        4..=6 => dialect(rng, now),
        _ => plain(rng),
    }
}

fn native(rng: &mut Rng, at: &[u64]) -> Vec<String> {
    let (key, policy, cost) = (key(rng), rng.pick(POLICIES), rng.pick(&["1", "1", "2", "3", "9", "0"]));
    let name = rng.pick(NAMES);
    match rng.below(12) {
        0..=4 => words(&["TG.CHECK", &key, policy, "COST", cost, "MODE", rng.pick(MODES), "NAME", name, "FULL"]),
        5 | 6 => words(&["TG.CHECK", &key, policy, "COST", cost, "REST", "SOURCE"]),
        7 => words(&["TG.PEEK", &key, policy, "COST", cost, "NAME", name, "FULL"]),
        8 | 9 => {
            let units = rng.pick(&["1", "2", "5"]);
            // Mostly of late: what was charged long ago is not held any more.
            let from = if rng.one_in(4) { 0 } else { at.len().saturating_sub(6) };
            let at = &at[from..];
            let at = at.get(rng.index(at.len())).copied().unwrap_or_default();
            words(&["TG.REFUND", &key, policy, units, &at.to_string(), "NAME", name])
        }
        10 => words(&["TG.RESET", &key, policy, "NAME", name]),
        _ => words(&[
            "TG.CHECKALL",
            &key,
            policy,
            "COST",
            cost,
            "NAME",
            name,
            "AND",
            &key,
            "9/min",
            "AND",
            "other",
            policy,
        ]),
    }
}

fn dialect(rng: &mut Rng, now: u64) -> Vec<String> {
    let key = |kind: &str, rng: &mut Rng| format!("{kind}:{}", rng.below(3));
    let time = (now / 1_000_000).to_string();
    let counted = rng.pick(&["1", "1", "1", "2", "0", "7", "-1"]);
    let fcall = |name: &str, keys: &[&str], args: &[&str]| {
        [words(&["FCALL", name, &keys.len().to_string()]), words(keys), words(args)].concat()
    };
    match rng.below(11) {
        0 => {
            // Windows are added and taken away.
            let windows = rng.pick(&[&["1000", "2", "10000", "5"][..], &["1000", "3"], &["3000", "4", "500"]]);
            fcall("sliding_window", &[&key("sliding", rng)], windows)
        }
        1 => fcall("sliding_window", &[&key("sliding2", rng)], &["300", "3", "9000"]),
        2 => fcall("fixed_window", &[&key("fixed", rng)], &["3", "2"]),
        3 => fcall("token_bucket", &[&key("bucket", rng)], &["6", "7", "2"]),
        4 | 5 => {
            // Two namespaces of one key.
            let space = rng.pick(&["ns", "other"]);
            fcall("slot_window", &[&key("slots", rng)], &[counted, space, "[[2,5,1],[4,30,10]]", &time, "0"])
        }
        6 => fcall("ar1", &[&key("slots", rng)], &[counted, "ns", "[[2.5,1.5,2]]", &time, "1"]),
        7 => {
            let (mode, n) = (rng.pick(&["0", "1", "2"]), rng.pick(&["1", "2", "5"]));
            let name = key("rolling", rng);
            let keys = [format!("{name}:a"), format!("{name}:b")];
            let limits = ["0", "0", "6", "4", "1000", "300", "10000", "10000"];
            fcall("rolling", &[&keys[0], &keys[1]], &[&[mode, n, &now.to_string()][..], &limits].concat())
        }
        8 => fcall("api_counter", &[&format!("{{api:{}}}", rng.below(3))], &["4"]),
        // Several dialects at one key.
        9 => fcall("fixed_window", &[&key("shared", rng)], &["3", "5"]),
        _ => words(&["CL.THROTTLE", &key("shared", rng), "2", "3", "5"]),
    }
}

fn plain(rng: &mut Rng) -> Vec<String> {
    let keys = ["a", "b", "{api:1}:14", "{api:2}:15", "shared:1", "slots:0", "ns:{slots:0}", "rolling:1:a"];
    let key = rng.pick(&keys);
    match rng.below(14) {
        0 => words(&["SET", key, rng.pick(&["1", "text", "", "-7"])]),
        1 => words(&["SET", key, "x", "PX", rng.pick(&["300", "5000"]), "GET"]),
        2 | 3 => words(&["INCR", key]),
        4 => words(&["INCRBY", key, rng.pick(&["5", "-2"])]),
        5 => words(&["PEXPIRE", key, rng.pick(&["200", "9000", "-1"]), rng.pick(&["GT", "LT", "NX", "XX"])]),
        6 => words(&["DEL", key, "nothing"]),
        7 => words(&["PTTL", key]),
        8 => words(&["GET", key]),
        9 => words(&["HGETALL", "{api:1}:data"]),
        10 => words(&["SELECT", rng.pick(&["0", "0", "0", "3"])]),
        11 if rng.one_in(20) => words(&[rng.pick(&["FLUSHDB", "FLUSHALL"])]),
        _ => words(&["EXISTS", key, "a"]),
    }
}
