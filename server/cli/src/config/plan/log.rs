//! A recorded log, and whether its lines name policies.

use std::collections::HashMap;
use std::io::{self, Cursor, Read};

use serde::de::IgnoredAny;
use tollgate_config::Config;

use super::PlanArgs;
use super::decider::{PairResult, PlanDecider};
use super::policy_pair::{PolicyPair, pairs};
use crate::error::{CliError, MAX_POLICIES};
use crate::policy::ModeArg;
use crate::replay::{self, MAX_LINE, ReplayArgs, ReplayOutcome, ReplaySource, ReplaySummary};

/// The field of a JSON line that names the policy it was decided by.
const POLICY: &str = "policy";

/// The result of a replayed log.
pub(super) struct PlanReplay {
    /// The log itself.
    pub(super) summary: ReplaySummary,
    /// Whether its lines name policies.
    pub(super) named: bool,
    /// The policies that decide differently, each with its verdict.
    pub(super) policies: Vec<(PolicyPair, PairResult)>,
}

/// Replays the requests of a log through both sides of the changed policies.
pub(super) fn replay(args: &PlanArgs, path: &str, old: &Config, new: &Config) -> Result<PlanReplay, CliError> {
    let pairs = chosen(pairs(old, new), &args.policy)?;
    let mut source = ReplaySource::open(path)?;
    let failed = |source| CliError::Read { path: path.to_owned(), lines: 0, source };
    let (first, reader) = first_line(source.reader).map_err(failed)?;
    source.reader = reader;
    let named = names_policies(&first);
    if !named && pairs.len() > MAX_POLICIES {
        return Err(CliError::Changed(pairs.len()));
    }
    let by_name: HashMap<_, _> = pairs.iter().enumerate().map(|(place, pair)| (pair.name.as_str(), place)).collect();
    let replay_args = replay_args(args, path, named);
    let deciders =
        (0..replay::deciders()).map(|_| PlanDecider::new(&pairs, named.then_some(&by_name), args.top)).collect();
    let (feed, results) = replay::run_deciders(&replay_args, source, deciders)?;
    let result = results.into_iter().reduce(|all, one| all.join(one, args.top)).ok_or(CliError::Lost)?;
    let outcome = ReplayOutcome { totals: result.totals, policies: Vec::new() };
    let summary = ReplaySummary::new(&replay_args, &[], &feed, outcome);
    Ok(PlanReplay { summary, named, policies: pairs.into_iter().zip(result.pairs).collect() })
}

fn chosen(pairs: Vec<PolicyPair>, names: &[String]) -> Result<Vec<PolicyPair>, CliError> {
    if names.is_empty() {
        return Ok(pairs);
    }
    if let Some(name) = names.iter().find(|name| pairs.iter().all(|pair| pair.name != **name)) {
        let changed: Vec<_> = pairs.iter().take(10).map(|pair| pair.name.as_str()).collect();
        let changed = match changed.is_empty() {
            true => "none does".to_owned(),
            false => format!("these do: {}", changed.join(", ")),
        };
        return Err(CliError::Unchanged { name: name.clone(), changed });
    }
    Ok(pairs.into_iter().filter(|pair| names.contains(&pair.name)).collect())
}

/// Returns the arguments by which `tollgate replay` reads the log. The name of a policy is the first part of the key.
fn replay_args(args: &PlanArgs, path: &str, named: bool) -> ReplayArgs {
    let key = match (named, &args.key) {
        (true, key) => Some(format!("{POLICY},{}", key.as_deref().unwrap_or("key"))),
        (false, key) => key.clone(),
    };
    ReplayArgs {
        file: path.to_owned(),
        policy: Vec::new(),
        mode: ModeArg::default(),
        key,
        time: args.time.clone(),
        time_unit: args.time_unit,
        format: args.format,
        top: args.top,
        decisions: None,
        strict: args.strict,
        json: args.json,
    }
}

fn names_policies(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    serde_json::from_slice::<HashMap<String, IgnoredAny>>(line).is_ok_and(|fields| fields.contains_key(POLICY))
}

/// Returns the first line that is not blank, and a reader that still includes it.
fn first_line(mut reader: Box<dyn Read + Send>) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4_096];
    let line = |buffer: &[u8]| {
        let mut lines = buffer.split(|&byte| byte == b'\n');
        let whole = buffer.iter().filter(|&&byte| byte == b'\n').count();
        lines.by_ref().take(whole).find(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec)
    };
    let first = loop {
        if let Some(first) = line(&buffer) {
            break first;
        }
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        buffer.extend_from_slice(&chunk[..count]);
        if count == 0 || buffer.len() > MAX_LINE {
            break buffer.clone();
        }
    };
    Ok((first, Box::new(Cursor::new(buffer).chain(reader))))
}
