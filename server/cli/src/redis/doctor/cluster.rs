//! The cluster as a whole: its state, its slots, a replica for every primary.

use super::finding::DoctorFinding;
use crate::server::value::field;
use crate::server::{Fleet, ServerError, ServerTarget};

const SLOTS: u64 = 16_384;

/// Returns the findings about a cluster; none about a single server.
pub(super) fn findings(fleet: &mut Fleet, target: &ServerTarget) -> Result<Vec<DoctorFinding>, ServerError> {
    if !fleet.is_cluster {
        return Ok(Vec::new());
    }
    let mut findings = vec![state(fleet)?, followers(fleet)];
    if !target.is_cluster() {
        findings.push(DoctorFinding::warning(
            "url",
            "this server is a node of a cluster, and the URL names one server",
            format!("give stores the URL of the cluster: {}", target.as_cluster()),
        ));
    }
    Ok(findings)
}

fn state(fleet: &mut Fleet) -> Result<DoctorFinding, ServerError> {
    let primaries = fleet.primaries.len();
    for node in &mut fleet.primaries {
        let info: String = node.connection.query(&["CLUSTER", "INFO"])?;
        let number = |name: &str| field(&info, name).and_then(|number| number.parse::<u64>().ok()).unwrap_or_default();
        let (state, covered) = (field(&info, "cluster_state").unwrap_or("unknown"), number("cluster_slots_ok"));
        if state != "ok" || covered < SLOTS {
            return Ok(DoctorFinding::problem(
                "cluster",
                format!("{}: state {state}, {covered} of {SLOTS} slots are served", node.name()),
                "redis-cli --cluster check says which; --cluster fix gives them out again",
            ));
        }
    }
    Ok(DoctorFinding::ok("cluster", format!("state ok, {SLOTS} slots on {primaries} primaries")))
}

fn followers(fleet: &Fleet) -> DoctorFinding {
    let alone: Vec<String> =
        fleet.primaries.iter().filter(|node| node.replica_count() == 0).map(|node| node.name()).collect();
    match alone.is_empty() {
        true => DoctorFinding::ok("failover", "every primary has a replica"),
        false => DoctorFinding::warning(
            "failover",
            format!("no replica follows {}", alone.join(", ")),
            "if it stops, its keys are decided by nobody: add one with redis-cli --cluster add-node --cluster-slave",
        ),
    }
}
