//! In every interval, what was granted and not given back is at most what each limit promises.

use tollgate_kernel::{Alignment, Limit, Micros};

use crate::case::{Case, Op};
use crate::walk::{Grant, LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    let set_back = case.ops.iter().any(|op| matches!(op, Op::Back(_)));
    walk(case, &mut BoundObserver { set_back })
}

struct BoundObserver {
    set_back: bool,
}

impl BoundObserver {
    /// Where the clock opens windows, each admits at most the count.
    fn per_clock_window(&self, simulation: &Simulation, limit: &Limit) -> Verdict {
        let by_clock = limit.rule().name() == "estimate" || limit.rule().numbers().2.align == Some(Alignment::Clock);
        if self.set_back || !by_clock {
            return Ok(());
        }
        let window = |granted: &Grant| granted.at.get() / limit.period().get();
        for first in &simulation.granted {
            let same = simulation.granted.iter().filter(|other| window(other) == window(first));
            let sum: u64 = same.map(|granted| granted.units).sum();
            if sum > limit.count() {
                return Err(format!("{limit}: {sum} granted in one clock window"));
            }
        }
        Ok(())
    }
}

impl LawObserver for BoundObserver {
    fn end(&mut self, simulation: &Simulation) -> Verdict {
        for limit in simulation.policy.limits() {
            self.per_clock_window(simulation, limit)?;
            for (first, begin) in simulation.granted.iter().enumerate() {
                let mut sum = 0;
                for last in &simulation.granted[first..] {
                    sum += last.units;
                    let span = last.true_time - begin.true_time + 1;
                    let most = limit.rule().most_in(Micros::new(span));
                    if sum > most {
                        return Err(format!("{limit}: {sum} granted within {span}us, at most {most} promised"));
                    }
                }
            }
        }
        Ok(())
    }
}
