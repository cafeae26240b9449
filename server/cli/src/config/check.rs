//! `tollgate config check`: what a policy file means, or every mistake in it.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tollgate_config::{ConfigError, ParsedConfig, PolicyEntry, read_file};
use tollgate_kernel::promises;

use super::messages::{self, MessagePart};
use crate::error::CliError;
use crate::text::{counted, json, wrapped};
use crate::{CommandOutput, FAILED};

const EXAMPLES: &str = "\
Examples:
  tollgate config check tollgate.yaml
  tollgate config check tollgate.toml --json

Prints each policy with what its limits promise, and what looks odd. A wrong
file is told by every mistake, with line, column and a hint.
Exit code: 0 right (also with warnings), 2 wrong.";

/// What `tollgate config check` takes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigCheckArgs {
    /// The policy file: .yaml, .yml, .json or .toml
    file: PathBuf,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command; returns what to print.
pub(super) fn run(args: &ConfigCheckArgs) -> Result<CommandOutput, CliError> {
    let file = args.file.display().to_string();
    match read_file(&args.file) {
        Ok(read) if args.json => Ok(CommandOutput::from(json(&ConfigCheckDocument::right(&file, &read)))),
        Ok(read) => Ok(CommandOutput::from(print(&file, &read))),
        Err(error) if args.json => {
            Ok(CommandOutput { text: json(&ConfigCheckDocument::wrong(&file, &error)), code: FAILED })
        }
        Err(error) => Err(CliError::Config(error)),
    }
}

fn print(file: &str, read: &ParsedConfig) -> String {
    let count = read.config.policies.len() as u64;
    let mut text = format!("{file}: {}, no mistake\n", counted(count, "policy", "policies"));
    if read.config.webhook.is_some() {
        text += "near-limit alerts are posted to a webhook\n";
    }
    for entry in &read.config.policies {
        text += &format!("\n{}  {}\n", entry.policy.name(), entry.policy);
        for line in extras(entry).into_iter().chain(promises(&entry.policy)) {
            text += &wrapped(&format!("  {line}"));
        }
    }
    if !read.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &read.warnings {
        text += &messages::print_one("warning", file, warning);
    }
    text
}

/// Returns the settings of a policy other than its limits, a line each.
fn extras(entry: &PolicyEntry) -> Vec<String> {
    let mut lines = Vec::new();
    if !entry.key.is_empty() {
        let parts: Vec<_> = entry.key.iter().map(ToString::to_string).collect();
        lines.push(format!("keys are made of {}", parts.join(", ")));
    }
    if entry.shadow {
        lines.push("shadow: decides, charges and reports, but refuses nobody".to_owned());
    }
    for (count, what) in [(entry.allow.len(), "always allowed"), (entry.deny.len(), "always refused")] {
        if count > 0 {
            lines.push(format!("{} {what}", counted(count as u64, "key or pattern", "keys or patterns")));
        }
    }
    for own in entry.overrides.iter().take(SHOWN) {
        let until = own.until.map(|until| format!(", before {}", crate::moment::print(until.get())));
        lines.push(format!("{:?} has {}{}", own.key.as_str(), own.policy, until.unwrap_or_default()));
    }
    if let Some(more) = entry.overrides.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("and {}", counted(more as u64, "override more", "overrides more")));
    }
    lines.extend(entry.candidate.as_ref().map(|candidate| format!("candidate {candidate}, tried beside it")));
    lines.extend(entry.ban.as_ref().map(|ban| format!("ban {ban}")));
    lines
}

/// The largest number of overrides that are shown.
const SHOWN: usize = 10;

#[derive(Serialize)]
struct ConfigCheckDocument<'a> {
    file: &'a str,
    valid: bool,
    policies: Vec<ConfigPolicyPart>,
    warnings: Vec<MessagePart>,
    errors: Vec<MessagePart>,
    more_errors: usize,
}

#[derive(Serialize)]
struct ConfigPolicyPart {
    name: String,
    limit: String,
    mode: &'static str,
    on_error: &'static str,
    key: Vec<String>,
    allow: usize,
    deny: usize,
    overrides: usize,
    shadow: bool,
    candidate: Option<String>,
    ban: Option<String>,
    usage: bool,
    alerts: Vec<u8>,
    note: Option<String>,
    promises: Vec<String>,
}

impl<'a> ConfigCheckDocument<'a> {
    fn right(file: &'a str, read: &ParsedConfig) -> Self {
        Self {
            file,
            valid: true,
            policies: read.config.policies.iter().map(|entry| policy(entry)).collect(),
            warnings: read.warnings.iter().map(MessagePart::from).collect(),
            errors: Vec::new(),
            more_errors: 0,
        }
    }

    fn wrong(file: &'a str, error: &ConfigError) -> Self {
        Self {
            file,
            valid: false,
            policies: Vec::new(),
            warnings: Vec::new(),
            errors: error.messages.iter().map(MessagePart::from).collect(),
            more_errors: error.more,
        }
    }
}

fn policy(entry: &PolicyEntry) -> ConfigPolicyPart {
    ConfigPolicyPart {
        name: entry.policy.name().to_owned(),
        limit: entry.policy.to_string(),
        mode: entry.policy.mode().name(),
        on_error: entry.policy.on_error().name(),
        key: entry.key.iter().map(ToString::to_string).collect(),
        allow: entry.allow.len(),
        deny: entry.deny.len(),
        overrides: entry.overrides.len(),
        shadow: entry.shadow,
        candidate: entry.candidate.as_ref().map(ToString::to_string),
        ban: entry.ban.as_ref().map(ToString::to_string),
        usage: entry.usage,
        alerts: entry.alerts.clone(),
        note: entry.note.clone(),
        promises: promises(&entry.policy),
    }
}
