//! A slow limiter, written from the definitions: all charges in a list, counted anew each time.
//!
//! It shares no code and no representation with the kernel. Times are plain integers, and `i128`
//! stands in for fractions. Only for tiny numbers.

use tollgate_kernel::{Alignment, Limit, Options};

/// One charge.
#[derive(Clone, Copy, Debug)]
struct Charge {
    t: i128,
    units: i128,
}

#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    kind: &'static str,
    count: i128,
    window: i128,
    options: Options,
    spacing: i128,
    last: Option<i128>,
    charges: Vec<Charge>,
    /// gcra: what is owed in units times microseconds, when, and the count it is paid back by.
    owed: (i128, i128, i128),
    /// rolling: entries on the grid in microseconds times buckets, with their units.
    grid: Vec<Charge>,
    /// decay: slot and level.
    level: (i128, f64),
}

impl Oracle {
    pub(crate) fn new(limit: &Limit) -> Self {
        let mut oracle = Self {
            kind: limit.rule().name(),
            count: 0,
            window: 1,
            options: Options::default(),
            spacing: 0,
            last: None,
            charges: Vec::new(),
            owed: (0, 0, 1),
            grid: Vec::new(),
            level: (0, 0.0),
        };
        oracle.change(limit);
        oracle
    }

    /// Takes the numbers of the limit as it is now.
    pub(crate) fn change(&mut self, limit: &Limit) {
        let (count, period, options) = limit.rule().numbers();
        self.count = count.into();
        self.window = period.get().into();
        self.options = options;
        self.spacing = limit.spacing().map_or(0, |spacing| spacing.get().into());
    }

    fn burst(&self) -> i128 {
        self.options.burst.map_or(self.count, i128::from)
    }

    pub(crate) fn ready(&self, t: u64) -> bool {
        self.last.is_none_or(|last| i128::from(t) - last >= self.spacing)
    }

    pub(crate) fn room(&self, t: u64) -> i64 {
        let t = i128::from(t);
        let room = match self.kind {
            "sliding" | "slots" | "rolling" => self.count - self.used(t),
            "fixed" => self.count - self.used(t),
            "bucket" => {
                let (start, used) = self.open_window(t).unwrap_or((t, 0));
                self.burst() + (self.count - self.burst()) * (t - start) / self.window - used
            }
            "estimate" => {
                let (previous, current) = self.two_windows(t);
                let overlap = self.window - t % self.window;
                // The most n with previous * overlap + (current + n) * window <= count * window.
                ((self.count - current) * self.window - previous * overlap).div_euclid(self.window)
            }
            "gcra" => (self.burst() * self.window - self.owes(t)).div_euclid(self.window),
            "decay" => {
                let level = self.level_at(t);
                let mut room = (self.count as f64 - level).floor() as i128;
                while level + (room + 1) as f64 <= self.count as f64 {
                    room += 1;
                }
                while level + room as f64 > self.count as f64 {
                    room -= 1;
                }
                room
            }
            other => unreachable!("the oracle does not know {other}"),
        };
        room as i64
    }

    pub(crate) fn remaining(&self, t: u64) -> i64 {
        if self.kind == "bucket" {
            return (self.count - self.open_window(t.into()).map_or(0, |(_, used)| used)) as i64;
        }
        self.room(t)
    }

    /// Records a charge; answers how many units were recorded.
    pub(crate) fn charge(&mut self, t: u64, units: u64) -> u64 {
        let (t, units) = (i128::from(t), i128::from(units));
        self.last = Some(t);
        let recorded = match self.kind {
            // Refused attempts that would cost memory without bound are kept up to twice the limit.
            "sliding" => units.min((2 * self.count - self.used(t)).max(0)),
            "gcra" => units.min((2 * self.burst() - self.units_owed(t)).max(0)),
            _ => units,
        };
        match self.kind {
            "gcra" if recorded == 0 => {}
            "gcra" => {
                let same_rate = self.owed.2 == self.count;
                let owes = if same_rate { self.owes(t) } else { self.units_owed(t) * self.window };
                self.owed = (owes + recorded * self.window, t, self.count);
            }
            "rolling" => self.add_to_grid(t, recorded),
            "decay" => self.level = (t / self.window, self.level_at(t) + recorded as f64),
            _ if recorded > 0 => self.charges.push(Charge { t, units: recorded }),
            _ => {}
        }
        recorded as u64
    }

    fn sum(&self, holds: impl Fn(i128) -> bool) -> i128 {
        self.charges.iter().filter(|charge| holds(charge.t)).map(|charge| charge.units).sum()
    }

    fn used(&self, t: i128) -> i128 {
        match self.kind {
            "sliding" => {
                let grain = self.options.grain.map_or(1, |grain| i128::from(grain.get()));
                self.sum(|e| (e / grain + 1) * grain - 1 + self.window > t)
            }
            "slots" => {
                let resolution = self.options.resolution.map_or(1, |resolution| i128::from(resolution.get()));
                self.sum(|e| e / resolution > (t - self.window).div_euclid(resolution))
            }
            "fixed" if self.options.align == Some(Alignment::Clock) => self.sum(|e| e / self.window == t / self.window),
            "fixed" => self.open_window(t).map_or(0, |(_, used)| used),
            _ => {
                let (buckets, half) = self.buckets();
                let live = |time: i128| time > (t - (self.window + half)) * buckets;
                self.grid.iter().filter(|entry| live(entry.t)).map(|entry| entry.units).sum()
            }
        }
    }

    /// The window that the first charge after the last window opened, if `t` is in it.
    fn open_window(&self, t: i128) -> Option<(i128, i128)> {
        let mut open: Option<(i128, i128)> = None;
        for charge in &self.charges {
            match &mut open {
                Some((start, used)) if charge.t < *start + self.window => *used += charge.units,
                _ => open = Some((charge.t, charge.units)),
            }
        }
        open.filter(|(start, _)| t < start + self.window)
    }

    fn two_windows(&self, t: i128) -> (i128, i128) {
        let now = t / self.window;
        (self.sum(|e| e / self.window == now - 1), self.sum(|e| e / self.window == now))
    }

    /// Units times microseconds still owed.
    fn owes(&self, t: i128) -> i128 {
        let (owed, since, count) = self.owed;
        (owed - count * (t - since)).max(0)
    }

    fn units_owed(&self, t: i128) -> i128 {
        (self.owes(t) + self.window - 1).div_euclid(self.window)
    }

    fn buckets(&self) -> (i128, i128) {
        let buckets = self.options.buckets.map_or(10_000, i128::from);
        (buckets, self.window / buckets / 2)
    }

    fn add_to_grid(&mut self, t: i128, units: i128) {
        let (buckets, half) = self.buckets();
        let (step, now) = (self.window, t * buckets);
        self.grid.retain(|entry| entry.t > (t - (self.window + half)) * buckets);
        match self.grid.last_mut() {
            Some(last) if last.t + step >= now => last.units += units,
            Some(last) => {
                let time = last.t + (now - last.t) / step * step;
                self.grid.push(Charge { t: time, units });
            }
            None => self.grid.push(Charge { t: now, units }),
        }
    }

    fn level_at(&self, t: i128) -> f64 {
        let factor = self.options.factor.unwrap_or(2.0);
        let slots = (t / self.window - self.level.0).max(0);
        // Powers by squaring, least significant bit first: the sequence that `decay` fixes.
        let mut divisor = 1.0;
        let mut square = factor;
        for bit in 0..64 {
            if slots >> bit & 1 == 1 {
                divisor *= square;
            }
            square *= square;
        }
        let level = self.level.1 / divisor;
        if level < 1.0 / 9_007_199_254_740_992.0 { 0.0 } else { level }
    }
}
