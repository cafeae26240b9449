//! Servers whose machine loses its power: they are killed, and start again on what their disk has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::crowd::Ledger;
use super::history::HistoryFigures;
use super::rounds::{SNAPSHOTS, judge_panic};
use super::shim::Shim;
use super::{Sizes, words};
use crate::serving::{Folder, ServerProcess};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// How often a server syncs that does it every second.
const EVERY: Duration = Duration::from_secs(1);
/// What a sync may take.
const SYNC: Duration = Duration::from_millis(100);
const BEAT: Duration = Duration::from_millis(5);
/// The least time between a start and a loss.
const MIN: u64 = 50;
/// How much longer than between kills it lasts where a second may be lost.
const LONGER: u64 = 1_500;

/// Loses the power as often as the sizes say.
pub(super) fn lose(report: &mut Report, sizes: &Sizes, fsync: &str) -> Result<(), Failure> {
    let folder = Folder::new("power")?;
    let shim = Shim::build(folder.path())?;
    let is_always = fsync == "always";
    let mut rng = Rng::of_part(sizes.seed, if is_always { 2 } else { 3 });
    let mut ledger = Ledger::new(sizes.seed ^ 0xff, sizes.connections);
    let (mut told, mut lost, mut late, mut slowest) = (HistoryFigures::default(), Duration::ZERO, 0, 0);
    let mut dir = Folder::new("power-data")?;
    for number in 1..=sizes.losses {
        let name = format!("loss of power {number}, {fsync}");
        let disk = shim.watch(dir.path())?;
        let mut server = ServerProcess::start(&words(dir.path(), fsync, SNAPSHOTS), &shim.set(dir.path()))?;
        let lasts = MIN + rng.below(sizes.longest) + if is_always { 0 } else { rng.below(LONGER) };
        let (round, stalled) = beside(|| ledger.load(&mut server, Duration::from_millis(lasts)))?;
        judge_panic(report, &name, &server);
        let to = Folder::new("power-data")?;
        // Half of the times nothing is there of what was not synced, else some.
        let part = rng.next_u64();
        let mut some = part.is_multiple_of(2).then(|| Rng::of_part(sizes.seed, part));
        let disk = shim.lose(disk, dir.path(), to.path(), some.as_mut())?;
        dir = to;
        let server = ServerProcess::start(&words(dir.path(), fsync, SNAPSHOTS), &[])?;
        let slow = Duration::from_micros(disk.longest_sync);
        slowest = slowest.max(disk.longest_sync);
        let until = match is_always {
            true => None,
            // A second and a sync, which is given what the machine did not let it have.
            false => round.killed.checked_sub(EVERY + SYNC.max(slow + stalled)),
        };
        let found = ledger.judge(report, &name, &round, server.resp, until)?;
        judge_panic(report, &name, &server);
        if let Some(oldest) = found.oldest {
            let ago = round.killed.saturating_duration_since(oldest);
            lost = lost.max(ago);
            late += u64::from(ago > EVERY + SYNC);
        }
        told.add(found);
        drop(server);
    }
    let forgiven = if late > 0 { format!(" ({late} beyond 1.1 s, by the machine's lateness)") } else { String::new() };
    report.say(format!(
        "{} losses of power, fsync {fsync}: {} acts answered, {} not; {} forgotten that were answered, the first of \
         them {lost:.0?} before{forgiven}; the longest sync of a journal took {} ms",
        sizes.losses,
        told.answered,
        told.unanswered,
        told.forgotten,
        slowest.div_ceil(1_000)
    ));
    Ok(())
}

/// Does something while a thread sleeps and wakes; answers how late it was woken at most. What keeps it from
/// running keeps a server's thread too.
fn beside<T>(doing: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Duration), Failure> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beating = scope.spawn(|| {
            let mut late = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                std::thread::sleep(BEAT);
                late = late.max(start.elapsed().saturating_sub(BEAT));
            }
            late
        });
        let done = doing();
        stop.store(true, Ordering::Relaxed);
        let late = beating.join().map_err(|_| Failure("a thread that only sleeps panicked".to_owned()))?;
        Ok((done?, late))
    })
}
