//! What a server knows of keys: how much each has used.

use std::io;

use super::history::OverflowRule;
use super::kind::{ChargeCommand, Kind, ReadMethod, both, filled};
use crate::Failure;
use crate::serving::{Reply, Resp, push};

/// Keys that are read at once.
const AT_ONCE: usize = 64;
/// Requests that are sent at once where a key is read by many.
const STEPS: u64 = 256;

/// A key to be read, and what it may stand at.
pub(crate) struct KeyQuery<'a> {
    pub(crate) kind: &'static Kind,
    pub(crate) key: &'a str,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// What a key stood at, and what it stands at since it was read; nothing if it is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyUsage {
    pub(crate) used: u64,
    pub(crate) now: Option<u64>,
}

/// Reads keys, in order.
pub(crate) fn read(resp: &mut Resp, wanted: &[KeyQuery<'_>]) -> Result<Vec<KeyUsage>, Failure> {
    let mut found = Vec::with_capacity(wanted.len());
    for some in wanted.chunks(AT_ONCE) {
        let commands: Vec<Vec<Vec<String>>> = some.iter().map(plain).collect();
        let mut bytes = Vec::new();
        commands.iter().flatten().for_each(|words| push(&mut bytes, words));
        resp.send(&bytes)?;
        let mut replies = Vec::with_capacity(some.len());
        for commands in &commands {
            replies.push(commands.iter().map(|_| resp.reply()).collect::<io::Result<Vec<_>>>()?);
        }
        for (wanted, replies) in some.iter().zip(replies) {
            let wrong = || Failure(format!("{}: expected what was used, found {replies:?}", wanted.key));
            found.push(match steps(wanted) {
                Some(steps) => climb(resp, wanted, steps)?,
                None => told(wanted, &replies).ok_or_else(wrong)?,
            });
        }
    }
    Ok(found)
}

/// Commands that tell it at once; none if it takes many.
fn plain(wanted: &KeyQuery<'_>) -> Vec<Vec<String>> {
    // Only so are more than all told.
    let mode = if wanted.kind.capacity.overflow == OverflowRule::Anyway { "uniform" } else { "binary" };
    let peek = |key: &str, policy: &str| ["TG.PEEK", key, policy, "MODE", mode, "FULL"].map(str::to_owned).to_vec();
    match wanted.kind.command {
        ChargeCommand::Check { policy, .. } => vec![peek(wanted.key, policy)],
        ChargeCommand::Both { policies, .. } => {
            both(wanted.key).iter().zip(policies).map(|(key, policy)| peek(key, policy)).collect()
        }
        ChargeCommand::Other { method: ReadMethod::Command(words, _), .. } => vec![filled(words, wanted.key, "0")],
        ChargeCommand::Other { charge, method: ReadMethod::OneCharge, .. } => vec![filled(charge, wanted.key, "1")],
        ChargeCommand::Other { .. } => Vec::new(),
    }
}

fn told(wanted: &KeyQuery<'_>, replies: &[Reply]) -> Option<KeyUsage> {
    let one = replies.first()?;
    let used = match wanted.kind.command {
        ChargeCommand::Check { holds, .. } => peeked(one, holds)?,
        // Charged together, they stand together.
        ChargeCommand::Both { holds: [one_holds, other_holds], .. } => {
            let used = peeked(one, &[one_holds])?;
            (peeked(replies.get(1)?, &[other_holds])? == used).then_some(used)?
        }
        ChargeCommand::Other { method: ReadMethod::Command(_, used), .. } => used(one)?,
        ChargeCommand::Other { used, .. } => {
            let now = used(one)?;
            return Some(KeyUsage { used: now.checked_sub(1)?, now: Some(now) });
        }
    };
    Some(KeyUsage { used, now: Some(used) })
}

/// What was used by a full peek; every limit must have the same.
fn peeked(reply: &Reply, holds: &[u64]) -> Option<u64> {
    // Nine integers, then five a limit, of which the second is what remains.
    let used = |place: usize, holds: &u64| holds.checked_add_signed(reply.at(9 + 5 * place + 1).int()?.checked_neg()?);
    let mut all = holds.iter().enumerate().map(|(place, holds)| used(place, holds));
    let first = all.next()??;
    all.all(|used| used == Some(first)).then_some(first)
}

/// How a key is read by many requests: the one of a number, and whether a reply shows that the key stood below.
type Steps = (&'static [&'static str], fn(&Reply) -> bool);

fn steps(wanted: &KeyQuery<'_>) -> Option<Steps> {
    match wanted.kind.command {
        // A limit that is above what is used lets one pass.
        ChargeCommand::Other { method: ReadMethod::RisingLimits(words), .. } => {
            Some((words, |reply| *reply == Reply::Int(0)))
        }
        // What was charged until it is too much was missing.
        ChargeCommand::Other { charge, method: ReadMethod::Filling, .. } => {
            Some((charge, |reply| *reply == Reply::Int(1)))
        }
        ChargeCommand::Check { .. } | ChargeCommand::Both { .. } | ChargeCommand::Other { .. } => None,
    }
}

fn climb(resp: &mut Resp, wanted: &KeyQuery<'_>, (words, is_it): Steps) -> Result<KeyUsage, Failure> {
    let rises = matches!(wanted.kind.command, ChargeCommand::Other { method: ReadMethod::RisingLimits(_), .. });
    let step = |number: u64| filled(words, wanted.key, &number.to_string());
    // Rising limits from the least on; or all but what is used at most, then one by one.
    let first = if rises { wanted.least.max(1) } else { wanted.kind.capacity.most.saturating_sub(wanted.most) };
    let count = wanted.most - wanted.least + 2;
    for from in (0..count).step_by(STEPS as usize) {
        let mut bytes = Vec::new();
        let some = from..count.min(from + STEPS);
        for number in some.clone() {
            let number = match (rises, number) {
                (true, number) => first + number,
                (false, 0) => first,
                (false, _) => 1,
            };
            push(&mut bytes, &step(number));
        }
        resp.send(&bytes)?;
        let replies = some.clone().map(|_| resp.reply()).collect::<io::Result<Vec<_>>>()?;
        if let Some(Reply::Error(error)) = replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
            return Err(Failure(format!("{}: {error}", wanted.key)));
        }
        if let Some(place) = replies.iter().position(is_it) {
            let number = from + place as u64;
            let used = match rises {
                // Passed at once: below the least there is.
                true => (first + number).saturating_sub(1),
                false => (wanted.most + 1).saturating_sub(number),
            };
            return Ok(KeyUsage { used, now: None });
        }
    }
    // Above the most, or below the least.
    let used = if rises { wanted.most + 1 } else { wanted.least.saturating_sub(1) };
    Ok(KeyUsage { used, now: None })
}
