//! The events of a round against the promises.

use tollgate_conformance::intervals::{Event, excess};
use tollgate_kernel::{KeyState, Limit, Policy, Request, Timestamp, muldiv};

use super::PROCESSES;
use super::round::{Outcome, Round};
use crate::timing::is_judged;
use crate::{Failure, Report};

pub(super) fn judge(report: &mut Report, round: &Round, outcome: Outcome, flushes: u64) -> Result<(), Failure> {
    let (policy, events) = (round.policy()?, outcome.events());
    let name = format!("{} {}", round.packaging, round.policy);
    let admitted: u64 = events.iter().map(|(_, allowed)| u64::from(*allowed)).sum();
    judge_callers(report, round, &outcome, &name);
    if let Some(excess) = bound_broken(&policy, &events) {
        report.violated(format!("{name}: {excess}"));
    }
    let alone = alone(&policy, &events);
    // A charge whose answer came too late is not among the events; in tests the machine may be the reason.
    let excused = !is_judged() && outcome.sum(|done| done.elsewhere) > 0;
    report.demand(admitted == alone || excused, || {
        format!("{name}: {admitted} admitted, {alone} by the kernel at the same times")
    });
    let limit = policy.limits().first().ok_or_else(|| Failure("a policy without limits".to_owned()))?;
    let (used, allowed) = allowed(limit, &events);
    // Who waits for a library to be brought again offers nothing meanwhile; the kernel, asked as he was, tells.
    let enough = flushes == 0 && offered_twice(limit, &events);
    report.demand(!is_judged() || !enough || used * 1_000 >= allowed * 999, || {
        format!("{name}: {used} admitted of the {allowed} that its windows allow")
    });
    let reloads = outcome.sum(|done| done.reloads);
    let flushed = if flushes == 0 { String::new() } else { format!(" in {flushes} flushes") };
    report.say(format!(
        "{name}: {} decisions, {} a second, {admitted} admitted ({:.3} % of what its windows allow{}), {reloads} reloads{flushed}",
        events.len(),
        outcome.pace(),
        used as f64 * 100.0 / allowed.max(1) as f64,
        if enough { "" } else { ", not judged: less than twice as much offered" },
    ));
    Ok(())
}

/// What callers must never see, and whether there were as many connections as there should be.
fn judge_callers(report: &mut Report, round: &Round, outcome: &Outcome, name: &str) {
    let [errors, elsewhere, panics] =
        [outcome.sum(|done| done.errors), outcome.sum(|done| done.elsewhere), outcome.sum(|done| done.panics)];
    // A machine that stands still for longer than a deadline makes others decide, and connections anew.
    let elsewhere = if is_judged() { elsewhere } else { 0 };
    report.demand((errors, elsewhere, panics) == (0, 0, 0), || {
        format!("{name}: {errors} errors, {elsewhere} decisions that were not the server's, {panics} panics")
    });
    let (wanted, connected) = (PROCESSES * round.connections, outcome.connected);
    report
        .demand(connected >= wanted || !is_judged(), || format!("{name}: {connected} connections instead of {wanted}"));
    let opened = outcome.sum(|done| done.connections);
    report.demand(opened == wanted || !is_judged(), || {
        format!("{name}: {opened} connections opened instead of {wanted}")
    });
}

fn bound_broken(policy: &Policy, events: &[(Timestamp, bool)]) -> Option<String> {
    let admitted = events.iter().filter(|(_, allowed)| *allowed).map(|(at, _)| Event { at: *at, units: 1 });
    excess(policy.limits(), &admitted.collect::<Vec<_>>()).map(|excess| excess.to_string())
}

/// What the kernel admits if it is asked at the same times. All ask for one unit, so the order within a
/// microsecond is no matter.
fn alone(policy: &Policy, events: &[(Timestamp, bool)]) -> u64 {
    let mut key = KeyState::default();
    events.iter().map(|(at, _)| key.decide(policy, *at, &Request::ONE).granted).sum()
}

/// Units used, and those that the windows that are over allow; for gcra, since the first refusal, when its
/// burst was used up.
fn allowed(limit: &Limit, events: &[(Timestamp, bool)]) -> (u64, u64) {
    let begin = match limit.rule().name() {
        "gcra" => events.iter().position(|(_, allowed)| !*allowed).unwrap_or(events.len()),
        _ => 0,
    };
    let events = events.get(begin..).unwrap_or_default();
    let (Some((first, _)), Some((last, _))) = (events.first(), events.last()) else { return (0, 0) };
    let used = events.iter().map(|(_, allowed)| u64::from(*allowed)).sum();
    let (span, period) = (last.since(*first).get(), limit.period().get());
    match limit.rule().name() {
        "gcra" => (used, muldiv(limit.count(), span, period).0),
        _ => (used, limit.count() * (span / period)),
    }
}

/// Whether in every period twice as much was offered as the limit admits: a crowd that pauses, because
/// the machine or a flush makes it, finds windows that are over and cannot use them.
fn offered_twice(limit: &Limit, events: &[(Timestamp, bool)]) -> bool {
    let Some((first, _)) = events.first() else { return false };
    let period_of = |(at, _): &(Timestamp, bool)| at.since(*first).get() / limit.period().get();
    let periods = events.last().map_or(0, period_of);
    let offered = events.chunk_by(|one, other| period_of(one) == period_of(other));
    // The last period is not over.
    offered.filter(|chunk| chunk.len() as u64 >= 2 * limit.count()).count() as u64 >= periods
}
