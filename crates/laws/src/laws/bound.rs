//! In every interval, what was granted and not given back is at most what each limit promises.

use crate::case::Case;
use crate::walk::{Verdict, Watch, World, walk};
use tollgate_core::Micros;

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut Bound)
}

struct Bound;

impl Watch for Bound {
    fn end(&mut self, world: &World) -> Verdict {
        for limit in world.policy.limits() {
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
