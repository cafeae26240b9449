//! Policies and modes from the command line.

use clap::ValueEnum;
use tollgate_kernel::{Mode, Policy};

use crate::error::CliError;

/// `--mode`: what happens to a request that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    #[default]
    Binary,
    Nary,
    Uniform,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Binary => Self::Binary,
            ModeArg::Nary => Self::Nary,
            ModeArg::Uniform => Self::Uniform,
        }
    }
}

/// Parses a policy, and sets its mode.
pub(crate) fn parse(text: &str, mode: ModeArg) -> Result<Policy, CliError> {
    match text.parse::<Policy>() {
        Ok(policy) => Ok(policy.with_mode(mode.into())),
        Err(error) => Err(CliError::Policy { text: text.to_owned(), error }),
    }
}

/// Returns the policy under a name, if one is given.
pub(crate) fn named(policy: Policy, name: Option<&str>) -> Result<Policy, CliError> {
    let Some(name) = name else { return Ok(policy) };
    let found = name.to_owned();
    let expected = "a name of letters, digits, - and _";
    policy.with_name(name).map_err(|_| CliError::Argument { what: "--name", found, expected })
}
