//! Servers that are killed again and again on one folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::crowd::Ledger;
use super::history::HistoryFigures;
use super::{Sizes, words};
use crate::serving::{Folder, Metrics, ServerProcess};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// The least time between a start and a kill.
const MIN: u64 = 30;
/// So that kills fall into snapshots too.
pub(super) const SNAPSHOTS: Option<&str> = Some("1s");

/// Kills a server as often as the sizes say.
pub(super) fn kill(report: &mut Report, sizes: &Sizes) -> Result<(), Failure> {
    let folder = Folder::new("kills")?;
    let data = folder.at("data");
    let mut rng = Rng::of_part(sizes.seed, 1);
    let mut ledger = Ledger::new(sizes.seed, sizes.connections);
    let mut server = start(&data)?;
    let (mut told, mut ready, mut within, mut replayed) = (HistoryFigures::default(), Vec::new(), 0, 0);
    for number in 1..=sizes.kills {
        let lasts = Duration::from_millis(MIN + rng.below(sizes.longest));
        let round = ledger.load(&mut server, lasts)?;
        let name = format!("kill {number}");
        judge_panic(report, &name, &server);
        within += u64::from(is_unfinished(&data)?);
        server = start(&data)?;
        ready.push(server.ready);
        replayed = replayed.max(frames(&server)?);
        told.add(ledger.judge(report, &name, &round, server.resp, None)?);
        judge_panic(report, &name, &server);
    }
    ready.sort_unstable();
    let middle = ready.get(ready.len() / 2).copied().unwrap_or_default();
    let longest = ready.last().copied().unwrap_or_default();
    report.say(format!(
        "{} kills -9 under {} connections, {within} while a snapshot was written: {} acts on keys of one connection \
         answered, {} not; {} forgotten; from start to ready {} ms, at most {} ms, with up to \
         {replayed} frames done again",
        sizes.kills,
        sizes.connections,
        told.answered,
        told.unanswered,
        told.forgotten,
        middle.as_millis(),
        longest.as_millis(),
    ));
    Ok(())
}

fn start(data: &Path) -> Result<ServerProcess, Failure> {
    ServerProcess::start(&words(data, "everysec", SNAPSHOTS), &[])
}

/// Whether a file was being written beside the others.
fn is_unfinished(data: &Path) -> Result<bool, Failure> {
    for file in fs::read_dir(data)? {
        if file?.file_name().to_string_lossy().ends_with(".new") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Frames that a start did again.
fn frames(server: &ServerProcess) -> Result<u64, Failure> {
    let http = server.http.ok_or_else(|| Failure("the server has no HTTP".to_owned()))?;
    Ok(Metrics::read(http)?.value("tollgate_journal_replayed_frames").unwrap_or(0.0) as u64)
}

/// A panic is a broken promise, even if nobody noticed.
pub(super) fn judge_panic(report: &mut Report, name: &str, server: &ServerProcess) {
    if let Some(panic) = server.panic() {
        report.violated(format!("{name}: {panic}"));
    }
}
