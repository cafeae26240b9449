//! Scripts and functions of callers, passed on to the server as they are. They may reach any key that the server lets
//! this store reach, so the program that offers this decides which callers may do it.

use redis::{Pipeline, Value};
use tollgate_kernel::StoreError;

use crate::call::{CallArg, RedisCall};
use crate::slot::slot;
use crate::store::Redis;
use crate::verdict::words;

/// A command that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedCommand {
    /// A script by its text.
    Eval,
    /// The same, for scripts that only read.
    EvalRo,
    /// A script by its SHA-1.
    EvalSha,
    /// The same, for scripts that only read.
    EvalShaRo,
    /// A function.
    Fcall,
    /// The same, for functions that only read.
    FcallRo,
    /// SCRIPT LOAD and SCRIPT EXISTS.
    Script,
    /// FUNCTION LOAD.
    Function,
}

/// The reply to a command that was passed on.
#[derive(Clone, Debug, PartialEq)]
pub enum ForwardedReply {
    /// No value.
    Nil,
    /// An integer.
    Integer(i64),
    /// A text of any bytes.
    Bulk(Vec<u8>),
    /// A status, such as OK.
    Status(String),
    /// An error, its code first.
    Error(String),
    /// Several replies.
    List(Vec<ForwardedReply>),
}

impl ForwardedCommand {
    const fn name(self) -> &'static str {
        match self {
            Self::Eval => "EVAL",
            Self::EvalRo => "EVAL_RO",
            Self::EvalSha => "EVALSHA",
            Self::EvalShaRo => "EVALSHA_RO",
            Self::Fcall => "FCALL",
            Self::FcallRo => "FCALL_RO",
            Self::Script => "SCRIPT",
            Self::Function => "FUNCTION",
        }
    }
}

impl Redis {
    /// Passes a command on: `keys` say to which server, `args` are all words after the command's name. An error of the
    /// server is a reply. SCRIPT and FUNCTION go to all nodes of a cluster.
    pub async fn forward(
        &self,
        db: u8,
        command: ForwardedCommand,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<ForwardedReply, StoreError> {
        if matches!(command, ForwardedCommand::Script | ForwardedCommand::Function) {
            return self.forward_to_all(db, command, args).await;
        }
        let first = keys.first().map(|key| slot(key));
        if self.inner.dispatcher.router.is_cluster() && keys.iter().any(|key| Some(slot(key)) != first) {
            let line = "CROSSSLOT Keys in request don't hash to the same slot".to_owned();
            return Ok(ForwardedReply::Error(line));
        }
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        let args = args.iter().map(|arg| CallArg::Bytes(arg.to_vec())).collect();
        let call = RedisCall::forwarded(command.name(), keys, args).in_database(db);
        match self.inner.dispatcher.dispatch(call).await {
            Ok(value) => Ok(reply(&value)),
            Err(StoreError::Refused(line)) => Ok(ForwardedReply::Error(with_code(line))),
            Err(error) => Err(error),
        }
    }

    async fn forward_to_all(
        &self,
        db: u8,
        command: ForwardedCommand,
        args: &[&[u8]],
    ) -> Result<ForwardedReply, StoreError> {
        let mut first = None;
        for link in self.nodes(db).await? {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd(command.name());
            args.iter().for_each(|arg| {
                pipeline.arg(*arg);
            });
            let reply = reply(&self.query(&link, pipeline).await?);
            if matches!(reply, ForwardedReply::Error(_)) {
                return Ok(reply);
            }
            first.get_or_insert(reply);
        }
        Ok(first.unwrap_or(ForwardedReply::Nil))
    }
}

/// Returns an error line with a code in front: an error of this store has none.
fn with_code(line: String) -> String {
    let code = line.split(' ').next().unwrap_or_default();
    if !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase()) { line } else { format!("ERR {line}") }
}

fn reply(value: &Value) -> ForwardedReply {
    match value {
        Value::Int(number) => ForwardedReply::Integer(*number),
        Value::BulkString(bytes) => ForwardedReply::Bulk(bytes.clone()),
        Value::SimpleString(text) => ForwardedReply::Status(text.clone()),
        Value::Okay => ForwardedReply::Status("OK".to_owned()),
        Value::ServerError(error) => ForwardedReply::Error(words(error)),
        Value::Array(values) => ForwardedReply::List(values.iter().map(reply).collect()),
        // The connection speaks RESP2, which has no other types.
        _ => ForwardedReply::Nil,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_code() {
        for (line, expected) in [
            ("NOSCRIPT No matching script.", "NOSCRIPT No matching script."),
            ("expected redis+cluster:// for a node", "ERR expected redis+cluster:// for a node"),
            ("", "ERR "),
        ] {
            assert_eq!(with_code(line.to_owned()), expected);
        }
    }
}
