//! Quotas that are cleared without the right to: a key that has used what it may is fresh again.

use super::Sizes;
use crate::attack::caller::{Caller, CheckReply};
use crate::attack::stage::Stage;
use crate::serving::Reply;
use crate::{Failure, Report};

/// Ways that change nothing, by their name and words; `KEY` and `AT` stand for the key and the time of its charge.
type HarmlessCommand = (&'static str, &'static [&'static str]);

/// Against a text that names its limit.
const BY_NAME: &[HarmlessCommand] = &[
    ("a peek", &["TG.PEEK", "KEY", "1/s gcra name=api"]),
    ("a cost of 0", &["TG.CHECK", "KEY", "1/s gcra name=api", "COST", "0"]),
    ("a refund that gives back nothing", &["TG.REFUND", "KEY", "1/s gcra name=api", "1", "AT"]),
    ("a refund of nothing", &["TG.REFUND", "KEY", "5/h name=api", "0", "AT"]),
    ("a check", &["TG.CHECK", "KEY", "1/s gcra name=api"]),
    ("a check of another count", &["TG.CHECK", "KEY", "100/h name=api"]),
    ("an explanation", &["TG.EXPLAIN", "KEY", "1/s gcra name=api"]),
];

/// Against a policy of the server, whose name a caller may give to texts.
const OF_POLICY: &[HarmlessCommand] = &[
    ("a peek", &["TG.PEEK", "KEY", "1/s gcra name=api", "NAME", "login"]),
    ("a cost of 0", &["TG.CHECK", "KEY", "1/s gcra name=api", "NAME", "login", "COST", "0"]),
    ("a refund that gives back nothing", &["TG.REFUND", "KEY", "1/s gcra name=api", "1", "AT", "NAME", "login"]),
    ("a check", &["TG.CHECK", "KEY", "1/s gcra name=api", "NAME", "login"]),
    ("an explanation", &["TG.EXPLAIN", "KEY", "1/s gcra name=api", "NAME", "login"]),
];

pub(super) fn by_name(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    try_out(sizes, report, "5/h name=api", BY_NAME)
}

pub(super) fn of_policy(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    try_out(sizes, report, "login", OF_POLICY)
}

/// Each way on a key of its own, which has used everything before and must be refused after.
fn try_out(sizes: &Sizes, report: &mut Report, policy: &str, ways: &[HarmlessCommand]) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h name=api\n")?;
    let (mut honest, mut attacker, mut reader) = (stage.honest()?, stage.attacker()?, stage.reader()?);
    for (number, (name, words)) in ways.iter().enumerate() {
        let key = format!("u:{number}");
        let at = spend(&mut honest, &key, policy)?;
        let words: Vec<&str> = words
            .iter()
            .map(|word| match *word {
                "KEY" => key.as_str(),
                "AT" => at.as_str(),
                word => word,
            })
            .collect();
        let who = if words[0] == "TG.EXPLAIN" { &mut reader } else { &mut attacker };
        let reply = who.ask(&words)?;
        demand_spent(report, &mut honest, &key, policy, || {
            let said: String = reply.text().chars().take(60).collect();
            format!("{name} ({}, answered {said:?})", words.join(" "))
        })?;
    }
    Ok(())
}

/// Longer-lived texts on one key: more than it has places for, and more than a snapshot holds of one.
const TEXTS: u64 = 200;

/// Texts that live longer than a limit, more than a key has places for: by callers, and by a dialect. A restart on
/// what is left of them changes nothing.
pub(super) fn pushed_out(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let mut stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let (mut honest, mut attacker) = (stage.honest()?, stage.attacker()?);
    let policies = [("5/h", None), ("login", Some("login"))];
    for (policy, named) in policies {
        let key = format!("u:{policy}");
        spend(&mut honest, &key, policy)?;
        for days in 1..=TEXTS {
            let text = format!("1/{days}d");
            let mut words = vec!["TG.CHECK", key.as_str(), text.as_str()];
            named.iter().for_each(|name| words.extend(["NAME", *name]));
            attacker.ask(&words)?;
        }
        demand_spent(report, &mut honest, &key, policy, || format!("{TEXTS} longer-lived texts on its key"))?;
    }
    dialect(report, &mut attacker)?;
    stage.end(report, true)?;
    if stage.again(report, "a clean stop with many texts on a key")? {
        let mut honest = stage.honest()?;
        for (policy, _) in policies {
            demand_spent(report, &mut honest, &format!("u:{policy}"), policy, || "that and a restart".to_owned())?;
        }
    }
    Ok(())
}

/// `fixed_window` of a dialect, whose limits are in its arguments.
fn dialect(report: &mut Report, attacker: &mut Caller) -> Result<(), Failure> {
    let ask = |attacker: &mut Caller, count: &str, seconds: u64| {
        attacker.ask(&["FCALL", "fixed_window", "1", "client:1", count, &seconds.to_string()])
    };
    let mut last = Reply::Nil;
    for _ in 0..6 {
        last = ask(attacker, "5", 3_600)?;
    }
    if last.at(0).text() == "allow" {
        return Err(Failure(format!("fixed_window of 5 allows a sixth: {last:?}")));
    }
    for days in 1..=80 {
        ask(attacker, "1", days * 86_400)?;
    }
    let after = ask(attacker, "5", 3_600)?;
    report.demand(after.at(0).text() != "allow", || {
        format!("fresh before its time: fixed_window of 5 in 3600 s is answered {after:?} after 80 longer windows")
    });
    Ok(())
}

/// A refund is no right of those who may only check.
pub(super) fn refund(sizes: &Sizes, report: &mut Report) -> Result<(), Failure> {
    let stage = Stage::started(sizes.caps, "  login: 5/h\n")?;
    let (mut honest, mut attacker) = (stage.honest()?, stage.attacker()?);
    for policy in ["5/h", "login"] {
        let key = format!("u:{policy}");
        let at = spend(&mut honest, &key, policy)?;
        let reply = attacker.ask(&["TG.REFUND", &key, policy, "5", &at])?;
        demand_spent(report, &mut honest, &key, policy, || format!("TG.REFUND with the scope check ({reply:?})"))?;
    }
    Ok(())
}

/// Uses all five units of a key; answers when.
fn spend(caller: &mut Caller, key: &str, policy: &str) -> Result<String, Failure> {
    let reply = caller.ask(&["TG.CHECK", key, policy, "COST", "5", "REST"])?;
    match (reply.at(0).int(), reply.at(8).int()) {
        (Some(1), Some(at)) => Ok(at.to_string()),
        _ => Err(Failure(format!("expected a grant of 5 under {policy}, found {reply:?}"))),
    }
}

/// A key that has used everything is refused.
fn demand_spent(
    report: &mut Report,
    caller: &mut Caller,
    key: &str,
    policy: &str,
    after: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let answer = caller.check(key, policy)?;
    report.demand(answer == CheckReply::Refused, || {
        format!("fresh before its time: {policy} of an exhausted key is answered {answer:?} after {}", after())
    });
    Ok(())
}
