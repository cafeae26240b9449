//! Random strings into the policy parser: it never panics, what it takes prints back to itself, and
//! what it refuses is pointed at inside the text.

use tollgate_kernel::Policy;

use tollgate_random::Rng;

/// What random texts are made of: the words of the grammar, and things that are not.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "100", "1", "0", "5M", "10k", "1_000", "_", "-1", "1.5", "999999999999999999999", "/", "/", "/", "min", "s", "h", "d",
    "w", "us", "ms", "5s", "366d", "7d", "week", " ", " ", " ", ",", ", ", "sliding", "gcra", "fixed", "bucket", "slots",
    "estimate", "decay", "rolling", "burst=", "grain=", "resolution=", "factor=", "spacing=", "align=", "name=", "clock",
    "first", "20", "1s", "1.5", "2", "login", "=", "\t", "\0", "é", "１", "🚦", "\u{202e}", "\n",
];

/// Tries `cases` texts from `seed` on; tells of the first that is not handled right.
pub(crate) fn policies(seed: u64, cases: u64) -> Result<ParseFigures, String> {
    let mut rng = Rng::new(seed);
    let mut tried = ParseFigures { taken: 0, refused: 0 };
    for _ in 0..cases {
        let text = text(&mut rng);
        match text.parse::<Policy>() {
            Ok(policy) => {
                let printed = policy.to_string();
                if printed.parse::<Policy>().as_ref() != Ok(&policy) {
                    return Err(format!("{text:?} prints as {printed:?}, which is something else"));
                }
                tried.taken += 1;
            }
            Err(error) => {
                let length = text.chars().count();
                if error.column == 0 || error.column > length + 1 || error.example.parse::<Policy>().is_err() {
                    return Err(format!("{text:?}: {error}"));
                }
                tried.refused += 1;
            }
        }
    }
    Ok(tried)
}

/// How many texts were policies.
#[derive(Debug)]
pub(crate) struct ParseFigures {
    pub(crate) taken: u64,
    pub(crate) refused: u64,
}

/// A limit that is likely right, pieces of the grammar in any order, or bytes.
fn text(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..5 => (0..rng.within(1, 4)).map(|_| limit(rng)).collect::<Vec<_>>().join(rng.pick(&[",", ", ", " , ", ";"])),
        5..8 => (0..rng.within(0, 12)).map(|_| rng.pick(PIECES)).collect(),
        _ => {
            let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}

fn limit(rng: &mut Rng) -> String {
    let number = |rng: &mut Rng| rng.pick(&["1", "7", "100", "1_000", "10k", "2M", "1000000000", "0"]).to_owned();
    let period =
        |rng: &mut Rng| rng.pick(&["s", "min", "5s", "1500us", "36h", "7d", "366d", "367d", "1ms", "2w"]).to_owned();
    let algorithm = rng.pick(&["", "sliding", "gcra", "fixed", "bucket", "slots", "estimate", "decay"]);
    let mut text = format!("{}/{} {algorithm}", number(rng), period(rng));
    for _ in 0..rng.below(3) {
        text += &match rng.below(7) {
            0 => format!(" burst={}", number(rng)),
            1 => format!(" grain={}", period(rng)),
            2 => format!(" resolution={}", period(rng)),
            3 => format!(" factor={}", rng.pick(&["2", "1.5", "1.25", "1", "3.000", "0.1"])),
            4 => format!(" spacing={}", period(rng)),
            5 => format!(" align={}", rng.pick(&["clock", "first", "noon"])),
            _ => format!(" name={}", rng.pick(&["a", "login", "a-b_9", "a.b"])),
        };
    }
    text
}
