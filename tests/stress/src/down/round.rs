//! One outage from beginning to end, and what came of it.

use std::time::{Duration, Instant};

use tollgate_conformance::intervals::excess;
use tollgate_kernel::{Micros, OnError, Policy, Request, Source, Store};
use tollgate_redis::Redis;

use super::callers::{CallerFigures, Callers, DEADLINE, SHARE, SHARED, policy};
use super::outage::{Outage, ProxiedServer};
use super::watch::UsageMonitor;
use crate::lateness::LatenessMonitor;
use crate::timing::{Timing, is_judged};
use crate::{Failure, Report};

/// Within which the server decides again after it answers.
const SOON: Duration = Duration::from_secs(1);
/// After which nobody waits for it any more.
const NEVER: Duration = Duration::from_secs(10);
/// The most memory that an outage may take, in kilobytes.
const MAX_MEMORY: u64 = 16 * 1024;
/// The most connections of a store to one server at once: one that is given up, and one that is opened.
const MAX_CONNECTIONS: usize = 2;
/// How long callers ask before the outage begins.
const BEFORE: Duration = Duration::from_millis(200);

pub(super) async fn run(report: &mut Report, outage: Outage, lasts: Duration, callers: u64) -> Result<(), Failure> {
    let mut proxied = ProxiedServer::start()?;
    let store = Redis::builder(&proxied.proxy.url()).deadline(DEADLINE).share(SHARE).lazy()?;
    back(&store).await?;
    let (lateness, watch, before) =
        (LatenessMonitor::start(), UsageMonitor::start(proxied.proxy.addr().port()), store.stats());
    let asked = Instant::now();
    let traffic = Callers::start(&store, callers, asked + BEFORE)?;
    tokio::time::sleep(BEFORE).await;
    let began = Instant::now();
    tokio::task::block_in_place(|| outage.begin(&mut proxied))?;
    tokio::time::sleep(lasts).await;
    let opened = store.stats().connections - before.connections;
    let seen = traffic.end().await?;
    let ((memory, connections), lasted, traffic_lasted) = (watch.most(), began.elapsed(), asked.elapsed());
    tokio::task::block_in_place(|| outage.end(&mut proxied))?;
    let (returned, took) = (Instant::now(), back(&store).await?);
    let late = lateness.within(returned, returned + took);
    let mut all = Timing::new(DEADLINE);
    seen.iter().for_each(|seen| all.absorb(&seen.timing));
    seen.iter().for_each(|seen| judge_policy(report, outage, seen, lasted));
    // A machine that stalls is late for the deadline before the outage too.
    judge_local(report, outage, &seen, (lasted, traffic_lasted))?;
    all.judge(report, &format!("{outage:?}"), &lateness);
    report
        .demand(took <= SOON + late || !is_judged(), || format!("{outage:?}: back on the server only after {took:?}"));
    report.demand(memory <= MAX_MEMORY, || format!("{outage:?}: {memory} KB more memory"));
    report.demand(connections <= MAX_CONNECTIONS, || format!("{outage:?}: {connections} connections at once"));
    // Five a second, and the one that is replaced at once.
    let most = lasted.as_secs() * 5 + 7;
    report.demand(opened <= most, || format!("{outage:?}: {opened} connections tried in {lasted:?}, at most {most}"));
    tell(report, outage, &seen, &all, &lateness);
    report.say(format!(
        "  back on the server after {took:.0?}; {opened} connections opened or tried, {connections} at once, \
         {memory} KB more memory"
    ));
    Ok(())
}

/// Waits until the server decides for every policy; answers how long that took.
async fn back(store: &Redis) -> Result<Duration, Failure> {
    let start = Instant::now();
    for on_error in OnError::ALL {
        let policy = policy(on_error)?;
        while store.check(&policy, b"hot", Request::ONE).await?.source != Source::Home {
            if start.elapsed() > NEVER {
                return Err(Failure(format!("the server does not decide any more: {:?}", store.stats())));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(start.elapsed())
}

fn judge_policy(report: &mut Report, outage: Outage, seen: &CallerFigures, lasted: Duration) {
    let name = format!("{outage:?}, {}", seen.on_error.name());
    report.demand(seen.errors == 0, || format!("{name}: {} errors", seen.errors));
    report.demand(seen.hung == 0, || format!("{name}: {} calls hung", seen.hung));
    report.demand(seen.mislabelled == 0, || format!("{name}: {} decisions with a wrong source", seen.mislabelled));
    report.demand(seen.allowed + seen.refused > lasted.as_secs() * 100, || format!("{name}: hardly a call was made"));
    match seen.on_error {
        OnError::Deny => report.demand(seen.allowed == 0, || format!("{name}: {} admitted", seen.allowed)),
        OnError::Allow => report.demand(seen.refused == 0, || format!("{name}: {} refused", seen.refused)),
        OnError::Local => {}
    }
}

/// The share is a limit as any other, in every interval.
fn judge_local(
    report: &mut Report,
    outage: Outage,
    seen: &[CallerFigures],
    (lasted, traffic_lasted): (Duration, Duration),
) -> Result<(), Failure> {
    let share: Policy = SHARED.parse()?;
    let mut events: Vec<_> = seen.iter().flat_map(|seen| seen.local.iter().copied()).collect();
    events.sort_by_key(|event| event.at);
    if let Some(excess) = excess(share.limits(), &events) {
        report.violated(format!("{outage:?}, local: {excess}"));
    }
    let most_in = |span: Duration| share.limits().first().map_or(0, |limit| limit.rule().most_in(Micros::from(span)));
    let (least, most) = (most_in(lasted), most_in(traffic_lasted));
    let granted: u64 = events.iter().map(|event| event.units).sum();
    report.demand(granted <= most, || {
        format!("{outage:?}, local: {granted} granted in {traffic_lasted:?}, at most {most}")
    });
    // The server decides before the outage, and a machine that stalls asks less often.
    report.demand(granted * 100 >= least * 95 || !is_judged(), || {
        format!("{outage:?}, local: only {granted} granted of {least}")
    });
    Ok(())
}

fn tell(report: &mut Report, outage: Outage, seen: &[CallerFigures], all: &Timing, lateness: &LatenessMonitor) {
    let mut later = Timing::new(DEADLINE);
    seen.iter().for_each(|seen| later.absorb(&seen.later));
    let one = |seen: &CallerFigures| {
        format!("{} {} allowed {} refused {} home", seen.on_error.name(), seen.allowed, seen.refused, seen.home)
    };
    report.say(format!(
        "{outage:?}: {} calls, the longest {:.1?} ({} over the deadline and 5 ms, before the machine's lateness of \
         up to {:.1?}); after half a second p50 {:.1?}, p99 {:.1?}; {}",
        all.calls(),
        all.longest(),
        all.slow(),
        lateness.longest(),
        later.within(5_000),
        later.within(9_900),
        seen.iter().map(one).collect::<Vec<_>>().join(", "),
    ));
}
