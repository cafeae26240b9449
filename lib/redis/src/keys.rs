//! Commands on plain keys. The store is often the Redis of an application, which keeps its own keys there, so each
//! command is run by a script that first finds out whose its keys are (`lua/keys.lua`): check and act are one step.

use std::sync::Arc;

use redis::Value;
use tollgate_dialects::Output;
use tollgate_kernel::StoreError;

use crate::call::{CallArg, RedisCall};
use crate::custom::output;
use crate::lua;
use crate::slot::slot;
use crate::store::Redis;

/// Which keys a caller reaches: those that hold the state of a limiter or that redis-limiter names, and those that
/// begin with an allowed prefix.
#[derive(Clone, Debug, Default)]
pub struct KeyGuard {
    /// The allowed prefixes.
    pub prefixes: Arc<[Vec<u8>]>,
    /// Whether the caller may delete, shorten or overwrite the state of a limiter.
    pub may_reset: bool,
}

/// A command of `lua/keys.lua`.
#[derive(Clone, Debug)]
pub struct GuardedCommand {
    /// Its name there.
    pub name: &'static str,
    /// Its keys.
    pub keys: Vec<Vec<u8>>,
    /// Its other arguments.
    pub args: Vec<Vec<u8>>,
}

/// What became of a command. `limiters` are the indices of its keys that hold the state of a limiter which the command
/// deletes, shortens or overwrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardedReply {
    /// It was run.
    Done(Output, Vec<usize>),
    /// It changed nothing; holds the error of Redis.
    Failed(String, Vec<usize>),
    /// It changed nothing, because its caller may not reset these keys.
    NeedsReset(Vec<usize>),
    /// It changed nothing, because the key at this index belongs to somebody else.
    Foreign(usize),
}

impl Redis {
    /// Runs commands on keys of a database, one after the other in one step. On a cluster the keys must be in one slot.
    pub async fn run_on_keys(
        &self,
        db: u8,
        guard: &KeyGuard,
        commands: Vec<GuardedCommand>,
    ) -> Result<Vec<GuardedReply>, StoreError> {
        let mut slots = commands.iter().flat_map(|command| &command.keys).map(|key| slot(key));
        let first = slots.next();
        if self.inner.dispatcher.router.is_cluster() && slots.any(|slot| Some(slot) != first) {
            let text = "expected keys of one hash slot (CROSSSLOT): write the part they share in braces, or name each \
                        in a command of its own";
            return Err(StoreError::Refused(text.to_owned()));
        }
        let count = commands.len();
        let value = self.inner.dispatcher.dispatch(call(db, guard, commands)).await?;
        replies(&value, count).ok_or_else(|| unexpected(&value))
    }

    /// Returns the keys among these that a caller reaches, with their types.
    pub(crate) async fn reached(
        &self,
        db: u8,
        guard: &KeyGuard,
        keys: Vec<Vec<u8>>,
    ) -> Result<Vec<(Vec<u8>, String)>, StoreError> {
        let mut found = Vec::new();
        for (keys, output) in self.run_by_slot(db, guard, "LOOK", keys).await? {
            for (key, kind) in keys.into_iter().zip(output.list()) {
                if let Some(kind) = kind.text() {
                    found.push((key, String::from_utf8_lossy(&kind).into_owned()));
                }
            }
        }
        Ok(found)
    }

    /// Deletes the keys among these that a caller reaches; returns how many.
    pub(crate) async fn delete_reached(&self, db: u8, guard: &KeyGuard, keys: Vec<Vec<u8>>) -> Result<u64, StoreError> {
        let gone = self.run_by_slot(db, guard, "FLUSH", keys).await?;
        let count = |(_, output): &(_, Output)| if let Output::Integer(gone) = output { *gone as u64 } else { 0 };
        Ok(gone.iter().map(count).sum())
    }

    /// Runs a command on many keys that need not be in one slot.
    async fn run_by_slot(
        &self,
        db: u8,
        guard: &KeyGuard,
        name: &'static str,
        mut keys: Vec<Vec<u8>>,
    ) -> Result<Vec<(Vec<Vec<u8>>, Output)>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let is_cluster = self.inner.dispatcher.router.is_cluster();
        let place = |key: &[u8]| if is_cluster { slot(key) } else { 0 };
        keys.sort_by_key(|key| place(key));
        let groups: Vec<Vec<Vec<u8>>> =
            keys.chunk_by(|one, other| place(one) == place(other)).map(<[Vec<u8>]>::to_vec).collect();
        let command = |keys: &Vec<Vec<u8>>| GuardedCommand { name, keys: keys.clone(), args: Vec::new() };
        let calls = groups.iter().map(|keys| call(db, guard, vec![command(keys)])).collect();
        let answers = self.inner.dispatcher.dispatch_many(calls).await;
        groups
            .into_iter()
            .zip(answers)
            .map(|(keys, answer)| {
                let value = answer?;
                match replies(&value, 1).as_deref() {
                    Some([GuardedReply::Done(output, _)]) => Ok((keys, output.clone())),
                    Some([GuardedReply::Failed(line, _)]) => Err(StoreError::Refused(line.clone())),
                    _ => Err(unexpected(&value)),
                }
            })
            .collect()
    }
}

fn call(db: u8, guard: &KeyGuard, commands: Vec<GuardedCommand>) -> RedisCall {
    let (mut keys, mut args) = (Vec::new(), vec![CallArg::Word(if guard.may_reset { "1" } else { "0" })]);
    args.push(CallArg::Number(guard.prefixes.len() as u64));
    args.extend(guard.prefixes.iter().cloned().map(CallArg::Bytes));
    for command in commands {
        args.push(CallArg::Word(command.name));
        args.extend([command.keys.len(), command.args.len()].map(|count| CallArg::Number(count as u64)));
        args.extend(command.args.into_iter().map(CallArg::Bytes));
        keys.extend(command.keys);
    }
    RedisCall::of_script(lua::keys_script(), keys, args).in_database(db)
}

fn replies(value: &Value, count: usize) -> Option<Vec<GuardedReply>> {
    let Value::Array(values) = value else { return None };
    let replies: Option<Vec<GuardedReply>> = values.iter().map(reply).collect();
    replies.filter(|replies| replies.len() == count)
}

/// Reads one reply: its code, its value, and which keys are of limiters.
fn reply(value: &Value) -> Option<GuardedReply> {
    let Value::Array(parts) = value else { return None };
    let [Value::Int(code), value, places @ ..] = parts.as_slice() else { return None };
    let place = |value: &Value| match value {
        Value::Int(place) => usize::try_from(*place).ok()?.checked_sub(1),
        _ => None,
    };
    let limiters: Option<Vec<usize>> = places.iter().map(place).collect();
    Some(match code {
        0 => GuardedReply::Done(output(value), limiters?),
        1 => GuardedReply::Failed(String::from_utf8_lossy(&output(value).text()?).into_owned(), limiters?),
        2 => GuardedReply::NeedsReset(limiters?),
        3 => GuardedReply::Foreign(place(value)?),
        _ => return None,
    })
}

fn unexpected(value: &Value) -> StoreError {
    StoreError::Refused(format!("expected a reply for each command on keys, found {value:?}"))
}
