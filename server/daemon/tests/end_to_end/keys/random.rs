//! Random calls of every dialect: the server, whose keys expire, answers as the kernel does on states that never
//! do.

use std::collections::HashMap;

use tollgate_dialects::Usage;
use tollgate_kernel::{KeyState, Timestamp};

use crate::keys::support::{Desk, T};

/// Random numbers, always the same.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    pub(crate) fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A call at `now`: dialect, keys, arguments. Each policy has keys of its own.
fn call(dice: &mut Dice, now: u64) -> (&'static str, Vec<String>, Vec<String>) {
    let key = |kind: &str, dice: &mut Dice| format!("{kind}:{}", dice.below(2));
    let of = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let seconds = (now / 1_000_000).to_string();
    let counted = dice.pick(&["1", "1", "1", "2", "0", "7", "-1"]).to_owned();
    let waits = dice.pick(&["0", "1", ""]).to_owned();
    match dice.below(12) {
        0 => ("sliding_window", vec![key("sliding", dice)], of(&["1000", "2", "10000", "5"])),
        1 => ("sliding_window", vec![key("sliding2", dice)], of(&["300", "3", "9000"])),
        2 => ("fixed_window", vec![key("fixed", dice)], of(&["3", "2"])),
        3 => ("fixed_window", vec![key("fixed0", dice)], of(&["0", "5"])),
        4 => ("token_bucket", vec![key("bucket", dice)], of(&["6", "7", "2"])),
        5 | 6 => (
            "slot_window",
            vec![key("slots", dice)],
            vec![counted, "ns".into(), "[[2,5,1],[4,30,10]]".into(), seconds, waits],
        ),
        7 => ("ar1", vec![key("ar1", dice)], vec![counted, "ns".into(), "[[2.5,1.5,2]]".into(), seconds, waits]),
        8 => {
            let mode = dice.pick(&["0", "1", "2"]).to_owned();
            let n = dice.pick(&["1", "2", "5"]).to_owned();
            let limits = of(&["0", "0", "6", "4", "1000", "300", "10000", "10000"]);
            let name = key("rolling", dice);
            (
                "rolling",
                vec![format!("{name}:a"), format!("{name}:b")],
                [vec![mode, n, now.to_string()], limits].concat(),
            )
        }
        9 => (
            "rolling",
            vec![key("rolling1", dice)],
            vec!["1".into(), "1".into(), now.to_string(), "700000".into(), "3".into(), "400.5".into(), "10000".into()],
        ),
        10 => ("api_counter", vec![format!("{{api:{}}}", dice.below(2))], of(&["4"])),
        _ => ("cl.throttle", vec![key("throttle", dice)], of(&["2", "3", "5"])),
    }
}

#[test]
fn the_server_answers_as_the_kernel_does() {
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let (mut dice, mut desk, mut now) = (Dice(seed), Desk::new(), T);
    let mut states: HashMap<(&str, Vec<u8>), (KeyState, Usage)> = HashMap::new();
    let mut refused = 0;
    for step in 0..20_000 {
        now += match dice.below(10) {
            0..4 => 0,
            4..8 => dice.below(400_000),
            8 => [1, 1_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000, 5_000_000][dice.below(8) as usize],
            _ => dice.below(8_000_000),
        };
        desk.clock.set(Timestamp::saturating(now));
        let (name, keys, args) = call(&mut dice, now);
        let dialect = tollgate_dialects::find(name).unwrap();
        let bytes = |all: &[String]| all.iter().map(|one| one.as_bytes().to_vec()).collect::<Vec<_>>();
        let (key_bytes, arg_bytes) = (bytes(&keys), bytes(&args));
        let parsed = (dialect.parse)(&slices(&key_bytes), &slices(&arg_bytes)).unwrap();
        let (state, usage) = states.entry((name, parsed.state_key().to_vec())).or_default();
        let expected = parsed.run_with(state, usage, Timestamp::saturating(now)).unwrap();
        refused += u32::from(expected.decision.is_some_and(|decision| !decision.allowed));
        let count = keys.len().to_string();
        let mut command = match name {
            "cl.throttle" => vec!["CL.THROTTLE".to_owned()],
            _ => vec!["FCALL".to_owned(), name.to_owned(), count],
        };
        command.extend(keys);
        command.extend(args);
        let found = desk.client.ask(&command);
        assert_eq!(found, shown(&expected.reply), "step {step} at {now}: {command:?}");
    }
    assert!(refused > 4_000, "{refused}");
}

fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(Vec::as_slice).collect()
}

fn shown(reply: &tollgate_dialects::Reply) -> String {
    use tollgate_dialects::Reply;
    match reply {
        Reply::Int(number) => format!(":{number}"),
        Reply::Nil => "$-1".to_owned(),
        Reply::Text(text) => format!("${} {text}", text.len()),
        Reply::Array(all) => {
            let parts: Vec<String> = all.iter().map(shown).collect();
            format!("*{} {}", all.len(), parts.join(" "))
        }
    }
}
