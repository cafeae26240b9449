//! Files with random harm: whatever comes is read or refused, with messages that point into the text. Inputs are
//! made from a seed, so a failure can be run again: `TOLLGATE_FUZZ` is how many (10,000 in the test command, a
//! million by `cargo xtask fuzz config`), `TOLLGATE_SEED` the first.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tollgate_config::{Config, Format, MAX_MESSAGES, Message, changes, read_at};
use tollgate_kernel::Timestamp;

/// Inputs in the test command.
const INPUTS: u64 = 10_000;

/// What files are made of, and what trips readers.
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

/// SplitMix64: any seed is as good as another.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(otherwise)
}

/// The good examples, each with its format.
fn seeds() -> Vec<(Vec<u8>, Format)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples/good");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (fs::read(path).unwrap(), Format::of(path).unwrap())).collect()
}

fn harmed(rng: &mut Rng, seeds: &[(Vec<u8>, Format)]) -> (String, Format) {
    let (mut bytes, mut format) = seeds[rng.below(seeds.len())].clone();
    // Half of them only a little, so that some are still right.
    if rng.below(2) == 0 {
        let at = rng.below(bytes.len());
        let byte = b"0123456789abcdez *-_/.,"[rng.below(23)];
        bytes[at] = byte;
        return (String::from_utf8_lossy(&bytes).into_owned(), format);
    }
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(40)).min(bytes.len());
        match rng.below(8) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            2 => {
                let (other, _) = &seeds[rng.below(seeds.len())];
                let from = rng.below(other.len());
                let part = other[from..(from + rng.below(200)).min(other.len())].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let number = rng.next();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (number % 8);
                }
            }
            4 => {
                let many = PIECES[rng.below(PIECES.len())].repeat(rng.below(100));
                bytes.splice(at..at, many.into_bytes());
            }
            5 => bytes.truncate(at),
            _ => {
                let piece = PIECES[rng.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    if rng.below(20) == 0 {
        format = if format == Format::Yaml { Format::Toml } else { Format::Yaml };
    }
    (String::from_utf8_lossy(&bytes).into_owned(), format)
}

/// The place is one of the text, and what is told fits a line.
fn check_message(text: &str, message: &Message) {
    let place = message.place.as_ref().expect("a place");
    let lines: Vec<_> = text.split('\n').collect();
    let line = lines.get(place.line - 1).expect("a line of the text");
    assert!((1..=line.chars().count() + 1).contains(&place.column), "column {} of {line:?}", place.column);
    assert!(place.excerpt.chars().count() <= 102 && !place.excerpt.contains(char::is_control));
    let told = message.to_string();
    assert!(!told.contains('\n') && told.len() < 4_096, "{told:?}");
    assert!(!message.expected.is_empty() && !message.found.is_empty());
}

/// What is read keeps to what the server counts on.
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
            let (text, format) = harmed(&mut Rng(seed), &seeds);
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
