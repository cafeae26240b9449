//! A batch of requests, encoded once; before it is sent again only the digits of its keys are written.

use tollgate_random::Rng;

/// Where the key's number goes in a word of a command.
pub(crate) const NUMBER: &str = "NUMBER";
/// Digits of a number, so that every request is as long as the others.
const DIGITS: usize = 8;

/// Requests of one command that are sent together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Where the digits of each request begin.
    places: Vec<usize>,
}

impl Batch {
    /// So many times the same command, whose words have [`NUMBER`] in them once.
    pub(crate) fn new(words: &[&str], requests: usize) -> Self {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for _ in 0..requests {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                let number = word.find(NUMBER);
                let word = word.replace(NUMBER, &"0".repeat(DIGITS));
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                places.extend(number.map(|at| bytes.len() + at));
                bytes.extend_from_slice(word.as_bytes());
                bytes.extend_from_slice(b"\r\n");
            }
        }
        Self { bytes, places }
    }

    /// What is to be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives every request a number of its own.
    pub(crate) fn renumber(&mut self, mut next: impl FnMut() -> u32) {
        for &place in &self.places {
            let mut rest = next();
            for digit in self.bytes.iter_mut().skip(place).take(DIGITS).rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// Numbers below a bound, the same in every run.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    /// All as likely.
    Random { rng: Rng, below: u64 },
    /// One after the other.
    InTurn { last: u32, below: u32 },
}

impl Numbers {
    pub(crate) fn random(below: u32) -> Self {
        Self::Random { rng: Rng::new(0), below: below.into() }
    }

    pub(crate) fn in_turn(below: u32) -> Self {
        Self::InTurn { last: 0, below }
    }

    pub(crate) fn next(&mut self) -> u32 {
        match self {
            Self::Random { rng, below } => {
                // The upper half, scaled: cheaper than a division.
                (((rng.next_u64() >> 32) * *below) >> 32) as u32
            }
            Self::InTurn { last, below } => {
                *last = (*last + 1) % *below;
                *last
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_the_command_with_other_numbers() {
        let mut batch = Batch::new(&["FCALL", "f", "1", "tg:{key:NUMBER}", "100/min gcra"], 2);
        let mut numbers = [42, 99_999].into_iter();
        batch.renumber(|| numbers.next().unwrap());
        let request = |number: &str| {
            format!("*5\r\n$5\r\nFCALL\r\n$1\r\nf\r\n$1\r\n1\r\n$17\r\ntg:{{key:{number}}}\r\n$12\r\n100/min gcra\r\n")
        };
        assert_eq!(String::from_utf8_lossy(batch.bytes()), request("00000042") + &request("00099999"));
    }

    #[test]
    fn numbers_reach_every_tenth_of_their_range_alike() {
        let mut numbers = Numbers::random(100_000);
        let mut tenths = [0_u32; 10];
        (0..100_000).for_each(|_| tenths[numbers.next() as usize / 10_000] += 1);
        assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
    }
}
