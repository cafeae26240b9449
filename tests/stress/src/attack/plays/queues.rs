//! Connections that hold full MULTI queues and are idle: others must have room for long commands in time.

use std::io;
use std::time::{Duration, Instant};

use super::Sizes;
use crate::attack::caller::Caller;
use crate::attack::stage::Stage;
use crate::serving::{Reply, push};
use crate::{Failure, Report};

const CONNECTIONS: usize = 400;
/// Commands of a queue, and bytes of each: nearly what a queue may hold.
const COMMANDS: usize = 160;
const BYTES: usize = 1_500;
/// How often an honest caller tries.
const EVERY: Duration = Duration::from_millis(500);
/// Keys of the honest caller's one command, and bytes of each.
const KEYS: usize = 32;
const KEY: usize = 200;

pub(super) fn held(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let mut holding = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut caller = stage.attacker()?;
        // One that is turned away holds nothing.
        if fill(&mut caller).is_ok() {
            holding.push(caller);
        }
    }
    let started = Instant::now();
    loop {
        let said = match long_command(&stage) {
            Ok(Reply::Array(_)) => break,
            Ok(Reply::Error(error)) if error.starts_with("OOM") => error,
            Ok(reply) => return Err(Failure(format!("expected decisions of {KEYS} keys, found {reply:?}"))),
            Err(failure) => failure.0,
        };
        if started.elapsed() > sizes.patience {
            let held = holding.len();
            report.violated(format!(
                "{held} idle MULTI queues keep others from long commands for {:?}: an honest one is answered {said}",
                sizes.patience
            ));
            break;
        }
        std::thread::sleep(EVERY);
    }
    stage.judge_memory(report)
}

fn fill(caller: &mut Caller) -> io::Result<()> {
    caller.ask(&["MULTI"])?;
    let (mut bytes, value) = (Vec::new(), "x".repeat(BYTES));
    for _ in 0..COMMANDS {
        bytes.clear();
        push(&mut bytes, &["ECHO", &value]);
        caller.send(&bytes)?;
        if matches!(caller.reply()?, Reply::Error(_)) {
            break;
        }
    }
    Ok(())
}

/// One command of several kilobytes, of which the end comes a moment later, as networks deliver it.
fn long_command(stage: &Stage) -> Result<Reply, Failure> {
    let mut words = vec!["TG.CHECKALL".to_owned()];
    for number in 0..KEYS {
        if number > 0 {
            words.push("AND".to_owned());
        }
        words.extend([format!("honest:{number}:{}", "k".repeat(KEY)), "1000000/h gcra".to_owned()]);
    }
    let mut bytes = Vec::new();
    push(&mut bytes, &words);
    let mut caller = stage.honest()?;
    let (first, rest) = bytes.split_at(bytes.len() - 100);
    caller.send(first)?;
    std::thread::sleep(Duration::from_millis(50));
    // One that was refused is told why, and its connection ends.
    let _ = caller.send(rest);
    Ok(caller.reply()?)
}
