//! What attackers tell: counts, as a line of words.

use std::time::{Duration, Instant};

use crate::Failure;

/// What came of attackers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connections) struct Figures {
    /// Connections that were tried, served or held, and refused.
    pub(in crate::connections) tried: u64,
    pub(in crate::connections) held: u64,
    pub(in crate::connections) refused: u64,
    /// Those of the first address that were held.
    pub(in crate::connections) of_first: u64,
    /// Those that the server cut off, and the milliseconds of the slowest since it last took a byte.
    pub(in crate::connections) cut: u64,
    pub(in crate::connections) slowest: u64,
    /// Requests that were sent.
    pub(in crate::connections) requests: u64,
    /// What should not have happened.
    pub(in crate::connections) wrong: u64,
}

impl Figures {
    const NAMES: [&str; 8] = ["tried", "held", "refused", "of_first", "cut", "slowest", "requests", "wrong"];

    fn numbers(&mut self) -> [&mut u64; 8] {
        let Self { tried, held, refused, of_first, cut, slowest, requests, wrong } = self;
        [tried, held, refused, of_first, cut, slowest, requests, wrong]
    }

    pub(super) fn words(mut self) -> String {
        let words = Self::NAMES.iter().zip(self.numbers()).map(|(name, number)| format!("{name}={number}"));
        words.collect::<Vec<_>>().join(" ")
    }

    pub(in crate::connections) fn read(line: &str) -> Result<Self, Failure> {
        let mut figures = Self::default();
        let mut words = line.split(' ');
        for (name, number) in Self::NAMES.iter().zip(figures.numbers()) {
            let value = words.next().and_then(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
            *number = value.ok_or_else(|| Failure(format!("the attackers said {line:?}")))?;
        }
        Ok(figures)
    }

    pub(super) fn absorb(&mut self, mut other: Self) {
        let slowest = self.slowest.max(other.slowest);
        for (ours, theirs) in self.numbers().into_iter().zip(other.numbers()) {
            *ours += *theirs;
        }
        self.slowest = slowest;
    }

    /// The server cut a connection off whose last byte it took at `since`.
    pub(super) fn cut(&mut self, since: Instant) {
        self.cut += 1;
        let millis = since.elapsed().max(Duration::from_millis(1)).as_millis();
        self.slowest = self.slowest.max(u64::try_from(millis).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let mut figures = Figures { tried: 5, held: 4, wrong: 1, slowest: 7, ..Figures::default() };
        assert_eq!(Figures::read(&figures.words()).unwrap(), figures);
        figures.absorb(Figures { tried: 2, slowest: 6, ..Figures::default() });
        assert_eq!((figures.tried, figures.held, figures.slowest), (7, 4, 7));
        assert!(Figures::read("tried=1 held=x").is_err());
    }
}
