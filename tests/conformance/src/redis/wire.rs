//! Calling a script or function of a real server, with the time as the last argument.
//!
//! The server is one that this process started, or a user's own by its URL. There nothing is flushed:
//! every key has a prefix of this run and is deleted at its end, and so is the library of the tests.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use redis::{Connection, ConnectionLike, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};
use tollgate_dialects::DialectReply;
use tollgate_kernel::{Policy, Timestamp};
use tollgate_kit::Server;
use tollgate_redis::lua::{
    LuaNaming, LuaScript, algorithms, compact, dialect_script, library, script, with_callers_clock,
};

use crate::home::Refusal;

/// How the Lua is packaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packaging {
    /// EVALSHA.
    Script,
    /// FCALL.
    Function,
}

/// Which server is asked.
#[derive(Clone, Debug)]
pub enum Target {
    /// One of our own, started now and stopped when dropped.
    Own,
    /// A user's.
    Url(String),
}

impl Target {
    /// The server named by `TOLLGATE_CONFORMANCE_URL`, else one of our own.
    pub fn from_env() -> Self {
        std::env::var("TOLLGATE_CONFORMANCE_URL").map_or(Self::Own, Self::Url)
    }
}

/// A connection to a server, and what was left there.
pub struct Wire {
    connection: Connection,
    prefix: Vec<u8>,
    used: HashSet<Vec<u8>>,
    loaded: bool,
    /// Scripts by the SHA of what is installed, with the clock replaced.
    scripts: HashMap<String, Arc<LuaScript>>,
    // Stopped after the connection is closed.
    _server: Option<Server>,
    /// What is loaded instead of the library.
    library: Cow<'static, str>,
}

fn refuse(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(error.to_string())
}

impl Wire {
    /// Connects.
    pub fn open(target: &Target) -> Result<Self, Refusal> {
        let (connection, server) = match target {
            Target::Own => {
                let server = Server::start().map_err(refuse)?;
                (server.connection().map_err(refuse)?, Some(server))
            }
            Target::Url(url) => {
                let client = redis::Client::open(url.as_str()).map_err(refuse)?;
                (client.get_connection().map_err(refuse)?, None)
            }
        };
        let run = std::process::id();
        let prefix = if server.is_some() { Vec::new() } else { format!("tollgate-conformance-{run}:").into_bytes() };
        Ok(Self {
            connection,
            prefix,
            used: HashSet::new(),
            loaded: false,
            scripts: HashMap::new(),
            _server: server,
            library: library(LuaNaming::Testing).into(),
        })
    }

    /// Has the library broken on purpose: `find` becomes `replace`.
    pub fn break_library(&mut self, find: &str, replace: &str) {
        self.library = library(LuaNaming::Testing).replace(find, replace).into();
        self.loaded = false;
    }

    /// A key of this run. A token of `api_counter` keeps its braces around the prefix.
    pub fn key(&self, key: &[u8]) -> Vec<u8> {
        match key.strip_prefix(b"{api:") {
            Some(token) => [b"{api:", &self.prefix[..], token].concat(),
            None => [&self.prefix[..], key].concat(),
        }
    }

    /// Forgets every key of this run.
    pub fn forget(&mut self) -> Result<(), Refusal> {
        if self.prefix.is_empty() {
            return self.ask(redis::cmd("FLUSHALL").arg("SYNC")).map(drop);
        }
        for key in std::mem::take(&mut self.used) {
            self.ask(redis::cmd("DEL").arg(key))?;
        }
        Ok(())
    }

    /// Calls a dialect's function or script.
    pub fn dialect(
        &mut self,
        packaging: Packaging,
        name: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<DialectReply, Refusal> {
        if name == "api_counter" && packaging == Packaging::Script {
            // Its names are derived, so they are not among the keys.
            self.note_derived(keys);
        }
        if let ("slot_window" | "ar1", [key], [_, namespace, ..]) = (name, keys, args) {
            self.used.extend(tollgate_dialects::state_name(namespace, key));
        }
        let script = || dialect_script(name).ok_or_else(|| Refusal::new(format!("{name}: no script")));
        let value = match packaging {
            Packaging::Function => self.call_function(name, keys, args, t)?,
            Packaging::Script => self.call_script(&script()?, keys, args, t)?,
        };
        reply(&value).ok_or_else(|| Refusal::new(format!("a reply of another form: {value:?}")))
    }

    /// Calls `tollgate` or one of its kind on a policy; `args` follow the policy.
    pub fn native(
        &mut self,
        packaging: Packaging,
        call: &str,
        keys: &[Vec<u8>],
        policies: &[&Policy],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<Vec<i64>, Refusal> {
        let value = match packaging {
            Packaging::Function => self.call_function(call, keys, args, t)?,
            Packaging::Script => {
                let names: Vec<&str> = policies.iter().flat_map(|policy| algorithms(policy)).collect();
                let script = script(call, &names).ok_or_else(|| Refusal::new(format!("{call}: no script")))?;
                self.call_script(&script, keys, args, t)?
            }
        };
        match value {
            Value::Int(number) => Ok(vec![number]),
            other => Vec::<i64>::from_redis_value(other).map_err(refuse),
        }
    }

    /// The policy as an argument.
    pub fn policy(policy: &Policy) -> Vec<u8> {
        compact(policy).into_bytes()
    }

    fn call_function(
        &mut self,
        name: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<Value, Refusal> {
        if !self.loaded {
            self.ask(redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(&self.library[..]))?;
            self.loaded = true;
        }
        let mut command = redis::cmd("FCALL");
        command.arg(LuaNaming::Testing.function(name));
        self.send(command, keys, args, t)
    }

    fn call_script(
        &mut self,
        script: &LuaScript,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<Value, Refusal> {
        let made = || Arc::new(LuaScript::new(with_callers_clock(&script.text)));
        let script = Arc::clone(self.scripts.entry(script.sha.clone()).or_insert_with(made));
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.sha);
        let packed = self.pack(command, keys, args, t);
        let unknown = |error: &RedisError| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript);
        match self.connection.req_packed_command(&packed).and_then(Value::extract_error) {
            Err(error) if unknown(&error) => {
                let mut command = redis::cmd("EVAL");
                command.arg(&script.text);
                self.send(command, keys, args, t)
            }
            other => other.map_err(refuse),
        }
    }

    fn send(
        &mut self,
        command: redis::Cmd,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<Value, Refusal> {
        let packed = self.pack(command, keys, args, t);
        self.connection.req_packed_command(&packed).and_then(Value::extract_error).map_err(refuse)
    }

    fn pack(&mut self, mut command: redis::Cmd, keys: &[Vec<u8>], args: &[Vec<u8>], t: Timestamp) -> Vec<u8> {
        command.arg(keys.len());
        for key in keys {
            if !self.prefix.is_empty() {
                self.used.insert(key.clone());
            }
            command.arg(&key[..]);
        }
        for arg in args {
            command.arg(&arg[..]);
        }
        command.arg(t.get());
        command.get_packed_command()
    }

    fn note_derived(&mut self, keys: &[Vec<u8>]) {
        for key in keys {
            self.used.insert([key, &b":data"[..]].concat());
            for minute in 0..60 {
                self.used.insert([key, format!(":{minute}").as_bytes()].concat());
            }
        }
    }

    /// A plain command.
    pub fn ask(&mut self, command: &redis::Cmd) -> Result<Value, Refusal> {
        self.connection.req_command(command).and_then(Value::extract_error).map_err(refuse)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if !self.prefix.is_empty() {
            let _ = self.forget();
            let _ = self.ask(redis::cmd("FUNCTION").arg("DELETE").arg(LuaNaming::Testing.library()));
        }
    }
}

/// A dialect's reply.
pub(crate) fn reply(value: &Value) -> Option<DialectReply> {
    Some(match value {
        Value::Int(number) => DialectReply::Int(*number),
        Value::Nil => DialectReply::Nil,
        Value::BulkString(bytes) => DialectReply::Text(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => DialectReply::Text(text.clone()),
        Value::Array(values) => DialectReply::Array(values.iter().map(reply).collect::<Option<_>>()?),
        _ => return None,
    })
}
