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

use crate::CommandOutput;
use crate::error::CliError;
use crate::policy::{self, ModeArg};
pub(crate) use args::{CheckArgs, PeekArgs, RefundArgs, ResetArgs};

/// The exit code of a refusal.
const DENIED: u8 = 1;

/// Runs `tollgate check`.
pub(crate) fn check(args: &CheckArgs) -> Result<CommandOutput, CliError> {
    decide(&args.request, false)
}

/// Runs `tollgate peek`.
pub(crate) fn peek(args: &PeekArgs) -> Result<CommandOutput, CliError> {
    decide(&args.request, true)
}

fn decide(args: &args::RequestArgs, peek: bool) -> Result<CommandOutput, CliError> {
    let policy = policy_of(&args.subject, args.mode)?;
    let cost = cost(args.cost)?;
    let request = Request { peek, ..Request::cost(cost) };
    let key = args.subject.key.as_bytes();
    let (decision, details) =
        home::with_store(&args.subject.store, async |store| home::decide(store, &policy, key, request).await)?;
    let report = report::CheckReport { key, policy: &policy, cost, decision, details, peek };
    let text = if args.subject.json { report.json() } else { report.print(args.full) };
    Ok(CommandOutput { text, code: if decision.allowed { 0 } else { DENIED } })
}

/// Runs `tollgate reset`.
pub(crate) fn reset(args: &ResetArgs) -> Result<CommandOutput, CliError> {
    let policy = policy_of(&args.subject, ModeArg::default())?;
    let key = args.subject.key.as_bytes();
    home::with_store(&args.subject.store, async |store| Ok(store.reset(&policy, key).await?))?;
    Ok(CommandOutput::from(match args.subject.json {
        true => "{\"reset\":true}\n".to_owned(),
        false => format!("forgotten: {} under {policy}\n", report::shown(key)),
    }))
}

/// Runs `tollgate refund`.
pub(crate) fn refund(args: &RefundArgs) -> Result<CommandOutput, CliError> {
    let policy = policy_of(&args.subject, ModeArg::default())?;
    let units = cost(args.units)?;
    let at = Timestamp::new(args.at_us).ok_or(CliError::Argument {
        what: "AT_US",
        found: args.at_us.to_string(),
        expected: "the at_us of the decision, in microseconds since 1970",
    })?;
    let key = args.subject.key.as_bytes();
    let refunded =
        home::with_store(&args.subject.store, async |store| Ok(store.refund(&policy, key, units, at).await?))?;
    Ok(CommandOutput::from(match args.subject.json {
        true => format!("{{\"refunded\":{refunded}}}\n"),
        false => format!("given back: {refunded} of {} to {}\n", units.get(), report::shown(key)),
    }))
}

/// Returns the policy of the command line, with the name that its state is stored under.
fn policy_of(args: &args::SubjectArgs, mode: ModeArg) -> Result<Policy, CliError> {
    policy::named(policy::parse(&args.policy, mode)?, args.name.as_deref())
}

pub(crate) fn cost(units: u64) -> Result<Cost, CliError> {
    let found = units.to_string();
    Cost::new(units).ok_or(CliError::Argument { what: "cost", found, expected: "units from 0 to 2^53 - 1" })
}
