//! JSON Lines for measuring: about 20,000 requests a second.

use std::io::{self, Write};

use crate::dice::Dice;

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000_000;

/// How times are written.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// `1700000000.123456`.
    Seconds,
    /// `1700000000123456`.
    Micros,
}

/// Which key comes how often.
pub(crate) struct Keys {
    count: u64,
    /// For Zipf's law, the chance of each key and those before it.
    sums: Vec<f64>,
}

impl Keys {
    /// So many keys, evenly, or the one of rank r with a chance of 1/r.
    pub(crate) fn new(count: u64, even: bool) -> Self {
        let mut sum = 0.0;
        let ranks = if even { 0 } else { count };
        let sums = (1..=ranks).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { count, sums: sums.collect() }
    }

    fn pick(&self, dice: &mut Dice) -> u64 {
        let Some(all) = self.sums.last() else { return dice.below(self.count) };
        let point = (dice.bits() >> 11) as f64 / (1u64 << 53) as f64 * all;
        self.sums.partition_point(|sum| *sum < point).min(self.sums.len() - 1) as u64
    }
}

/// Writes `lines` lines.
pub(crate) fn write(out: &mut impl Write, lines: u64, keys: &Keys, unit: Unit) -> io::Result<()> {
    let mut dice = Dice::new(0x7011_6a7e);
    let mut at = START;
    for _ in 0..lines {
        at += dice.below(100) + 1;
        let key = keys.pick(&mut dice);
        match unit {
            Unit::Seconds => {
                writeln!(out, "{{\"t\":{}.{:06},\"key\":\"user:{key}\"}}", at / 1_000_000, at % 1_000_000)?;
            }
            Unit::Micros => writeln!(out, "{{\"t\":{at},\"key\":\"user:{key}\"}}")?,
        }
    }
    Ok(())
}
