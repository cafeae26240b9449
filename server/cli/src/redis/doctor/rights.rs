//! The permissions of the user: the commands that the Lua calls on Tollgate's keys, calling the Lua, and loading it. No
//! command is run that would change anything: the server is asked whether it would allow it, or for something that does
//! not exist.

use redis::Value;

use super::facts::NodeFacts;
use super::finding::DoctorFinding;
use crate::server::value::{items, text};
use crate::server::{FleetNode, ServerConnection, ServerError};

const REMEDY: &str = "ACL SETUSER NAME ~tg:* +ping +hello +select +role +cluster|slots +cluster|info +fcall +fcall_ro \
                      +evalsha +eval +time +get +set +pexpire +pttl +unlink +del +hget +hset +hdel";

/// Returns which of the commands that the Lua calls would be refused.
const PROBE: &str = "\
if not redis.acl_check_cmd then return false end
local key, refused = KEYS[1], {}
for _, command in ipairs({
  {'TIME'}, {'GET', key}, {'SET', key, 'x', 'PX', '1'}, {'PEXPIRE', key, '1'}, {'PTTL', key}, {'UNLINK', key},
  {'DEL', key}, {'HGET', key, 'f'}, {'HSET', key, 'f', 'v'}, {'HDEL', key, 'f'},
}) do
  if not redis.acl_check_cmd(unpack(command)) then refused[#refused + 1] = command[1] end
end
return refused";

/// Checks whether scripts and functions may be called, and may call what they need on one of Tollgate's keys.
pub(super) fn commands(node: &mut FleetNode, _: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let key = probe_key(node);
    let mut refused = Vec::new();
    let nowhere = "0000000000000000000000000000000000000000";
    for question in [["EVALSHA", nowhere, "1", key.as_str()], ["FCALL", "tollgate_doctor_probe", "1", key.as_str()]] {
        if forbidden(&mut node.connection, &question)? {
            refused.push(question[0].to_owned());
        }
    }
    let probe = match node.connection.ask(&["EVAL", PROBE, "1", &key]) {
        Err(error) if error.is_forbidden() => return Ok(lacking("EVAL", refused)),
        Err(error @ ServerError::Refused { .. }) => {
            let text = format!("cannot be tried: {}", error.words());
            return Ok(DoctorFinding::warning("rights", text, "ask again when the server takes commands"));
        }
        answer => answer?,
    };
    if probe == Value::Nil {
        return Ok(DoctorFinding::unseen("rights", "redis.acl_check_cmd, which came with Redis 7"));
    }
    refused.extend(items(&probe).iter().filter_map(text));
    Ok(match refused.is_empty() {
        true => DoctorFinding::ok("rights", "calls, and what they do to tg:* keys, are allowed"),
        false => {
            DoctorFinding::problem("rights", format!("the user may not {} on tg:* keys", refused.join(", ")), REMEDY)
        }
    })
}

/// Checks whether libraries may be listed and loaded; without that permission, stores use scripts.
pub(super) fn loading(node: &mut FleetNode, _: &NodeFacts) -> Result<DoctorFinding, ServerError> {
    let mut refused = Vec::new();
    // A library without its first line is refused only after the permission to load was checked.
    for question in [["FUNCTION", "LIST", "LIBRARYNAME", "tollgate"].as_slice(), &["FUNCTION", "LOAD", "return 1"]] {
        if forbidden(&mut node.connection, question)? {
            refused.push(question[..2].join(" "));
        }
    }
    Ok(match refused.is_empty() {
        true => DoctorFinding::ok("loading", "libraries may be listed and loaded"),
        false => DoctorFinding::warning(
            "loading",
            format!("the user may not {}", refused.join(", ")),
            "what is installed can be used, else stores use scripts; or ACL SETUSER NAME +function, or let another user run tollgate redis install",
        ),
    })
}

fn lacking(command: &str, mut refused: Vec<String>) -> DoctorFinding {
    refused.push(command.to_owned());
    DoctorFinding::problem("rights", format!("the user may not {} on tg:* keys", refused.join(", ")), REMEDY)
}

/// Returns whether the server refuses this for lack of permission, and not for any other reason.
fn forbidden<T: AsRef<[u8]>>(connection: &mut ServerConnection, question: &[T]) -> Result<bool, ServerError> {
    match connection.ask(question) {
        Err(error @ ServerError::Refused { .. }) => Ok(error.is_forbidden()),
        Err(error) => Err(error),
        Ok(_) => Ok(false),
    }
}

/// Returns one of Tollgate's keys in a slot of this node; nothing is ever written there.
fn probe_key(node: &FleetNode) -> String {
    let keys = (0..).map(|number: u64| format!("tg:{{tollgate-doctor-{number}}}"));
    let has = |key: &String| {
        let slot = tollgate_redis::slot(key.as_bytes());
        node.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
    };
    // A key for a node with a single slot is found after some 16,384 tries.
    keys.take(200_000).find(has).unwrap_or_else(|| "tg:{tollgate-doctor}".to_owned())
}
