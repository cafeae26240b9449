//! Random calls of every dialect: the server, whose keys expire, answers as the kernel does on states that never
//! do.

use std::collections::HashMap;

use tollgate_dialects::ApiCounterUsage;
use tollgate_kernel::{KeyState, Timestamp};
use tollgate_random::Rng;

use crate::keys::support::{KeysTestServer, T};

/// A call at `now`: dialect, keys, arguments. Each policy has keys of its own.
fn call(rng: &mut Rng, now: u64) -> (&'static str, Vec<String>, Vec<String>) {
    let key = |kind: &str, rng: &mut Rng| format!("{kind}:{}", rng.below(2));
    let of = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let seconds = (now / 1_000_000).to_string();
    let counted = rng.pick(&["1", "1", "1", "2", "0", "7", "-1"]).to_owned();
    let waits = rng.pick(&["0", "1", ""]).to_owned();
    match rng.below(12) {
        0 => ("sliding_window", vec![key("sliding", rng)], of(&["1000", "2", "10000", "5"])),
        1 => ("sliding_window", vec![key("sliding2", rng)], of(&["300", "3", "9000"])),
        2 => ("fixed_window", vec![key("fixed", rng)], of(&["3", "2"])),
        3 => ("fixed_window", vec![key("fixed0", rng)], of(&["0", "5"])),
        4 => ("token_bucket", vec![key("bucket", rng)], of(&["6", "7", "2"])),
        5 | 6 => (
            "slot_window",
            vec![key("slots", rng)],
            vec![counted, "ns".into(), "[[2,5,1],[4,30,10]]".into(), seconds, waits],
        ),
        7 => ("ar1", vec![key("ar1", rng)], vec![counted, "ns".into(), "[[2.5,1.5,2]]".into(), seconds, waits]),
        8 => {
            let mode = rng.pick(&["0", "1", "2"]).to_owned();
            let n = rng.pick(&["1", "2", "5"]).to_owned();
            let limits = of(&["0", "0", "6", "4", "1000", "300", "10000", "10000"]);
            let name = key("rolling", rng);
            (
                "rolling",
                vec![format!("{name}:a"), format!("{name}:b")],
                [vec![mode, n, now.to_string()], limits].concat(),
            )
        }
        9 => (
            "rolling",
            vec![key("rolling1", rng)],
            vec!["1".into(), "1".into(), now.to_string(), "700000".into(), "3".into(), "400.5".into(), "10000".into()],
        ),
        10 => ("api_counter", vec![format!("{{api:{}}}", rng.below(2))], of(&["4"])),
        _ => ("cl.throttle", vec![key("throttle", rng)], of(&["2", "3", "5"])),
    }
}

#[test]
fn the_server_answers_as_the_kernel_does() {
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let (mut rng, mut server, mut now) = (Rng::new(seed), KeysTestServer::new(), T);
    let mut states: HashMap<(&str, Vec<u8>), (KeyState, ApiCounterUsage)> = HashMap::new();
    let mut refused = 0;
    for step in 0..20_000 {
        now += match rng.below(10) {
            0..4 => 0,
            4..8 => rng.below(400_000),
            8 => rng.pick(&[1, 1_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000, 5_000_000]),
            _ => rng.below(8_000_000),
        };
        server.clock.set(Timestamp::saturating(now));
        let (name, keys, args) = call(&mut rng, now);
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
        let found = server.client.ask(&command);
        assert_eq!(found, shown(&expected.reply), "step {step} at {now}: {command:?}");
    }
    assert!(refused > 4_000, "{refused}");
}

fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
    all.iter().map(Vec::as_slice).collect()
}

fn shown(reply: &tollgate_dialects::DialectReply) -> String {
    use tollgate_dialects::DialectReply;
    match reply {
        DialectReply::Int(number) => format!(":{number}"),
        DialectReply::Nil => "$-1".to_owned(),
        DialectReply::Text(text) => format!("${} {text}", text.len()),
        DialectReply::Array(all) => {
            let parts: Vec<String> = all.iter().map(shown).collect();
            format!("*{} {}", all.len(), parts.join(" "))
        }
    }
}
