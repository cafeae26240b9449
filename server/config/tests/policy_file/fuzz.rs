//! Randomly damaged files: each is accepted or refused with messages that point into the text. Inputs are
//! made from a seed, so a failure can be run again: `TOLLGATE_FUZZ` is how many (10,000 in the test command, a
//! million by `cargo xtask fuzz config`), `TOLLGATE_SEED` the first.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tollgate_config::{Config, ConfigFormat, ConfigMessage, MAX_MESSAGES, changes, read_at};
use tollgate_kernel::Timestamp;
use tollgate_random::Rng;

/// The number of inputs in the test command.
const INPUTS: u64 = 10_000;

/// Parts of valid files, and parts that parsers often get wrong.
const PIECES: &[&str] = &[
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "- ",
    ": ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "#",
    "&a ",
    "*a",
    "!!str ",
    "<<: *a",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "? ",
    "~",
    "null",
    "true",
    "off",
    "0x1F",
    "1e9",
    "-1",
    "\u{feff}",
    "\0",
    "\u{7f}",
    "é",
    "😀",
    "\\",
    "\\u0000",
    "limit: 5/min\n",
    "overrides:\n",
    "until: 2027-01-31",
    "5/parsec",
    "1M/h",
    "10min after 20/min refusals",
    "policies:\n",
    "[policies.x]\n",
    "[[policies.x.overrides]]\n",
    "= ",
    "\"\"\"",
    "2027-01-31",
    "2027-01-31T00:00:00",
    "12:00:00",
    "key",
    "header:",
    "*",
    "?",
    "[a-",
    "webhook",
    "http://",
];

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(otherwise)
}

/// The good examples, each with its format.
fn seeds() -> Vec<(Vec<u8>, ConfigFormat)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples/good");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (fs::read(path).unwrap(), ConfigFormat::of(path).unwrap())).collect()
}

fn harmed(rng: &mut Rng, seeds: &[(Vec<u8>, ConfigFormat)]) -> (String, ConfigFormat) {
    let (mut bytes, mut format) = seeds[rng.index(seeds.len())].clone();
    // Half of them only a little, so that some are still right.
    if rng.one_in(2) {
        let at = rng.index(bytes.len());
        let byte = rng.pick(b"0123456789abcdez *-_/.,");
        bytes[at] = byte;
        return (String::from_utf8_lossy(&bytes).into_owned(), format);
    }
    for _ in 0..=rng.below(6) {
        let at = rng.index(bytes.len() + 1);
        let end = (at + rng.index(40)).min(bytes.len());
        match rng.below(8) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.index(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            2 => {
                let (other, _) = &seeds[rng.index(seeds.len())];
                let from = rng.index(other.len());
                let part = other[from..(from + rng.index(200)).min(other.len())].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let number = rng.next_u64();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (number % 8);
                }
            }
            4 => {
                let many = rng.pick(PIECES).repeat(rng.index(100));
                bytes.splice(at..at, many.into_bytes());
            }
            5 => bytes.truncate(at),
            _ => {
                let piece = rng.pick(PIECES);
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    if rng.one_in(20) {
        format = if format == ConfigFormat::Yaml { ConfigFormat::Toml } else { ConfigFormat::Yaml };
    }
    (String::from_utf8_lossy(&bytes).into_owned(), format)
}

/// Checks that the position is in the text, and that the message is a single short line.
fn check_message(text: &str, message: &ConfigMessage) {
    let position = message.position.as_ref().expect("a position");
    let lines: Vec<_> = text.split('\n').collect();
    let line = lines.get(position.line - 1).expect("a line of the text");
    assert!((1..=line.chars().count() + 1).contains(&position.column), "column {} of {line:?}", position.column);
    assert!(position.excerpt.chars().count() <= 102 && !position.excerpt.contains(char::is_control));
    let text_of_message = message.to_string();
    assert!(!text_of_message.contains('\n') && text_of_message.len() < 4_096, "{text_of_message:?}");
    assert!(!message.expected.is_empty() && !message.found.is_empty());
}

/// Checks that an accepted file has what the server relies on.
fn check_config(config: &Config) {
    for entry in &config.policies {
        let name = entry.policy.name();
        assert!((1..=48).contains(&name.len()) && !name.contains("--"), "{name:?}");
        for own in &entry.overrides {
            assert_eq!(own.policy.name(), name);
            assert_eq!((own.policy.mode(), own.policy.on_error()), (entry.policy.mode(), entry.policy.on_error()));
        }
        if let Some(candidate) = &entry.candidate {
            assert_eq!(candidate.name(), format!("{name}--candidate"));
            assert_eq!(candidate.mode(), entry.policy.mode());
        }
        if let Some(ban) = &entry.ban {
            assert!(ban.first <= ban.most && ban.refusals > 0 && ban.within.get() > 0);
        }
        assert!(entry.alerts.is_sorted() && entry.alerts.iter().all(|percent| (1..=100).contains(percent)));
    }
}

#[test]
fn whatever_comes_is_read_or_refused() {
    let seeds = seeds();
    let now = Timestamp::new(1_790_000_000_000_000).unwrap();
    let whole = read_at(std::str::from_utf8(&seeds[0].0).unwrap(), seeds[0].1, now).unwrap().config;
    let (inputs, first) = (asked("TOLLGATE_FUZZ", INPUTS), asked("TOLLGATE_SEED", 1));
    let mut read_ones = 0;
    for seed in first..first + inputs {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (text, format) = harmed(&mut Rng::new(seed), &seeds);
            let read = read_at(&text, format, now);
            assert_eq!(read, read_at(&text, format, now));
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            match read {
                Ok(read) => {
                    read.warnings.iter().for_each(|warning| check_message(text, warning));
                    assert!(read.warnings.len() <= MAX_MESSAGES);
                    check_config(&read.config);
                    let facts = changes(&whole, &read.config);
                    assert!(facts.iter().all(|fact| !fact.contains('\n')), "{facts:?}");
                    assert_eq!(changes(&read.config, &read.config), [] as [&str; 0]);
                    1
                }
                Err(error) => {
                    assert!((1..=MAX_MESSAGES).contains(&error.messages.len()));
                    error.messages.iter().for_each(|message| check_message(text, message));
                    0
                }
            }
        }));
        let Ok(read) = done else {
            panic!("seed {seed} fails: TOLLGATE_SEED={seed} TOLLGATE_FUZZ=1 runs it alone");
        };
        read_ones += read;
    }
    println!("{inputs} inputs from seed {first}, {read_ones} of them read");
    assert!(inputs < 1_000 || (inputs / 20..inputs).contains(&read_ones), "{read_ones} of {inputs} read");
}
