//! The expiry of keys: EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, TTL, PTTL, EXPIRETIME, PEXPIRETIME.

use tollgate_kernel::{Micros, Timestamp};

use super::keys::{integer, now};
use super::{CommandContext, may_forget};
use tollgate_keyspace::{ExpireConditions, Keyspace};
use tollgate_keyspace::{Fault, quoted};

pub(super) fn expire(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    run(ctx, keys, "expire", true, false)
}

pub(super) fn pexpire(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    run(ctx, keys, "pexpire", false, false)
}

pub(super) fn expire_at(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    run(ctx, keys, "expireat", true, true)
}

pub(super) fn pexpire_at(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    run(ctx, keys, "pexpireat", false, true)
}

fn run(
    ctx: &mut CommandContext<'_>,
    keys: &mut Keyspace,
    name: &str,
    seconds: bool,
    absolute: bool,
) -> Result<(), Fault> {
    let condition = condition(ctx)?;
    let now = now(ctx);
    let at = expiry(integer(ctx.args.at(2))?, seconds, absolute, now.wall);
    let at = at.ok_or_else(|| Fault::wrong(format!("invalid expire time in '{name}' command")))?;
    may_forget(ctx, keys, ctx.args.at(1))?;
    let done = keys.expire(ctx.session.db, ctx.args.at(1), at, condition, now);
    ctx.out.int(i64::from(done));
    Ok(())
}

/// Returns the time that is `time` from now, or since the epoch if `absolute`; `None` if it is too far off to express.
pub(super) fn expiry(time: i64, seconds: bool, absolute: bool, now: Timestamp) -> Option<Timestamp> {
    let ms = if seconds { time.checked_mul(1_000)? } else { time };
    let base = if absolute { 0 } else { now.get() };
    // Bounded as in Redis, which counts in milliseconds, and by what microseconds can count.
    ms.checked_add(i64::try_from(base / 1_000).ok()?)?;
    let at = i128::from(base) + i128::from(ms) * 1_000;
    match u64::try_from(at.max(0)) {
        Ok(at) if at > now.get() => Some(now.plus(Micros::new(at - now.get()))),
        Ok(at) => Some(Timestamp::saturating(at)),
        Err(_) => None,
    }
}

fn condition(ctx: &CommandContext<'_>) -> Result<ExpireConditions, Fault> {
    let mut condition = ExpireConditions::default();
    for at in 3..ctx.args.len() {
        let ExpireConditions { nx, xx, gt, lt } = &mut condition;
        let word = [("NX", nx), ("XX", xx), ("GT", gt), ("LT", lt)].into_iter().find(|(word, _)| ctx.args.is(at, word));
        let Some((_, flag)) = word else {
            return Err(Fault::wrong(format!(
                "Unsupported option {}; expected NX, XX, GT or LT",
                quoted(ctx.args.at(at))
            )));
        };
        *flag = true;
    }
    let ExpireConditions { nx, xx, gt, lt } = condition;
    if nx && (xx || gt || lt) {
        return Err(Fault::wrong("NX and XX, GT or LT options at the same time are not compatible"));
    }
    if gt && lt {
        return Err(Fault::wrong("GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}

/// Replies with milliseconds, rounded up: a live key has time left.
pub(super) fn pttl(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let ms = left(ctx, keys);
    ctx.out.int(ms);
    Ok(())
}

/// Replies with seconds, rounded to the nearest.
pub(super) fn ttl(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let ms = left(ctx, keys);
    ctx.out.int(if ms < 0 { ms } else { ms.saturating_add(500) / 1_000 });
    Ok(())
}

/// Replies with the Unix time in milliseconds at which a key expires.
pub(super) fn pexpire_time(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let ms = ends(ctx, keys);
    ctx.out.int(ms);
    Ok(())
}

/// Replies with the Unix time in seconds at which a key expires, rounded to the nearest.
pub(super) fn expire_time(ctx: &mut CommandContext<'_>, keys: &mut Keyspace) -> Result<(), Fault> {
    let ms = ends(ctx, keys);
    ctx.out.int(if ms < 0 { ms } else { ms.saturating_add(500) / 1_000 });
    Ok(())
}

/// Returns milliseconds since 1970; -1 for a key that does not expire, -2 if there is no key.
fn ends(ctx: &CommandContext<'_>, keys: &mut Keyspace) -> i64 {
    match left(ctx, keys) {
        none @ (-2 | -1) => none,
        left => left.saturating_add(i64::try_from(now(ctx).wall.get().div_ceil(1_000)).unwrap_or(i64::MAX)),
    }
}

/// Returns milliseconds; -1 for a key that does not expire, -2 if there is no key.
fn left(ctx: &CommandContext<'_>, keys: &mut Keyspace) -> i64 {
    match keys.left(ctx.session.db, ctx.args.at(1), now(ctx)) {
        None => -2,
        Some(None) => -1,
        Some(Some(left)) => i64::try_from(left.get().div_ceil(1_000)).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::saturating(1_700_000_000_000_001);

    #[test]
    fn a_time_is_exact_to_the_microsecond_or_refused() {
        let at = |time, seconds, absolute| expiry(time, seconds, absolute, NOW).map(Timestamp::get);
        assert_eq!(at(59, true, false), Some(1_700_000_059_000_001));
        assert_eq!(at(59, false, false), Some(1_700_000_000_059_001));
        assert_eq!(at(-1, true, false), Some(1_699_999_999_000_001));
        assert_eq!(at(1_700_000_001, true, true), Some(1_700_000_001_000_000));
        assert_eq!(at(i64::MIN / 1_000, true, false), Some(0));
        assert_eq!(at(i64::MAX, true, false), None);
        assert_eq!(at(i64::MAX, false, false), None);
    }
}
