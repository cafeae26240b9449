//! Random commands: every algorithm in every mode, several keys at once, refunds, resets, every dialect, plain keys,
//! transactions.

/// Random numbers, always the same.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

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
pub(crate) fn commands(dice: &mut Dice, now: u64, at: &[u64]) -> Vec<Vec<String>> {
    match dice.below(20) {
        // A pipeline of one policy, as clients send them.
        0 => {
            let policy = dice.pick(POLICIES);
            (0..1 + dice.below(40)).map(|_| words(&["TG.CHECK", &key(dice), policy])).collect()
        }
        1 => {
            let mut all = vec![words(&["MULTI"])];
            (0..1 + dice.below(6)).for_each(|_| all.push(one(dice, now, at)));
            all.push(words(&["EXEC"]));
            all
        }
        _ => vec![one(dice, now, at)],
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

fn key(dice: &mut Dice) -> String {
    format!("key:{}", dice.below(12))
}

fn one(dice: &mut Dice, now: u64, at: &[u64]) -> Vec<String> {
    match dice.below(10) {
        0..=3 => native(dice, at),
        4..=6 => dialect(dice, now),
        _ => plain(dice),
    }
}

fn native(dice: &mut Dice, at: &[u64]) -> Vec<String> {
    let (key, policy, cost) = (key(dice), dice.pick(POLICIES), dice.pick(&["1", "1", "2", "3", "9", "0"]));
    let name = dice.pick(NAMES);
    match dice.below(12) {
        0..=4 => words(&["TG.CHECK", &key, policy, "COST", cost, "MODE", dice.pick(MODES), "NAME", name, "FULL"]),
        5 | 6 => words(&["TG.CHECK", &key, policy, "COST", cost, "REST", "SOURCE"]),
        7 => words(&["TG.PEEK", &key, policy, "COST", cost, "NAME", name, "FULL"]),
        8 | 9 => {
            let units = dice.pick(&["1", "2", "5"]);
            // Mostly of late: what was charged long ago is not held any more.
            let from = if dice.below(4) == 0 { 0 } else { at.len().saturating_sub(6) };
            let at = &at[from..];
            let at = at.get(dice.below(at.len().max(1) as u64) as usize).copied().unwrap_or_default();
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

fn dialect(dice: &mut Dice, now: u64) -> Vec<String> {
    let key = |kind: &str, dice: &mut Dice| format!("{kind}:{}", dice.below(3));
    let time = (now / 1_000_000).to_string();
    let counted = dice.pick(&["1", "1", "1", "2", "0", "7", "-1"]);
    let fcall = |name: &str, keys: &[&str], args: &[&str]| {
        [words(&["FCALL", name, &keys.len().to_string()]), words(keys), words(args)].concat()
    };
    match dice.below(11) {
        0 => fcall("sliding_window", &[&key("sliding", dice)], &["1000", "2", "10000", "5"]),
        1 => fcall("sliding_window", &[&key("sliding2", dice)], &["300", "3", "9000"]),
        2 => fcall("fixed_window", &[&key("fixed", dice)], &["3", "2"]),
        3 => fcall("token_bucket", &[&key("bucket", dice)], &["6", "7", "2"]),
        4 | 5 => {
            // Two namespaces at one key.
            let space = dice.pick(&["ns", "other"]);
            fcall("slot_window", &[&key("slots", dice)], &[counted, space, "[[2,5,1],[4,30,10]]", &time, "0"])
        }
        6 => fcall("ar1", &[&key("slots", dice)], &[counted, "ns", "[[2.5,1.5,2]]", &time, "1"]),
        7 => {
            let (mode, n) = (dice.pick(&["0", "1", "2"]), dice.pick(&["1", "2", "5"]));
            let name = key("rolling", dice);
            let keys = [format!("{name}:a"), format!("{name}:b")];
            let limits = ["0", "0", "6", "4", "1000", "300", "10000", "10000"];
            fcall("rolling", &[&keys[0], &keys[1]], &[&[mode, n, &now.to_string()][..], &limits].concat())
        }
        8 => fcall("api_counter", &[&format!("{{api:{}}}", dice.below(3))], &["4"]),
        // Several dialects at one key.
        9 => fcall("fixed_window", &[&key("shared", dice)], &["3", "5"]),
        _ => words(&["CL.THROTTLE", &key("shared", dice), "2", "3", "5"]),
    }
}

fn plain(dice: &mut Dice) -> Vec<String> {
    let keys = ["a", "b", "{api:1}:14", "{api:2}:15", "shared:1", "slots:0", "rolling:1:a"];
    let key = dice.pick(&keys);
    match dice.below(14) {
        0 => words(&["SET", key, dice.pick(&["1", "text", "", "-7"])]),
        1 => words(&["SET", key, "x", "PX", dice.pick(&["300", "5000"]), "GET"]),
        2 | 3 => words(&["INCR", key]),
        4 => words(&["INCRBY", key, dice.pick(&["5", "-2"])]),
        5 => words(&["PEXPIRE", key, dice.pick(&["200", "9000", "-1"]), dice.pick(&["GT", "LT", "NX", "XX"])]),
        6 => words(&["DEL", key, "nothing"]),
        7 => words(&["PTTL", key]),
        8 => words(&["GET", key]),
        9 => words(&["HGETALL", "{api:1}:data"]),
        10 => words(&["SELECT", dice.pick(&["0", "0", "0", "3"])]),
        11 if dice.below(20) == 0 => words(&[dice.pick(&["FLUSHDB", "FLUSHALL"])]),
        _ => words(&["EXISTS", key, "a"]),
    }
}
