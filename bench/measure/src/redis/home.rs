//! The server that is measured: a child of this process, with the library, and a function and a script
//! that do nothing.

use std::fmt::Write;

use redis::{Connection, FromRedisValue};
use tollgate_kit::Server;
use tollgate_redis::lua::{LuaNaming, LuaScript, library};

/// Why a measurement ended.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A function that does nothing.
pub(crate) const EMPTY_FUNCTION: &str = "bench_empty";
const EMPTY: &str = "return 0";

/// A server and a connection to ask it by.
pub(crate) struct Home {
    server: Server,
    connection: Connection,
    /// The script that does nothing.
    pub(crate) empty: LuaScript,
}

impl Home {
    pub(crate) fn start() -> Result<Self, Failure> {
        let server = Server::start()?;
        let connection = server.connection()?;
        let empty = LuaScript::new(EMPTY.to_owned());
        let mut home = Self { server, connection, empty };
        home.renew()?;
        let mut own = "#!lua name=bench\n".to_owned();
        write!(own, "redis.register_function('{EMPTY_FUNCTION}', function() {EMPTY} end)")?;
        for library in [library(LuaNaming::Plain), library(LuaNaming::Testing), &own] {
            let _: String = home.ask(&["FUNCTION", "LOAD", library])?;
        }
        Ok(home)
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.server.connection()?)
    }

    pub(crate) fn load(&mut self, script: &LuaScript) -> Result<(), Failure> {
        let sha: String = self.ask(&["SCRIPT", "LOAD", &script.text])?;
        if sha == script.sha { Ok(()) } else { Err(format!("the server calls a script {sha}").into()) }
    }

    /// Forgets every key and every script, so that neither is freed or looked over by the collector of Lua
    /// while the next thing is measured.
    pub(crate) fn renew(&mut self) -> Result<(), Failure> {
        self.flush()?;
        let _: String = self.ask(&["SCRIPT", "FLUSH", "SYNC"])?;
        self.load(&self.empty.clone())
    }

    /// Sends a command; an error reply is a failure.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> Result<T, Failure> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let shown = || words.join(" ").chars().take(120).collect::<String>();
        command.query(&mut self.connection).map_err(|error| format!("{}: {error}", shown()).into())
    }

    /// Forgets every key at once.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let _: String = self.ask(&["FLUSHALL", "SYNC"])?;
        Ok(())
    }

    /// The processor time the server has used, in microseconds.
    pub(crate) fn cpu(&mut self) -> Result<f64, Failure> {
        let info: String = self.ask(&["INFO", "cpu"])?;
        Ok((field::<f64>(&info, "used_cpu_user")? + field::<f64>(&info, "used_cpu_sys")?) * 1e6)
    }

    /// The bytes the server has allocated.
    pub(crate) fn memory(&mut self) -> Result<f64, Failure> {
        let info: String = self.ask(&["INFO", "memory"])?;
        field(&info, "used_memory")
    }

    /// The bytes of one key, whole.
    pub(crate) fn memory_of(&mut self, key: &str) -> Result<f64, Failure> {
        self.ask(&["MEMORY", "USAGE", key, "SAMPLES", "0"])
    }
}

/// The number on the line `name:number`.
fn field<T: std::str::FromStr>(info: &str, name: &str) -> Result<T, Failure> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| format!("INFO tells no {name}").into())
}
