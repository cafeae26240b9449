//! One question over the Redis protocol.

use std::net::SocketAddr;

use redis::{Connection, ConnectionLike, Value};
use tollgate_dialects::DialectReply;

use super::wire::{KeyAndPolicy, refuse};
use crate::home::Refusal;
use crate::redis::reply;

/// A connection.
pub(super) struct Resp(Connection);

impl Resp {
    pub(super) fn open(addr: SocketAddr, token: &str) -> Result<Self, Refusal> {
        let client = redis::Client::open(format!("redis://:{token}@{addr}/")).map_err(refuse)?;
        Ok(Self(client.get_connection().map_err(refuse)?))
    }

    pub(super) fn ask(&mut self, command: &redis::Cmd) -> Result<Value, Refusal> {
        self.0.req_command(command).and_then(Value::extract_error).map_err(refuse)
    }

    /// A call of a dialect.
    pub(super) fn dialect(&mut self, name: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<DialectReply, Refusal> {
        let mut command = match name {
            "cl.throttle" => redis::cmd("CL.THROTTLE"),
            _ => {
                let mut command = redis::cmd("FCALL");
                command.arg(name).arg(keys.len());
                command
            }
        };
        keys.iter().chain(args).for_each(|arg| {
            command.arg(&arg[..]);
        });
        let value = self.ask(&command)?;
        reply(&value).ok_or_else(|| Refusal::new(format!("a reply of another form: {value:?}")))
    }

    pub(super) fn native(&mut self, call: &str, on: &[KeyAndPolicy<'_>], args: &[&str]) -> Result<Vec<i64>, Refusal> {
        let name = match call {
            "tollgate" => "TG.CHECK",
            "tollgate_peek" => "TG.PEEK",
            "tollgate_reset" => "TG.RESET",
            "tollgate_refund" => "TG.REFUND",
            _ => "TG.CHECKALL",
        };
        let mut command = redis::cmd(name);
        for (place, (key, policy)) in on.iter().enumerate() {
            if place > 0 {
                command.arg("AND");
            }
            command.arg(*key).arg(policy.to_string());
            match args.get(place) {
                Some(cost) if name == "TG.CHECKALL" => {
                    command.arg("COST").arg(cost);
                }
                _ => {
                    command.arg(args);
                }
            }
            if !policy.name().is_empty() {
                command.arg("NAME").arg(policy.name());
            }
        }
        match self.ask(&command)? {
            Value::Int(number) => Ok(vec![number]),
            Value::Array(values) => values
                .iter()
                .filter(|value| !matches!(value, Value::BulkString(_)))
                .map(|value| match value {
                    Value::Int(number) => Ok(*number),
                    other => Err(Refusal::new(format!("expected integers, found {other:?}"))),
                })
                .collect(),
            other => Err(Refusal::new(format!("a reply of another form: {other:?}"))),
        }
    }
}
