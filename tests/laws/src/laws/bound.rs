//! In every interval, what was granted and not given back is at most what each limit promises.

use tollgate_kernel::{Align, Limit, Micros};

use crate::case::{Case, Op};
use crate::walk::{Granted, Verdict, Watch, World, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    let set_back = case.ops.iter().any(|op| matches!(op, Op::Back(_)));
    walk(case, &mut Bound { set_back })
}

struct Bound {
    set_back: bool,
}

impl Bound {
    /// Where the clock opens windows, each admits at most the count.
    fn per_clock_window(&self, world: &World, limit: &Limit) -> Verdict {
        let by_clock = limit.rule().name() == "estimate" || limit.rule().numbers().2.align == Some(Align::Clock);
        if self.set_back || !by_clock {
            return Ok(());
        }
        let window = |granted: &Granted| granted.at.get() / limit.period().get();
        for first in &world.granted {
            let same = world.granted.iter().filter(|other| window(other) == window(first));
            let sum: u64 = same.map(|granted| granted.units).sum();
            if sum > limit.count() {
                return Err(format!("{limit}: {sum} granted in one clock window"));
            }
        }
        Ok(())
    }
}

impl Watch for Bound {
    fn end(&mut self, world: &World) -> Verdict {
        for limit in world.policy.limits() {
            self.per_clock_window(world, limit)?;
            for (first, begin) in world.granted.iter().enumerate() {
                let mut sum = 0;
                for last in &world.granted[first..] {
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
