//! What came of the traffic: no call too late, no key admitted too much.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::keys::{COUNT, Keys};
use super::traffic::CallerFigures;
use crate::Report;
use crate::lateness::LatenessMonitor;

pub(super) fn calls(report: &mut Report, seen: &CallerFigures, lateness: &LatenessMonitor) {
    let timing = &seen.timing;
    timing.judge(report, "cluster", lateness);
    report.demand(seen.hung == 0, || format!("{} calls hung", seen.hung));
    report.demand(seen.errors.is_empty(), || {
        format!("{} calls ended in an error, for example {:?}", seen.errors.len(), seen.errors.first())
    });
    report.say(format!(
        "{} calls, {} by the server, {} by others, p99 {:.1?}, the longest {:.1?} ({} over the deadline and 5 ms, \
         before the machine's lateness of up to {:.1?})",
        timing.calls(),
        seen.home,
        seen.elsewhere,
        timing.within(9_900),
        timing.longest(),
        timing.slow(),
        lateness.longest(),
    ));
}

/// The bound for F failovers: (F+1)*B + r*t by the server, and one share of it by this process.
pub(super) fn keys(report: &mut Report, keys: &Keys, lasted: Duration) {
    let read = |counter: &AtomicU32| u64::from(counter.load(Ordering::Relaxed));
    let refilled = COUNT * lasted.as_secs().div_ceil(3_600).saturating_sub(1) + COUNT * lasted.as_secs() / 3_600;
    let (mut full, mut extra, mut most_deaths) = (0, 0, 0);
    for key in &keys.all {
        let [offered, home, local, deaths] = [read(&key.offered), read(&key.home), read(&key.local), read(&key.deaths)];
        let may = (deaths + 1) * COUNT + refilled;
        let name = || String::from_utf8_lossy(&key.bytes).into_owned();
        report.demand(home <= may, || format!("{:?}: {home} admitted, {may} with {deaths} deaths", name()));
        report.demand(local <= COUNT + refilled, || format!("{:?}: {local} admitted by this process", name()));
        full += u64::from(offered > home + local);
        extra += home.saturating_sub(COUNT + refilled);
        most_deaths = most_deaths.max(deaths);
    }
    report.say(format!(
        "{} keys, {full} of them refused something; {extra} units admitted again after up to {most_deaths} deaths \
         of a primary",
        keys.all.len()
    ));
}
