//! What one node reports: version, role, eviction, persistence, replicas.

use super::facts::NodeFacts;
use super::finding::DoctorFinding;
use crate::server::{FleetNode, ServerError};

/// The first release with function libraries.
const MIN: u64 = 7;

pub(super) fn version(_: &mut FleetNode, facts: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    if let Some(valkey) = facts.info("valkey_version") {
        return Ok(DoctorFinding::ok("server", format!("Valkey {valkey}")));
    }
    let Some(redis) = facts.info("redis_version") else { return Ok(DoctorFinding::unseen("server", "INFO")) };
    let major: Option<u64> = redis.split('.').next().and_then(|major| major.parse().ok());
    Ok(match major.is_some_and(|major| major >= MIN) {
        true => DoctorFinding::ok("server", format!("Redis {redis}")),
        false => DoctorFinding::warning(
            "server",
            format!("Redis {redis}, which knows no function libraries"),
            "scripts are used instead; Redis 7 or Valkey is what tollgate is tested with",
        ),
    })
}

pub(super) fn role(_: &mut FleetNode, facts: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    Ok(match facts.info("role") {
        None => DoctorFinding::unseen("role", "INFO"),
        Some("master") => DoctorFinding::ok("role", "primary"),
        Some(_) => DoctorFinding::problem(
            "role",
            format!("replica of {}: it takes no writes", facts.info("master_host").unwrap_or("another")),
            "name the primary in the URL, or its sentinels: redis+sentinel://HOST:26379/MASTER",
        ),
    })
}

/// Checks whether the server may evict counters that are still in use.
pub(super) fn eviction(_: &mut FleetNode, facts: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let Some(policy) = facts.info("maxmemory_policy") else { return Ok(DoctorFinding::unseen("eviction", "INFO")) };
    let cap = facts.number("maxmemory").unwrap_or_default();
    let used = facts.number("used_memory").unwrap_or_default();
    let remedy = "CONFIG SET maxmemory-policy noeviction, or volatile-ttl: it evicts what ends soonest";
    let later = if cap == 0 { ", as soon as maxmemory is set" } else { "" };
    Ok(match policy {
        _ if policy.starts_with("allkeys") => DoctorFinding::problem(
            "eviction",
            format!("{policy}: it may evict counters that still count{later}"),
            remedy,
        ),
        "noeviction" if cap > 0 && used >= cap / 10 * 9 => DoctorFinding::warning(
            "eviction",
            format!("noeviction, and {} % of maxmemory is used", used.saturating_mul(100) / cap),
            "at 100 % every decision that has to write is refused: raise maxmemory",
        ),
        "noeviction" | "volatile-ttl" => DoctorFinding::ok("eviction", format!("{policy}: no counter goes early")),
        _ => DoctorFinding::warning(
            "eviction",
            format!("{policy}: it may evict counters that still count{later}"),
            remedy,
        ),
    })
}

/// Checks what a restart loses.
pub(super) fn persistence(_: &mut FleetNode, facts: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let Some(aof) = facts.info("aof_enabled") else { return Ok(DoctorFinding::unseen("persistence", "INFO")) };
    if aof == "1" {
        let lost = match facts.config("appendfsync") {
            Some("always") => "nothing",
            Some("everysec") => "a second or two",
            _ => "what the system had not written yet",
        };
        return Ok(DoctorFinding::ok("persistence", format!("appendonly: a crash forgets {lost}")));
    }
    let remedy = "a forgotten key may take one more burst; CONFIG SET appendonly yes keeps it";
    Ok(match facts.config("save") {
        Some("") => DoctorFinding::warning("persistence", "none: a restart forgets every counter", remedy),
        Some(save) => DoctorFinding::ok(
            "persistence",
            format!("snapshots ({save}): a crash forgets what was charged since the last"),
        ),
        None => {
            DoctorFinding::warning("persistence", "no appendonly: a crash forgets at least the latest charges", remedy)
        }
    })
}

/// Checks whether a primary that lost its replicas continues to grant by itself.
pub(super) fn replicas(_: &mut FleetNode, facts: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let Some(followers) = facts.number("connected_slaves") else {
        return Ok(DoctorFinding::unseen("replicas", "INFO"));
    };
    if followers == 0 {
        return Ok(DoctorFinding::ok("replicas", "none follow, so no failover can forget charges"));
    }
    Ok(match facts.config("min-replicas-to-write") {
        None => DoctorFinding::unseen("replicas", "CONFIG GET"),
        Some("0") => DoctorFinding::warning(
            "replicas",
            format!("{followers} and min-replicas-to-write 0: cut off from them, both sides grant"),
            "CONFIG SET min-replicas-to-write 1 bounds that to min-replicas-max-lag seconds; without a replica \
             the primary then refuses writes",
        ),
        Some(least) => {
            let lag = facts.config("min-replicas-max-lag").unwrap_or("10");
            DoctorFinding::ok("replicas", format!("{followers}, at least {least} of them within {lag}s"))
        }
    })
}
