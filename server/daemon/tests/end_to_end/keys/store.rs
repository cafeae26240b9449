//! With Redis as the store, dialects are decided there, on its keys; and the Rust store takes the server for a Redis.

use tollgate_daemon::ServerSettings;
use tollgate_kernel::{Cost, Policy, Request, Source, Store};
use tollgate_kit::Server;
use tollgate_redis::{Packaging, Redis, RedisBuilder};

use crate::keys::support::KeysTestServer;

/// A store whose tasks run in a thread of their own, which ends with it.
pub(crate) struct OpenStore {
    store: Redis,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl OpenStore {
    /// Opens it with these settings and a deadline that a busy machine keeps.
    pub(crate) fn new(url: String, settings: impl FnOnce(&str) -> RedisBuilder + Send + 'static) -> Self {
        Self::within(url, std::time::Duration::from_secs(10), settings)
    }

    pub(crate) fn within(
        url: String,
        deadline: std::time::Duration,
        settings: impl FnOnce(&str) -> RedisBuilder + Send + 'static,
    ) -> Self {
        Self::open(async move || settings(&url).deadline(deadline).connect().await.unwrap())
    }

    /// Opens it without a connection to its server.
    pub(crate) fn lazy(url: &'static str, deadline: std::time::Duration) -> Self {
        Self::open(async move || Redis::builder(url).deadline(deadline).lazy().unwrap())
    }

    fn open(store: impl AsyncFnOnce() -> Redis + Send + 'static) -> Self {
        let (ready, opened) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                ready.send(store().await).unwrap();
                let _ = stopped.await;
            });
        });
        Self { store: opened.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn store(&self) -> Redis {
        self.store.clone()
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn dialects_are_decided_where_the_keys_are() {
    let redis = Server::start().unwrap();
    let store = OpenStore::new(redis.url(), Redis::builder);
    let mut server = KeysTestServer::with(ServerSettings { store: Some(store.store()), ..ServerSettings::default() });
    // Clients ask this before they believe that a server is ready.
    assert!(server.ask("INFO").contains("loading:0"));
    server.expect(&[
        ("FCALL fixed_window 1 f 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        ("FCALL fixed_window 1 f 1 60", "*2 $5 block *3 $1 1 $2 60 $1 0"),
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 1 60", "*2 $4 deny *3 $1 1 $2 60 $1 0"),
        ("FCALL sliding_window 1 w 60000 1", ":0"),
        ("FCALL sliding_window 1 w 60000 1", ":1"),
        ("FCALL slot_window 1 s 1 ns [[1,5,1]] 1700000040 0", "$-1"),
        ("FCALL sliding_window 1 f", "-ERR arguments: expected 2 or more (size, limit, ..., extra_ttl), found 0"),
    ]);
    let mut there = redis.connection().unwrap();
    let count: i64 = redis::cmd("EXISTS").arg(&["f", "w", "ns:{s}"]).query(&mut there).unwrap();
    assert_eq!(count, 3);
    let _: () = redis::cmd("SET").arg("text").arg("x").query(&mut there).unwrap();
    assert!(server.ask("FCALL fixed_window 1 text 1 60").starts_with("-WRONGTYPE Operation against a key"));
    server.expect(&[
        ("CL.THROTTLE k 15 30 60", "*5 :0 :16 :15 :-1 :2"),
        ("MULTI", "+OK"),
        ("FCALL fixed_window 1 m 1 60", "+QUEUED"),
        ("EXISTS m", "+QUEUED"),
        ("EXEC", "*2 *2 $5 allow *3 $1 1 $2 60 $1 0 :1"),
    ]);
    let count: i64 = redis::cmd("EXISTS").arg(&["k", "m"]).query(&mut there).unwrap();
    assert_eq!(count, 2);
}

#[test]
fn the_rust_store_takes_the_server_for_a_redis() {
    for packaging in [Packaging::Function, Packaging::Script] {
        let mut server = KeysTestServer::new();
        let addr = server.server.resp_addr().unwrap();
        let token = server.server.token().unwrap().text();
        let settings = move |url: &str| Redis::builder(url).packaging(packaging);
        let opened = OpenStore::new(format!("redis://:{token}@{addr}/"), settings);
        let store = opened.store();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let policy: Policy = "5/min, 100/h gcra burst=20".parse().unwrap();
        let policy = policy.with_name("login").unwrap();
        runtime.block_on(async {
            let decision = store.check(&policy, b"a{b}%", Request::cost(Cost::new(2).unwrap())).await.unwrap();
            assert_eq!((decision.source, decision.remaining), (Source::Home, 3));
            let (decision, details) = store.check_full(&policy, b"a{b}%", Request::ONE.peek()).await.unwrap();
            assert_eq!((decision.remaining, details.len(), details[1].remaining), (3, 2, 18));
            assert_eq!(store.refund(&policy, b"a{b}%", Cost::ONE, decision.at).await.unwrap(), 1);
            let decisions = store.check_many(&policy, &[b"x", b"y", b"a{b}%"], Request::ONE).await.unwrap();
            assert_eq!(decisions.iter().map(|decision| decision.remaining).collect::<Vec<_>>(), [4, 4, 3]);
        });
        let reply = server.client.ask(&["TG.PEEK", "a{b}%", "5/min, 100/h gcra burst=20", "NAME", "login"]);
        assert_eq!(reply, "*6 :1 :1 :3 :0 :72000000 :0");
    }
}
