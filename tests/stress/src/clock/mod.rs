//! Clocks that jump: a server whose clock is set an hour back or forward, for every algorithm.
//!
//! A story is a course of whole seconds in which every policy is asked as much as it admits, with jumps in
//! it. Time passes by setting the server's clock, and by nothing else. *True* time is what passed without
//! the jumps. What is held, by true time: a jump back admits nothing extra; a jump forward admits one burst
//! extra at most; no jump adds more than one window or refill to a wait, and no wait that is told is longer
//! than that beyond the longest without jumps; what a refusal promises is kept until the next jump.
//!
//! | file | what it is |
//! |---|---|
//! | `story.rs` | the stories, and the policies in them |
//! | `play.rs` | a story on a real server |
//! | `judge.rs` | what it admitted against what it may |

mod judge;
mod play;
mod story;

use tollgate_redis::Packaging;

use crate::args::Args;
use crate::{Campaign, Failure, Report, machine};

pub(crate) const CAMPAIGN: Campaign = Campaign {
    name: "clock",
    options: &[("jumps", 200, "jumps of up to 5 s either way in the last story")],
    texts: &[],
    help: "a server whose clock jumps an hour back and forward, every algorithm",
    run,
};

fn run(args: &Args) -> Result<Report, Failure> {
    machine::watch_panics();
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for (name, packaging) in [("functions", Packaging::Function), ("scripts", Packaging::Script)] {
        for period in [60, 10] {
            let control = runtime.block_on(play::play(&story::control(period), packaging))?;
            for story in story::all(period, args.get("jumps"), args.get("seed")) {
                let played = runtime.block_on(play::play(&story, packaging))?;
                judge::judge(&mut report, name, &story, &played, &control);
            }
        }
    }
    machine::judge_panics(&mut report);
    Ok(report)
}
