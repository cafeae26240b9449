//! What the server reports of a run: processor time and memory; and the removal of its keys.

use std::hash::{BuildHasher, RandomState};

use redis::Value;
use tollgate_redis::lua::LuaScript;

use super::subject::BenchSubject;
use crate::server::value::field;
use crate::server::{Fleet, ServerError, write_command};

/// The number of keys whose memory is queried.
const SAMPLES: usize = 100;
/// The number of commands sent at once when keys are removed.
const BATCH: usize = 500;

/// Returns a number that differs between runs.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Loads the script on every primary.
pub(super) fn load(fleet: &mut Fleet, script: &LuaScript) -> Result<(), ServerError> {
    fleet.primaries.iter_mut().try_for_each(|node| node.connection.ask(&["SCRIPT", "LOAD", &script.text]).map(|_| ()))
}

/// Returns the seconds of processor time that all primaries have used; `None` if they do not report it.
pub(super) fn cpu(fleet: &mut Fleet) -> Option<f64> {
    let mut total = 0.0;
    for node in &mut fleet.primaries {
        let info: String = node.connection.query(&["INFO", "cpu"]).ok()?;
        for name in ["used_cpu_sys", "used_cpu_user"] {
            total += field(&info, name)?.parse::<f64>().ok()?;
        }
    }
    Some(total)
}

/// Returns the bytes that a key takes on average, by MEMORY USAGE of a sample.
pub(super) fn bytes_per_key(fleet: &mut Fleet, subject: &BenchSubject, keys: &[Vec<u8>]) -> Option<u64> {
    let (mut bytes, mut found) = (0, 0);
    for key in keys.iter().step_by(keys.len().div_ceil(SAMPLES).max(1)) {
        let node = fleet.place_of(key);
        let connection = &mut fleet.primaries.get_mut(node)?.connection;
        let mut own = 0;
        for name in subject.names(key) {
            let question: [&[u8]; 5] = [b"MEMORY", b"USAGE", &name, b"SAMPLES", b"0"];
            if let Value::Int(size) = connection.ask(&question).ok()? {
                own += u64::try_from(size).unwrap_or_default();
            }
        }
        bytes += own;
        found += u64::from(own > 0);
    }
    bytes.checked_div(found)
}

/// Removes the keys of a run; returns how many there were.
pub(super) fn remove(fleet: &mut Fleet, subject: &BenchSubject, keys: &[Vec<u8>]) -> Result<u64, ServerError> {
    let (mut removed, is_tollgate) = (0, fleet.is_tollgate);
    for place in 0..fleet.primaries.len() {
        let own: Vec<&Vec<u8>> = keys.iter().filter(|key| fleet.place_of(key) == place).collect();
        let Some(node) = fleet.primaries.get_mut(place) else { continue };
        for batch in own.chunks(BATCH) {
            let mut bytes = Vec::new();
            for key in batch {
                write_command(&mut bytes, &subject.removal(key, is_tollgate));
            }
            node.connection.send(&bytes)?;
            let replies = batch.iter().map(|_| node.connection.receive()).collect::<Result<Vec<_>, _>>()?;
            for reply in replies {
                if let Value::Int(gone) = node.connection.check_reply(reply, || "the removal of its keys".to_owned())? {
                    removed += u64::try_from(gone).unwrap_or_default();
                }
            }
        }
    }
    Ok(removed)
}
