//! Whether what was granted of a key can have been granted by its limits, whatever moments the server chose.
//!
//! A grant was decided at some moment between its question and its answer. So of grants that were all asked for after
//! one moment and all answered before another, it is certain that they lie between the two; no limit may admit more in
//! that span. Whatever is not certain is taken in the server's favour.

/// Microseconds of a millisecond.
const MILLISECOND: u64 = 1_000;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every interval of its period holds at most its count.
    Sliding,
    /// Windows one after the other: an interval may touch two.
    Fixed,
    /// A burst of its count, and its rate beside that.
    Gcra,
}

/// A limit: so many units in so many microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) kind: Kind,
    pub(super) count: u64,
    pub(super) period: u64,
}

/// A grant: when it was asked for and answered, in microseconds, and its units.
#[derive(Clone, Copy, Debug)]
struct Grant {
    sent: u64,
    received: u64,
    units: u64,
}

/// What came of one key under one policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    grants: Vec<Grant>,
    /// Units that were asked for without an answer: they may have been charged.
    unknown: u64,
}

impl Bound {
    pub(super) const fn new(kind: Kind, count: u64, period: u64) -> Self {
        Self { kind, count, period }
    }

    /// The most units in a span. Clocks are not the same to the microsecond, and over a restart it is the wall clock
    /// that counts, which may be steered: a thousandth more and two milliseconds are conceded.
    fn most(&self, span: u64) -> u64 {
        let span = span + span / 1_000 + 2 * MILLISECOND;
        let whole = span / self.period;
        match self.kind {
            Kind::Sliding => self.count * (whole + 1),
            Kind::Fixed => self.count * (whole + 2),
            Kind::Gcra => {
                let refilled = u128::from(span) * u128::from(self.count) / u128::from(self.period);
                self.count + u64::try_from(refilled).unwrap_or(u64::MAX - self.count)
            }
        }
    }
}

impl Trace {
    pub(super) fn granted(&mut self, sent: u64, received: u64, units: u64) {
        self.grants.push(Grant { sent, received, units });
    }

    /// A question without an answer.
    pub(super) fn unknown(&mut self, units: u64) {
        self.unknown += units;
    }

    /// Units that were granted for certain.
    pub(super) fn units(&self) -> u64 {
        self.grants.iter().map(|grant| grant.units).sum()
    }

    /// Whether so many more surely fit: even if everything that was asked for were still counted.
    pub(super) fn surely_fits(&self, bound: &Bound, units: u64) -> bool {
        self.units() + self.unknown + units <= bound.count
    }

    /// The first span that held more than the limit admits; nothing if there is none.
    pub(super) fn excess(&self, bound: &Bound) -> Option<String> {
        let mut grants = self.grants.clone();
        grants.sort_by_key(|grant| grant.received);
        let mut starts: Vec<u64> = grants.iter().map(|grant| grant.sent).collect();
        starts.sort_unstable();
        for start in starts {
            let mut units = 0;
            for grant in grants.iter().filter(|grant| grant.sent >= start) {
                units += grant.units;
                let span = grant.received - start;
                let most = bound.most(span);
                if units > most {
                    let millis = span / MILLISECOND;
                    let all: Vec<String> =
                        grants.iter().map(|grant| (grant.received / MILLISECOND).to_string()).collect();
                    return Some(format!(
                        "{units} units within {millis} ms, at most {most}; granted at {} ms",
                        all.join(", ")
                    ));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_random::Rng;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3_600 * SECOND;

    fn trace(grants: &[(u64, u64, u64)]) -> Trace {
        let mut trace = Trace::default();
        grants.iter().for_each(|(sent, received, units)| trace.granted(*sent, *received, *units));
        trace
    }

    #[test]
    fn a_planted_excess_is_found_under_every_kind() {
        let five = |kind| Bound::new(kind, 5, HOUR);
        let spent = trace(&[(0, 10, 5)]);
        let again = trace(&[(0, 10, 5), (SECOND, SECOND + 10, 1)]);
        for kind in [Kind::Sliding, Kind::Gcra] {
            assert_eq!(spent.excess(&five(kind)), None, "{kind:?}");
            assert!(again.excess(&five(kind)).is_some(), "{kind:?}");
        }
        // Two windows may touch an interval, three may not.
        assert_eq!(trace(&[(0, 10, 5), (SECOND, SECOND + 10, 5)]).excess(&five(Kind::Fixed)), None);
        assert!(trace(&[(0, 10, 10), (SECOND, SECOND + 10, 1)]).excess(&five(Kind::Fixed)).is_some());
        // It may be anywhere, and in any order.
        let late = trace(&[(5 * HOUR + 1, 5 * HOUR + 2, 1), (0, 1, 5), (5 * HOUR, 5 * HOUR + 1, 5)]);
        assert!(late.excess(&five(Kind::Sliding)).is_some());
    }

    #[test]
    fn what_is_not_certain_is_no_excess() {
        let bound = Bound::new(Kind::Sliding, 5, SECOND);
        // The first was asked for long before: it may have been decided then.
        assert_eq!(trace(&[(0, 3 * SECOND, 5), (2 * SECOND, 3 * SECOND, 5)]).excess(&bound), None);
        // An answer that came late may have been decided early, and the other way round.
        assert_eq!(trace(&[(0, 1, 5), (SECOND / 2, 2 * SECOND, 5)]).excess(&bound), None);
        assert!(trace(&[(0, 1, 5), (SECOND / 2, SECOND / 2 + 1, 5)]).excess(&bound).is_some());
    }

    #[test]
    fn what_a_limit_really_admits_is_no_excess() {
        for seed in 0..50 {
            let mut rng = Rng::of_part(seed, 1);
            let (count, period) = (1 + rng.below(20), SECOND);
            let (mut now, mut log, mut theoretical) = (0_u64, Vec::new(), 0_u64);
            let (mut sliding, mut gcra) = (Trace::default(), Trace::default());
            for _ in 0..400 {
                now += rng.below(100_000);
                let (sent, received) = (now.saturating_sub(rng.below(5_000)), now + rng.below(5_000));
                log.retain(|at| now - at < period);
                if (log.len() as u64) < count {
                    log.push(now);
                    sliding.granted(sent, received, 1);
                }
                let step = period / count;
                if theoretical.max(now) + step <= now + period {
                    theoretical = theoretical.max(now) + step;
                    gcra.granted(sent, received, 1);
                }
            }
            assert_eq!(sliding.excess(&Bound::new(Kind::Sliding, count, period)), None, "seed {seed}");
            assert_eq!(sliding.excess(&Bound::new(Kind::Fixed, count, period)), None, "seed {seed}");
            assert_eq!(gcra.excess(&Bound::new(Kind::Gcra, count, period)), None, "seed {seed}");
            let less = Bound::new(Kind::Sliding, count - 1, period);
            assert!(count == 1 || sliding.excess(&less).is_some(), "seed {seed}: {count} are granted in some second");
        }
    }

    #[test]
    fn room_is_certain_only_if_everything_unknown_fits_too() {
        let bound = Bound::new(Kind::Sliding, 5, HOUR);
        let mut trace = trace(&[(0, 1, 2)]);
        assert!(trace.surely_fits(&bound, 3) && !trace.surely_fits(&bound, 4));
        trace.unknown(2);
        assert!(trace.surely_fits(&bound, 1) && !trace.surely_fits(&bound, 2));
    }
}
