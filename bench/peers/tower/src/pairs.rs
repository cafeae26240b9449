//! Pairs: what was measured of two contenders in the same round, as a ratio; the median of the ratios, and where
//! the median of all rounds there could be lies.

/// How sure the interval is meant to be.
const SURE: f64 = 0.95;

/// The median of some ratios, and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How sure it is. Below `SURE` where there are too few pairs for more: it is then from the least to the greatest.
    pub(crate) sure: f64,
}

impl Interval {
    /// `None` of no ratios.
    ///
    /// By order statistics: of n ratios, less than k lie below the true median with the probability that n coins
    /// show less than k heads, whatever the noise looks like.
    pub(crate) fn of(mut ratios: Vec<f64>) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let (&least, &greatest) = (ratios.first()?, ratios.last()?);
        let tails = tails(ratios.len());
        // The most that may be left out at both ends.
        let out = tails.iter().take_while(|tail| 2.0 * **tail <= 1.0 - SURE).count();
        let (low, high) = match out {
            0 => (least, greatest),
            out => (ratios[out - 1], ratios[ratios.len() - out]),
        };
        let sure = 1.0 - 2.0 * tails[out.saturating_sub(1)];
        let middle = ratios.len() / 2;
        let median = if ratios.len() % 2 == 1 { ratios[middle] } else { (ratios[middle - 1] + ratios[middle]) / 2.0 };
        Some(Self { median, low, high, sure: sure.max(0.0) })
    }

    /// The interval is as sure as it is meant to be.
    pub(crate) fn is_sure(&self) -> bool {
        self.sure >= SURE
    }
}

/// The probability that of `count` coins at most 0, 1, 2, ... (up to half of them) show heads.
fn tails(count: usize) -> Vec<f64> {
    let (mut term, mut sum) = (0.5_f64.powi(count as i32), 0.0);
    let tail = |heads: usize| {
        if heads > 0 {
            term *= (count - heads + 1) as f64 / heads as f64;
        }
        sum += term;
        sum
    };
    (0..=count / 2).map(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the sign test: of 20 the 6th and the 15th, of 6 the first and the last.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let of = |count: usize| Interval::of((1..=count).rev().map(|ratio| ratio as f64).collect()).unwrap();
        for (count, low, high) in [(6, 1.0, 6.0), (8, 1.0, 8.0), (9, 2.0, 8.0), (20, 6.0, 15.0), (40, 14.0, 27.0)] {
            let interval = of(count);
            assert_eq!((interval.low, interval.high), (low, high), "{count}");
            assert!(interval.is_sure(), "{count}: {interval:?}");
            assert_eq!(interval.median, (count as f64 + 1.0) / 2.0);
        }
        assert!((of(20).sure - 0.9586).abs() < 1e-4);
    }

    #[test]
    fn few_pairs_are_not_sure() {
        assert_eq!(Interval::of(Vec::new()), None);
        assert_eq!(Interval::of(vec![2.0]).map(|interval| (interval.low, interval.high)), Some((2.0, 2.0)));
        let five = Interval::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.low, five.median, five.high), (1.0, 3.0, 5.0));
        assert!(!five.is_sure());
    }
}
