//! What came of it: what is used of every key, and what the metrics count.

use super::driver::{ChangeFigures, PolicyMetrics};
use super::policies::POLICIES;
use super::traffic::{GrantCounts, name};
use crate::serving::{Reply, Resp, ServerProcess};
use crate::{Failure, Report};

pub(super) fn judge(
    report: &mut Report,
    server: &ServerProcess,
    granted: &GrantCounts,
    driven: &ChangeFigures,
) -> Result<(), Failure> {
    let mut resp = Resp::connect(server.resp)?;
    for key in 0..granted.keys() {
        for (place, policy) in POLICIES.iter().enumerate() {
            let (name, admitted) = (format!("{} of {}", name(key), policy.name), granted.of(key, place));
            report.demand(admitted <= policy.most, || {
                format!("{name}: {admitted} admitted, where no text admits more than {}", policy.most)
            });
            let used = used(&mut resp, key, policy.name, policy.holds)?;
            report.demand(used == admitted, || format!("{name}: {used} used, but {admitted} were admitted"));
            if policy.is_steady() {
                let more = exhaust(&mut resp, key, policy.name, policy.most + 1)?;
                report.demand(admitted + more == policy.most, || {
                    format!("{name}: {admitted} and then {more} admitted, expected {} in all", policy.most)
                });
            }
        }
    }
    let Some(http) = server.http else { return Ok(()) };
    let state = PolicyMetrics::read(http)?;
    report.demand(state.generation == (driven.right + 1) as f64, || {
        format!("generation {} after {} right files behind the first", state.generation, driven.right)
    });
    report.demand(state.wrong >= driven.wrong as f64, || {
        format!("{} wrong files counted, expected at least {}", state.wrong, driven.wrong)
    });
    report.demand(state.ok >= driven.right as f64, || {
        format!("{} right files counted, expected at least {}", state.ok, driven.right)
    });
    report.demand(state.is_wrong == 0.0, || "a right file is told to be wrong".to_owned());
    Ok(())
}

/// What is used of the first limit of a policy.
fn used(resp: &mut Resp, key: usize, policy: &str, holds: u64) -> Result<u64, Failure> {
    let reply = resp.ask(&["TG.PEEK", &name(key), policy, "FULL"])?;
    // Nine integers, then five a limit, of which the second is what remains.
    let used = reply.at(10).int().and_then(|left| holds.checked_add_signed(left.checked_neg()?));
    used.ok_or_else(|| Failure(format!("{policy}: expected what remains, found {reply:?}")))
}

/// Asks until it is refused; answers what was granted.
fn exhaust(resp: &mut Resp, key: usize, policy: &str, most: u64) -> Result<u64, Failure> {
    let mut granted = 0;
    for _ in 0..most {
        match resp.ask(&["TG.CHECK", &name(key), policy])? {
            reply @ Reply::Array(_) => match reply.at(1).int() {
                Some(1) => granted += 1,
                _ => return Ok(granted),
            },
            reply => return Err(Failure(format!("{policy}: expected a decision, found {reply:?}"))),
        }
    }
    Ok(granted)
}
