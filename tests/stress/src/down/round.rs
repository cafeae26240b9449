//! One trouble from beginning to end, and what came of it.

use std::time::{Duration, Instant};

use tollgate_conformance::intervals::excess;
use tollgate_kernel::{Micros, OnError, Policy, Request, Source, Store};
use tollgate_redis::Redis;

use super::callers::{Callers, DEADLINE, SHARE, SHARED, Seen, policy};
use super::trouble::{Place, Trouble};
use super::watch::Watch;
use crate::pulse::Pulse;
use crate::timing::{Timing, is_judged};
use crate::{Failure, Report};

/// Within which the server decides again after it answers.
const SOON: Duration = Duration::from_secs(1);
/// After which nobody waits for it any more.
const NEVER: Duration = Duration::from_secs(10);
/// The most memory that a trouble may take, in kilobytes.
const MAX_MEMORY: u64 = 16 * 1024;
/// The most connections of a store to one server at once: one that is given up, and one that is opened.
const MAX_CONNECTIONS: usize = 2;
/// How long callers ask before the trouble begins.
const BEFORE: Duration = Duration::from_millis(200);

pub(super) async fn run(report: &mut Report, trouble: Trouble, lasts: Duration, callers: u64) -> Result<(), Failure> {
    let mut place = Place::start()?;
    let store = Redis::builder(&place.proxy.url()).deadline(DEADLINE).share(SHARE).lazy()?;
    back(&store).await?;
    let (pulse, watch, before) = (Pulse::start(), Watch::start(place.proxy.addr().port()), store.stats());
    let traffic = Callers::start(&store, callers, Instant::now() + BEFORE)?;
    tokio::time::sleep(BEFORE).await;
    let began = Instant::now();
    tokio::task::block_in_place(|| trouble.begin(&mut place))?;
    tokio::time::sleep(lasts).await;
    let opened = store.stats().connections - before.connections;
    let seen = traffic.end().await?;
    let ((memory, connections), lasted) = (watch.most(), began.elapsed());
    tokio::task::block_in_place(|| trouble.end(&mut place))?;
    let (returned, took) = (Instant::now(), back(&store).await?);
    let late = pulse.within(returned, returned + took);
    let mut all = Timing::new(DEADLINE);
    seen.iter().for_each(|seen| all.absorb(&seen.timing));
    seen.iter().for_each(|seen| judge_policy(report, trouble, seen, lasted));
    judge_local(report, trouble, &seen, lasted)?;
    all.judge(report, &format!("{trouble:?}"), &pulse);
    report
        .demand(took <= SOON + late || !is_judged(), || format!("{trouble:?}: back on the server only after {took:?}"));
    report.demand(memory <= MAX_MEMORY, || format!("{trouble:?}: {memory} KB more memory"));
    report.demand(connections <= MAX_CONNECTIONS, || format!("{trouble:?}: {connections} connections at once"));
    // Five a second, and the one that is replaced at once.
    let most = lasted.as_secs() * 5 + 7;
    report.demand(opened <= most, || format!("{trouble:?}: {opened} connections tried in {lasted:?}, at most {most}"));
    tell(report, trouble, &seen, &all, &pulse);
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

fn judge_policy(report: &mut Report, trouble: Trouble, seen: &Seen, lasted: Duration) {
    let name = format!("{trouble:?}, {}", seen.on_error.name());
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
fn judge_local(report: &mut Report, trouble: Trouble, seen: &[Seen], lasted: Duration) -> Result<(), Failure> {
    let share: Policy = SHARED.parse()?;
    let mut events: Vec<_> = seen.iter().flat_map(|seen| seen.local.iter().copied()).collect();
    events.sort_by_key(|event| event.at);
    if let Some(excess) = excess(share.limits(), &events) {
        report.violated(format!("{trouble:?}, local: {excess}"));
    }
    let most = share.limits().first().map_or(0, |limit| limit.rule().most_in(Micros::from(lasted)));
    let granted: u64 = events.iter().map(|event| event.units).sum();
    report.demand(granted <= most, || format!("{trouble:?}, local: {granted} granted in {lasted:?}, at most {most}"));
    // A machine that stalls asks less often.
    report.demand(granted * 100 >= most * 95 || !is_judged(), || {
        format!("{trouble:?}, local: only {granted} granted of {most}")
    });
    Ok(())
}

fn tell(report: &mut Report, trouble: Trouble, seen: &[Seen], all: &Timing, pulse: &Pulse) {
    let mut later = Timing::new(DEADLINE);
    seen.iter().for_each(|seen| later.absorb(&seen.later));
    let one = |seen: &Seen| {
        format!("{} {} allowed {} refused {} home", seen.on_error.name(), seen.allowed, seen.refused, seen.home)
    };
    report.say(format!(
        "{trouble:?}: {} calls, the longest {:.1?} ({} over the deadline and 5 ms, before the machine's lateness of \
         up to {:.1?}); after half a second p50 {:.1?}, p99 {:.1?}; {}",
        all.calls(),
        all.longest(),
        all.slow(),
        pulse.longest(),
        later.within(5_000),
        later.within(9_900),
        seen.iter().map(one).collect::<Vec<_>>().join(", "),
    ));
}
