//! `tollgate redis doctor`: what is wrong with a server, and what to do about it. It changes nothing.
//!
//! | file | what it is |
//! |---|---|
//! | `finding.rs` | a finding; the same finding on several nodes |
//! | `facts.rs` | what a node reports about itself: INFO and CONFIG |
//! | `network.rs` | round trips and clocks |
//! | `server.rs` | version, role, eviction, persistence, replicas |
//! | `cluster.rs` | the cluster as a whole |
//! | `rights.rs` | the permissions of the user |
//! | `installed.rs` | Tollgate's libraries |

mod cluster;
mod facts;
mod finding;
mod installed;
mod network;
mod rights;
mod server;

use clap::Args;
use serde::Serialize;

use super::FOUND;
use crate::CommandOutput;
use crate::error::CliError;
use crate::server::{AuthorityArgs, Fleet, FleetNode, ServerError, ServerTarget};
use crate::text::{self, hanging};
use facts::NodeFacts;
use finding::{DoctorFinding, FindingLevel, merged};

const EXAMPLES: &str = "\
Examples:
  tollgate redis doctor redis://127.0.0.1:6379
  tollgate redis doctor redis+cluster://10.0.0.1,10.0.0.2 --json

It only asks, and leaves nothing behind. Of a cluster every primary is asked.
Exit code: 0 no problem, perhaps warnings; 1 a problem; 2 it cannot be run.";

/// What `tollgate redis doctor` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// redis://, rediss://, redis+cluster:// or redis+sentinel://
    url: String,

    #[command(flatten)]
    authority: AuthorityArgs,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Omits the URL, which may hold a password.
impl std::fmt::Debug for DoctorArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DoctorArgs").finish_non_exhaustive()
    }
}

/// The document of `redis doctor`.
#[derive(Serialize)]
struct DoctorDocument<'a> {
    server: String,
    findings: &'a [DoctorFinding],
}

/// A check of one node.
type NodeCheck = fn(&mut FleetNode, &NodeFacts) -> Result<DoctorFinding, ServerError>;

/// The checks of every node, in the order of the output.
const CHECKS: &[NodeCheck] = &[
    server::version,
    server::role,
    server::eviction,
    server::persistence,
    server::replicas,
    rights::commands,
    rights::loading,
    installed::libraries,
];

/// Runs the command; returns what to print.
pub(crate) fn run(args: &DoctorArgs) -> Result<CommandOutput, CliError> {
    let target = ServerTarget::redis(&args.url, &args.authority)?;
    let (mut fleet, away) = Fleet::open_some(&target)?;
    let mut findings = network::lost(&away);
    findings.extend(examine(&mut fleet, &target)?);
    let code = if findings.iter().any(|finding| finding.level == FindingLevel::Problem) { FOUND } else { 0 };
    let text = match args.json {
        true => text::json(&DoctorDocument { server: target.to_string(), findings: &findings }),
        false => print(&findings),
    };
    Ok(CommandOutput { text, code })
}

fn examine(fleet: &mut Fleet, target: &ServerTarget) -> Result<Vec<DoctorFinding>, CliError> {
    let mut findings = network::findings(fleet)?;
    findings.extend(cluster::findings(fleet, target)?);
    let facts =
        fleet.primaries.iter_mut().map(|node| NodeFacts::of(&mut node.connection)).collect::<Result<Vec<_>, _>>()?;
    for check in CHECKS {
        let mut found = Vec::new();
        for (node, facts) in fleet.primaries.iter_mut().zip(&facts) {
            found.push((node.name(), check(node, facts)?));
        }
        findings.extend(merged(found));
    }
    Ok(findings)
}

fn print(findings: &[DoctorFinding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text += &hanging(&format!("  {:<7}  {:<11}  ", finding.level.word(), finding.topic), &finding.text);
        if let Some(remedy) = &finding.remedy {
            text += &hanging(&" ".repeat(24), remedy);
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count() as u64;
    let (problems, warnings) = (count(FindingLevel::Problem), count(FindingLevel::Warning));
    let summary = match (problems, warnings) {
        (0, 0) => "all is well".to_owned(),
        _ => format!(
            "{}, {}",
            text::counted(problems, "problem", "problems"),
            text::counted(warnings, "warning", "warnings")
        ),
    };
    format!("{text}\n{summary}\n")
}
