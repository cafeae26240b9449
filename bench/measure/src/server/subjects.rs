//! What is measured: a command of a server, each with its own start of that server.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_kit::Server;
use tollgate_redis::lua::{LuaNaming, library};

use crate::process::{Process, ServerCommand};
use crate::replies::Form;
use crate::{Failure, RunOptions};

/// Keys of the load; the number after the last is for what is not load.
pub(crate) const KEYS: u32 = 100_000;
/// What every limit allows a minute.
pub(crate) const COUNT: usize = 100;

/// One command of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) home: Home,
    /// The command, with NUMBER in its key.
    pub(crate) words: &'static [&'static str],
    pub(crate) form: Form,
    /// How the first reply on a new key begins.
    pub(crate) first: &'static [i64],
}

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Redis,
    Throttlecrab,
    /// The same with TCP_NODELAY forced on.
    ThrottlecrabForced,
    Tollgate,
    /// Redis with its append-only file, and Tollgate with its journal, both synced every second.
    RedisKept,
    TollgateKept,
}

/// What everything is compared with.
pub(crate) static INCR: Subject =
    Subject { name: "redis INCR", home: Home::Redis, words: &["INCR", "key:NUMBER"], form: Form::Integer, first: &[1] };

/// Allowed, granted, remaining.
const FRESH: &[i64] = &[1, 1, COUNT as i64 - 1];
const THROTTLE: &[&str] = &["THROTTLE", "key:NUMBER", "100", "100", "60"];
/// Allowed, limit, remaining.
const THROTTLED: &[i64] = &[1, COUNT as i64, COUNT as i64 - 1];

/// Everything else, in the order of the report.
#[rustfmt::skip]
pub(crate) static SUBJECTS: &[Subject] = &[
    Subject {
        name: "redis function 100/min gcra", home: Home::Redis, form: Form::Array(6), first: FRESH,
        words: &["FCALL", "tollgate", "1", "tg:{key:NUMBER}", "100/min gcra"],
    },
    Subject {
        name: "redis function 100/min", home: Home::Redis, form: Form::Array(6), first: FRESH,
        words: &["FCALL", "tollgate", "1", "tg:{key:NUMBER}", "100/min"],
    },
    Subject {
        name: "throttlecrab as shipped", home: Home::Throttlecrab, form: Form::Array(5), first: THROTTLED,
        words: THROTTLE,
    },
    Subject {
        name: "throttlecrab TCP_NODELAY", home: Home::ThrottlecrabForced, form: Form::Array(5), first: THROTTLED,
        words: THROTTLE,
    },
    Subject {
        name: "tollgate 100/min gcra", home: Home::Tollgate, form: Form::Array(6), first: FRESH,
        words: &["TG.CHECK", "key:NUMBER", "100/min gcra"],
    },
    Subject {
        name: "tollgate 100/min", home: Home::Tollgate, form: Form::Array(6), first: FRESH,
        words: &["TG.CHECK", "key:NUMBER", "100/min"],
    },
    Subject {
        name: "redis INCR, AOF", home: Home::RedisKept, form: Form::Integer, first: &[1],
        words: &["INCR", "key:NUMBER"],
    },
    Subject {
        name: "tollgate 100/min gcra, journal", home: Home::TollgateKept, form: Form::Array(6), first: FRESH,
        words: &["TG.CHECK", "key:NUMBER", "100/min gcra"],
    },
    Subject {
        name: "tollgate 100/min, journal", home: Home::TollgateKept, form: Form::Array(6), first: FRESH,
        words: &["TG.CHECK", "key:NUMBER", "100/min"],
    },
];

/// A server that runs until it is dropped.
pub(crate) enum RunningServer {
    Redis(Server),
    Other(Process),
}

impl RunningServer {
    pub(crate) fn start(home: Home, options: &RunOptions) -> Result<Self, Failure> {
        match home {
            Home::Redis => {
                let server = Server::start()?;
                let mut load = redis::cmd("FUNCTION");
                load.arg("LOAD").arg(library(LuaNaming::Plain)).exec(&mut server.connection()?)?;
                Ok(Self::Redis(server))
            }
            Home::RedisKept => {
                let kept = Server::builder().option("appendonly", "yes").option("appendfsync", "everysec");
                Ok(Self::Redis(kept.start()?))
            }
            Home::Throttlecrab => Ok(Self::Other(Process::start(&throttlecrab(options, None)?)?)),
            Home::ThrottlecrabForced => {
                let nodelay = given(&options.nodelay, "--nodelay")?;
                Ok(Self::Other(Process::start(&throttlecrab(options, Some(nodelay))?)?))
            }
            Home::Tollgate => Ok(Self::Other(Process::start(&tollgate(options, "")?)?)),
            Home::TollgateKept => {
                let data = "--data FOLDER/data --persist journal --fsync everysec";
                Ok(Self::Other(Process::start(&tollgate(options, data)?)?))
            }
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        match self {
            Self::Redis(server) => server.addr(),
            Self::Other(process) => process.addr(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Redis(server) => server.pid(),
            Self::Other(process) => process.pid(),
        }
    }
}

fn throttlecrab(options: &RunOptions, preload: Option<PathBuf>) -> Result<ServerCommand, Failure> {
    let args = words("--redis --redis-host 127.0.0.1 --redis-port PORT");
    Ok(ServerCommand { program: given(&options.throttlecrab, "--throttlecrab")?, args, preload })
}

fn tollgate(options: &RunOptions, more: &str) -> Result<ServerCommand, Failure> {
    let args = [words("serve --resp 127.0.0.1:PORT --http off"), words(more), words(&options.serve)].concat();
    Ok(ServerCommand { program: given(&options.tollgate, "--tollgate")?, args, preload: None })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn given(path: &Option<PathBuf>, flag: &str) -> Result<PathBuf, Failure> {
    path.clone().ok_or_else(|| format!("expected {flag} PATH; cargo xtask bench server gives it").into())
}
