//! `gcra`: a steady rate of N per W with a burst; at most burst + N·t/W in every interval of length t.
//!
//! The state is one point in time, `tat`: when everything charged will have been paid back. It is kept exactly, as
//! whole microseconds and a fraction over the count, with the count and period it was charged under. The debt is
//! counted in units, so a change of the count or burst keeps all of it, also where it exceeds the new burst: it is paid
//! back at its old rate until the next charge converts it, rounding up to whole units. The state also has the time of
//! the latest charge, because `tat` alone cannot distinguish a clock that was set back from a larger debt.
//!
//! A debt is at most two bursts at the rate it was charged under. The clock rule does not depend on it: a clock set back
//! adds to a wait the time until the latest charge, which is at most one refill of the limit that decides.

use super::{Algorithm, LimitOutcome, LimitSettlement};
use crate::options::{AlgorithmOptions, LimitError, LimitField, MAX_TIME, Options, check_numbers};
use crate::units::{EXACT, Micros, Timestamp, Wait, muldiv, muldiv_add};
use crate::words::{Reader, Words, Writer};

const EXAMPLE: &str = "10/s gcra burst=20";
/// The longest time in microseconds that a debt takes to be paid back: two bursts.
const MAX_DEBT: u64 = 2 * MAX_TIME.get();

/// A limit of `count` units per `period`, with room for `burst`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gcra {
    count: u64,
    period: Micros,
    burst: u64,
    /// The time in which one unit is paid back.
    interval: Span,
    /// The time in which a full burst is paid back.
    tolerance: Span,
    /// The time in which all units of a burst but one are paid back.
    all_but_one: Span,
    /// The number of bits that a fraction takes in a packed state.
    fraction_bits: u32,
}

/// A length of time as microseconds and a fraction over a count. Spans can be compared only if they have the same
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    whole: u64,
    fraction: u64,
}

impl Span {
    #[inline(always)]
    fn of(units: u64, period: Micros, count: u64) -> Self {
        let (whole, fraction) = muldiv(units, period.get(), count);
        Self { whole, fraction }
    }

    #[inline(always)]
    fn plus(self, other: Self, count: u64) -> Self {
        let fraction = self.fraction + other.fraction;
        let carry = u64::from(fraction >= count);
        Self { whole: self.whole + other.whole + carry, fraction: fraction - carry * count }
    }

    /// Returns the difference; `other` must not be longer.
    #[inline(always)]
    fn minus(self, other: Self, count: u64) -> Self {
        let borrow = u64::from(self.fraction < other.fraction);
        Self { whole: self.whole - other.whole - borrow, fraction: self.fraction + borrow * count - other.fraction }
    }

    /// Returns whole microseconds, rounded up.
    #[inline(always)]
    fn up(self) -> u64 {
        self.whole + u64::from(self.fraction > 0)
    }
}

/// The time at which everything is paid back, and the numbers it was charged under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    tat: Timestamp,
    /// The time of the latest charge; time does not go back behind it.
    seen: Timestamp,
    fraction: u64,
    /// Zero if the key was never charged.
    count: u64,
    period: Micros,
}

impl Words for State {
    fn write(&self, to: &mut Writer) {
        let words = [self.tat.get(), self.seen.get(), self.fraction, self.count, self.period.get()];
        words.into_iter().for_each(|word| to.put(word));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (tat, seen) = (from.at_most(2 * EXACT)?, from.moment()?);
        let (fraction, count, period) = (from.take()?, from.at_most(EXACT)?, from.at_most(EXACT)?);
        let state = Self { tat: Timestamp::from_word(tat), seen, fraction, count, period: Micros::new(period) };
        let bounded = tat >= seen.get() && tat - seen.get() <= MAX_DEBT;
        let owes = count > 0 && period > 0 && fraction < count && bounded;
        (owes || state == Self::default()).then_some(state)
    }

    fn latest(&self) -> Timestamp {
        self.seen
    }
}

impl State {
    /// Returns the debt at `t`, as a span over the state's own count.
    #[inline(always)]
    fn debt(&self, t: Timestamp) -> Span {
        let t = t.max(self.seen);
        if self.tat < t {
            return Span::default();
        }
        Span { whole: self.tat.since(t).get(), fraction: self.fraction }
    }

    /// Returns how long the clock must run from `t` to reach the latest charge.
    #[inline(always)]
    fn ahead(&self, t: Timestamp) -> u64 {
        self.seen.since(t).get()
    }

    /// Returns a debt in whole units, rounded up.
    #[inline(always)]
    fn units_owed(&self, debt: Span) -> u64 {
        if debt == Span::default() {
            return 0;
        }
        let (units, rest) = muldiv_add(debt.whole, self.count, debt.fraction, self.period.get());
        units + u64::from(rest > 0)
    }

    /// Returns the time in which `units` are paid back at the state's own rate.
    #[inline(always)]
    fn span_of(&self, rule: &Gcra, units: u64) -> Span {
        if !self.same_rate(rule) {
            return Span::of(units, self.period, self.count);
        }
        // The usual spans are precomputed, because a division costs as much as everything else here.
        match rule.burst.wrapping_sub(units) {
            0 => rule.tolerance,
            1 => rule.all_but_one,
            _ => Span::of(units, rule.period, rule.count),
        }
    }

    #[inline(always)]
    fn same_rate(&self, rule: &Gcra) -> bool {
        self.count == rule.count && self.period == rule.period
    }
}

impl Gcra {
    #[inline(always)]
    fn pack_owed(&self, owed: Span) -> u64 {
        owed.whole << self.fraction_bits | owed.fraction
    }

    #[inline(always)]
    fn unpack_owed(&self, owed: u64) -> Span {
        Span { whole: owed >> self.fraction_bits, fraction: owed & ((1 << self.fraction_bits) - 1) }
    }

    #[inline(always)]
    fn owing(&self, t: Timestamp, debt: Span) -> State {
        let tat = t.plus(Micros::new(debt.whole));
        State { tat, seen: t, fraction: debt.fraction, count: self.count, period: self.period }
    }
}

impl Algorithm for Gcra {
    const NAME: &'static str = "gcra";
    const LUA: &'static str = include_str!("gcra.lua");
    const PACKS: bool = true;
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, burst: true, ..AlgorithmOptions::NONE };
    type State = State;
    type Log = ();

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, EXAMPLE)?;
        if count == 0 {
            return Err(LimitError::new(LimitField::Count, "a count of at least 1 for gcra", EXAMPLE));
        }
        let burst = options.burst.unwrap_or(count);
        let wrong = |expected| LimitError::new(LimitField::Option("burst"), expected, EXAMPLE);
        if burst == 0 || burst > EXACT {
            return Err(wrong("a burst from 1 to 2^53"));
        }
        let tolerance = Span::of(burst, period, count);
        if tolerance.up() > MAX_TIME.get() {
            return Err(wrong("a burst that refills within 3660 days (burst * period / count)"));
        }
        let interval = Span::of(1, period, count);
        let all_but_one = tolerance.minus(interval, count);
        let fraction_bits = u64::BITS - (count - 1).leading_zeros();
        Ok(Self { count, period, burst, interval, tolerance, all_but_one, fraction_bits })
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        let burst = (self.burst != self.count).then_some(self.burst);
        (self.count, self.period, Options { burst, ..Options::default() })
    }

    /// If the clock was set back by more than a refill, the same debt is owed from `t` on.
    #[inline(always)]
    fn correct(&self, state: &mut State, _log: &(), t: Timestamp) {
        if state.seen > t.plus(Micros::new(self.tolerance.up())) {
            let owed = state.tat.since(state.seen);
            *state = State { tat: t.plus(owed), seen: t, ..*state };
        }
    }

    /// The debt at the time of the look.
    type Look = Span;

    #[inline(always)]
    fn look(&self, state: &State, _log: &(), t: Timestamp) -> Span {
        state.debt(t)
    }

    #[inline(always)]
    fn room(&self, state: &State, debt: &Span) -> i64 {
        super::room_below(self.burst, state.units_owed(*debt))
    }

    #[inline(always)]
    fn fits(&self, state: &State, debt: &Span, units: u64) -> bool {
        let owes_nothing = *debt == Span::default();
        units <= self.burst && (owes_nothing || *debt <= state.span_of(self, self.burst - units))
    }

    #[inline(always)]
    fn wait(&self, state: &State, _log: &(), debt: &Span, t: Timestamp, units: u64) -> Wait {
        if units > self.burst {
            return Wait::Never;
        }
        if *debt == Span::default() {
            return Wait::NONE;
        }
        let may_owe = state.span_of(self, self.burst - units);
        if *debt <= may_owe {
            return Wait::NONE;
        }
        // Waits are rounded up: a fraction of a microsecond costs a whole one.
        Wait::us(state.ahead(t) + debt.whole - may_owe.whole + u64::from(debt.fraction > may_owe.fraction))
    }

    #[inline(always)]
    fn reset_after(&self, state: &State, _log: &(), debt: &Span, t: Timestamp) -> Micros {
        if *debt == Span::default() {
            return Micros::ZERO;
        }
        Micros::new(state.ahead(t) + debt.up())
    }

    #[inline(always)]
    fn charge(&self, state: &mut State, _log: &mut (), debt: &Span, t: Timestamp, units: u64) -> u64 {
        let more = |units| if units == 1 { self.interval } else { Span::of(units, self.period, self.count) };
        // A key without debt starts again at the home's clock.
        let t = if *debt == Span::default() { t } else { t.max(state.seen) };
        let plain = *debt == Span::default() || (state.same_rate(self) && *debt <= self.tolerance);
        if plain && units <= self.burst {
            *state = self.owing(t, debt.plus(more(units), self.count));
            return units;
        }
        // More than the limit, or a debt under another rate, is counted in whole units.
        let owed = state.units_owed(*debt);
        let recorded = units.min((2 * self.burst).saturating_sub(owed));
        if recorded == 0 {
            // Two bursts or more are owed. Converting them to a slower rate could take longer than any debt may.
            return 0;
        }
        let debt = if state.same_rate(self) { debt.plus(more(recorded), self.count) } else { more(owed + recorded) };
        *state = self.owing(t, debt);
        recorded
    }

    fn refund(&self, state: &mut State, _log: &mut (), t: Timestamp, units: u64, at: Timestamp) -> u64 {
        let debt = state.debt(t);
        if debt == Span::default() {
            return 0;
        }
        let t = t.max(state.seen);
        // The time since the charge has already paid back some of it. No charge was larger than the largest debt.
        let most = muldiv(MAX_DEBT, state.count, state.period.get()).0.saturating_add(1);
        let charged = Span::of(units.min(most), state.period, state.count);
        let since = t.since(at).get();
        if charged.whole < since {
            return 0;
        }
        let given = Span { whole: charged.whole - since, ..charged }.min(debt);
        let units = muldiv_add(given.whole, state.count, given.fraction, state.period.get()).0;
        let debt = debt.minus(given, state.count);
        *state = State { tat: t.plus(Micros::new(debt.whole)), fraction: debt.fraction, ..*state };
        units
    }

    fn held(&self, state: &State, _log: &(), t: Timestamp) -> f64 {
        let debt = state.debt(t);
        if debt == Span::default() {
            return 0.0;
        }
        (debt.whole as f64 * state.count as f64 + debt.fraction as f64) / state.period.get() as f64
    }

    fn most_in(&self, span: Micros) -> u64 {
        if span == Micros::ZERO {
            return 0;
        }
        self.burst.saturating_add(muldiv(self.count, span.get() - 1, self.period.get()).0)
    }

    fn promise(&self) -> Vec<String> {
        let most = self.burst.saturating_add(self.count);
        let back = if self.interval.whole == 0 {
            format!("{} units come back every {}", self.count, self.period)
        } else {
            let about = if self.interval.fraction > 0 { "about " } else { "" };
            format!("one unit comes back every {about}{}", Micros::new(self.interval.whole))
        };
        vec![
            format!(
                "At most {most} in every interval of {}: the burst of {}, and {} more.",
                self.period, self.burst, self.count
            ),
            format!("A burst may take {} at once; then {back}.", self.burst),
            "There is no window edge, so nothing happens at one.".to_owned(),
        ]
    }

    /// Returns whether two bursts fit into a word. A debt is larger only if a larger limit left it behind.
    fn packs(&self) -> bool {
        let twice = self.tolerance.plus(self.tolerance, self.count);
        (twice.whole + 1).leading_zeros() >= self.fraction_bits
    }

    /// Returns the time of the latest charge, and the debt at that time with its whole microseconds above the fraction.
    #[inline(always)]
    fn pack(&self, state: &State) -> Option<[u64; 2]> {
        let owed = state.tat.since(state.seen).get();
        if owed.leading_zeros() < self.fraction_bits || !state.same_rate(self) {
            return (*state == State::default()).then_some([0, 0]);
        }
        Some([state.seen.get(), self.pack_owed(Span { whole: owed, fraction: state.fraction })])
    }

    #[inline(always)]
    fn step_one(&self, [seen, owed]: [u64; 2], t: Timestamp) -> Option<(LimitOutcome, [u64; 2])> {
        let since = t.get().checked_sub(seen)?;
        let owed = self.unpack_owed(owed);
        let debt = if owed.whole < since { Span::default() } else { Span { whole: owed.whole - since, ..owed } };
        let wait = |debt: Span| {
            let over = debt.whole.saturating_sub(self.all_but_one.whole);
            Wait::us(if debt > self.all_but_one {
                over + u64::from(debt.fraction > self.all_but_one.fraction)
            } else {
                0
            })
        };
        if debt > self.all_but_one {
            let settled =
                LimitSettlement { recorded: 0, remaining: 0, wait: wait(debt), reset_after: Micros::new(debt.up()) };
            return Some((LimitOutcome { fits: false, granted: 0, settled }, [seen, self.pack_owed(owed)]));
        }
        let debt = debt.plus(self.interval, self.count);
        let (units, rest) = muldiv_add(debt.whole, self.count, debt.fraction, self.period.get());
        let remaining = super::room_below(self.burst, units + u64::from(rest > 0));
        let settled = LimitSettlement { recorded: 1, remaining, wait: wait(debt), reset_after: Micros::new(debt.up()) };
        Some((LimitOutcome { fits: true, granted: 1, settled }, [t.get(), self.pack_owed(debt)]))
    }

    #[inline(always)]
    fn unpack(&self, [seen, owed]: [u64; 2]) -> State {
        // A key that was never seen owes nothing since the epoch.
        let (owed, seen) = (self.unpack_owed(owed), Timestamp::from_word(seen));
        let tat = seen.plus(Micros::new(owed.whole));
        State { tat, seen, fraction: owed.fraction, count: self.count, period: self.period }
    }
}
