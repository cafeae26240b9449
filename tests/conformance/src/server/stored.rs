//! A server with `--store`: its keys are in a redis-server of its own, where the Lua decides by the clock of the tests.
//!
//! The library that the server's store calls is loaded before it, with the clock replaced by a key that the tests set. So
//! what runs is the program as it is, and no part of it knows of the tests.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_daemon::ServerSettings;
use tollgate_dialects::{DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Timestamp};
use tollgate_kit::Server;
use tollgate_redis::lua::{LuaNaming, library, with_callers_clock};
use tollgate_redis::{Packaging, Redis, state_key};

use super::wire::{FrontEnd, KeyAndPolicy, ServerConnections, refuse};
use crate::home::Refusal;
use crate::redis::{RecordLookup, Target, Trace, Wire, cells};

/// The key that holds the time.
const CLOCK: &str = "conformance:clock";

/// A server with a store of its own.
pub struct StoredServer {
    served: ServerConnections,
    wire: Wire,
    // Stopped in this order, after the server.
    _store: StoreThread,
    _redis: Server,
}

impl StoredServer {
    /// Starts one.
    pub fn open() -> Result<Self, Refusal> {
        let redis = Server::start().map_err(refuse)?;
        let mut wire = Wire::open(&Target::Url(redis.url()))?;
        let text = with_callers_clock(library(LuaNaming::Versioned));
        let (ours, theirs) = ("table.remove(args)", format!("call('GET', '{CLOCK}')"));
        if !text.contains(ours) {
            return Err(Refusal::new("expected the caller's clock in the library"));
        }
        wire.ask(redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(text.replace(ours, &theirs)))?;
        let store = StoreThread::start(redis.url())?;
        let settings = ServerSettings { store: Some(store.store.clone()), ..ServerSettings::default() };
        Ok(Self { served: ServerConnections::with(settings)?, wire, _store: store, _redis: redis })
    }

    /// Starts one for a trace on a server of our own; a trace on a user's, or with a fault, has none.
    pub(crate) fn for_trace(trace: &Trace) -> Result<Option<Self>, Refusal> {
        let is_own = matches!(trace.target, Target::Own) && trace.fault.is_none() && trace.stored > 0;
        is_own.then(Self::open).transpose()
    }

    /// The same server, its keys forgotten.
    pub(crate) fn forgotten(&mut self) -> Result<&mut Self, Refusal> {
        self.forget()?;
        Ok(self)
    }

    /// Forgets all keys.
    pub fn forget(&mut self) -> Result<(), Refusal> {
        self.wire.ask(redis::cmd("FLUSHALL").arg("SYNC")).map(drop)
    }

    /// Forgets what policies of a name hold at a key, whatever their texts.
    pub fn forget_key(&mut self, key: &[u8], name: &str) -> Result<(), Refusal> {
        let state = state_key(key, name);
        // What callers bring under a name is filed under a longer one.
        let pattern = if name.is_empty() { state } else { [&state[..], b"*"].concat() };
        let redis::Value::Array(held) = self.wire.ask(redis::cmd("KEYS").arg(pattern))? else { return Ok(()) };
        held.into_iter().try_for_each(|held| match held {
            redis::Value::BulkString(held) => self.wire.ask(redis::cmd("DEL").arg(held)).map(drop),
            other => Err(Refusal::new(format!("expected a key, found {other:?}"))),
        })
    }

    fn set(&mut self, t: Timestamp) -> Result<(), Refusal> {
        self.wire.ask(redis::cmd("SET").arg(CLOCK).arg(t.get())).map(drop)
    }

    /// Asks as [`ServerConnections::native`].
    pub fn native(
        &mut self,
        front: FrontEnd,
        call: &str,
        on: &[KeyAndPolicy<'_>],
        args: &[&str],
        t: Timestamp,
    ) -> Result<Vec<i64>, Refusal> {
        self.set(t)?;
        self.served.native(front, call, on, args, t)
    }

    /// Calls a dialect as [`ServerConnections::dialect`].
    pub fn dialect(
        &mut self,
        name: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<DialectReply, Refusal> {
        self.set(t)?;
        self.served.dialect(name, keys, args, t)
    }

    /// The cells of a call's limits, as the store holds them.
    pub(super) fn cells(&mut self, key: &[u8], call: &ParsedCall) -> Result<Vec<Cell>, Refusal> {
        cells(&mut self.wire, key, call.policy(), RecordLookup::Place)
    }
}

/// The thread in which the connections of the store live.
struct StoreThread {
    store: Redis,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    fn start(url: String) -> Result<Self, Refusal> {
        let (ready, opened) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let run = async move {
            // The deadline is for a busy machine: nothing here is to be decided by what stands in.
            let settings = Redis::builder(&url).packaging(Packaging::Function).deadline(Duration::from_secs(10));
            let _ = ready.send(settings.connect().await.map_err(refuse));
            let _ = stopped.await;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refuse)?;
        let thread = std::thread::spawn(move || runtime.block_on(run));
        let store = opened.recv().map_err(refuse)??;
        Ok(Self { store, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
