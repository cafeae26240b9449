//! `tollgate check`, `peek`, `reset` and `refund`: one question to a store.
//!
//! | file | what it is |
//! |---|---|
//! | `args.rs` | the arguments of the commands |
//! | `home.rs` | the store behind `--store` |
//! | `report.rs` | a decision for people and for programs |

mod args;
pub(crate) mod home;
pub(crate) mod report;

use tollgate_kernel::{Cost, Policy, Request, Store, Timestamp};

use crate::Answer;
use crate::error::Error;
use crate::policy::{self, ModeArg};
pub(crate) use args::{CheckArgs, PeekArgs, RefundArgs, ResetArgs};

/// The exit code of a refusal.
const DENIED: u8 = 1;

/// Runs `tollgate check`.
pub(crate) fn check(args: &CheckArgs) -> Result<Answer, Error> {
    decide(&args.ask, false)
}

/// Runs `tollgate peek`.
pub(crate) fn peek(args: &PeekArgs) -> Result<Answer, Error> {
    decide(&args.ask, true)
}

fn decide(args: &args::AskArgs, peek: bool) -> Result<Answer, Error> {
    let policy = policy_of(&args.whose, args.mode)?;
    let cost = cost(args.cost)?;
    let request = Request { peek, ..Request::cost(cost) };
    let key = args.whose.key.as_bytes();
    let (decision, details) =
        home::ask(&args.whose.store, async |store| home::decide(store, &policy, key, request).await)?;
    let decided = report::Decided { key, policy: &policy, cost, decision, details, peek };
    let text = if args.whose.json { decided.json() } else { decided.print(args.full) };
    Ok(Answer { text, code: if decision.allowed { 0 } else { DENIED } })
}

/// Runs `tollgate reset`.
pub(crate) fn reset(args: &ResetArgs) -> Result<Answer, Error> {
    let policy = policy_of(&args.whose, ModeArg::default())?;
    let key = args.whose.key.as_bytes();
    home::ask(&args.whose.store, async |store| Ok(store.reset(&policy, key).await?))?;
    Ok(Answer::from(match args.whose.json {
        true => "{\"reset\":true}\n".to_owned(),
        false => format!("forgotten: {} under {policy}\n", report::shown(key)),
    }))
}

/// Runs `tollgate refund`.
pub(crate) fn refund(args: &RefundArgs) -> Result<Answer, Error> {
    let policy = policy_of(&args.whose, ModeArg::default())?;
    let units = cost(args.units)?;
    let at = Timestamp::new(args.at_us).ok_or(Error::Argument {
        what: "AT_US",
        found: args.at_us.to_string(),
        expected: "the at_us of the decision, in microseconds since 1970",
    })?;
    let key = args.whose.key.as_bytes();
    let given = home::ask(&args.whose.store, async |store| Ok(store.refund(&policy, key, units, at).await?))?;
    Ok(Answer::from(match args.whose.json {
        true => format!("{{\"refunded\":{given}}}\n"),
        false => format!("given back: {given} of {} to {}\n", units.get(), report::shown(key)),
    }))
}

/// Returns the policy of the command line, with the name that its state is stored under.
fn policy_of(args: &args::WhoseArgs, mode: ModeArg) -> Result<Policy, Error> {
    policy::named(policy::parse(&args.policy, mode)?, args.name.as_deref())
}

pub(crate) fn cost(units: u64) -> Result<Cost, Error> {
    let found = units.to_string();
    Cost::new(units).ok_or(Error::Argument { what: "cost", found, expected: "units from 0 to 2^53 - 1" })
}
