//! A recorded log, and whether its lines name policies.

use std::collections::HashMap;
use std::io::{self, Cursor, Read};

use serde::de::IgnoredAny;
use tollgate_config::Config;

use super::PlanArgs;
use super::judge::{Judge, Verdict};
use super::pair::{Pair, pairs};
use crate::error::{Error, MAX_POLICIES};
use crate::policy::ModeArg;
use crate::replay::{self, MAX_LINE, Outcome, ReplayArgs, Source, Summary};

/// The field of a JSON line that names the policy it was decided by.
const POLICY: &str = "policy";

/// The result of a replayed log.
pub(super) struct Tried {
    /// The log itself.
    pub(super) summary: Summary,
    /// Whether its lines name policies.
    pub(super) named: bool,
    /// The policies that decide differently, each with its verdict.
    pub(super) policies: Vec<(Pair, Verdict)>,
}

/// Replays the requests of a log through both sides of the changed policies.
pub(super) fn replay(args: &PlanArgs, path: &str, old: &Config, new: &Config) -> Result<Tried, Error> {
    let pairs = chosen(pairs(old, new), &args.policy)?;
    let mut source = Source::open(path)?;
    let failed = |source| Error::Read { path: path.to_owned(), lines: 0, source };
    let (first, reader) = first_line(source.reader).map_err(failed)?;
    source.reader = reader;
    let named = names_policies(&first);
    if !named && pairs.len() > MAX_POLICIES {
        return Err(Error::Changed(pairs.len()));
    }
    let by_name: HashMap<_, _> = pairs.iter().enumerate().map(|(place, pair)| (pair.name.as_str(), place)).collect();
    let asked = asked(args, path, named);
    let judges = (0..replay::deciders()).map(|_| Judge::new(&pairs, named.then_some(&by_name), args.top)).collect();
    let (feed, found) = replay::through(&asked, source, judges)?;
    let found = found.into_iter().reduce(|whole, one| whole.join(one, args.top)).ok_or(Error::Lost)?;
    let outcome = Outcome { totals: found.totals, policies: Vec::new() };
    let summary = Summary::new(&asked, &[], &feed, outcome);
    Ok(Tried { summary, named, policies: pairs.into_iter().zip(found.verdicts).collect() })
}

fn chosen(pairs: Vec<Pair>, names: &[String]) -> Result<Vec<Pair>, Error> {
    if names.is_empty() {
        return Ok(pairs);
    }
    if let Some(name) = names.iter().find(|name| pairs.iter().all(|pair| pair.name != **name)) {
        let changed: Vec<_> = pairs.iter().take(10).map(|pair| pair.name.as_str()).collect();
        let changed = match changed.is_empty() {
            true => "none does".to_owned(),
            false => format!("these do: {}", changed.join(", ")),
        };
        return Err(Error::Unchanged { name: name.clone(), changed });
    }
    Ok(pairs.into_iter().filter(|pair| names.contains(&pair.name)).collect())
}

/// Returns the arguments by which `tollgate replay` reads the log. The name of a policy is the first part of the key.
fn asked(args: &PlanArgs, path: &str, named: bool) -> ReplayArgs {
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
    let mut taken = Vec::new();
    let mut chunk = [0; 4_096];
    let line = |taken: &[u8]| {
        let mut lines = taken.split(|&byte| byte == b'\n');
        let whole = taken.iter().filter(|&&byte| byte == b'\n').count();
        lines.by_ref().take(whole).find(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec)
    };
    let first = loop {
        if let Some(first) = line(&taken) {
            break first;
        }
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        taken.extend_from_slice(&chunk[..count]);
        if count == 0 || taken.len() > MAX_LINE {
            break taken.clone();
        }
    };
    Ok((first, Box::new(Cursor::new(taken).chain(reader))))
}
