//! The same rules where Redis decides: what is filed beside a policy is there too, and bans are here.

use tollgate_daemon::ServerSettings;
use tollgate_redis::Redis;

use crate::config::support::{folder, settings, start_by, write};

/// A store whose tasks run in a thread of their own, until the sender goes.
fn open(url: String) -> (Redis, tokio::sync::oneshot::Sender<()>, std::thread::JoinHandle<()>) {
    let (ready, opened) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Redis::builder(&url).deadline(std::time::Duration::from_secs(10));
            ready.send(store.connect().await.unwrap()).unwrap();
            let _ = stopped.await;
        });
    });
    (opened.recv().unwrap(), stop, thread)
}

#[test]
fn rules_are_obeyed_where_redis_decides() {
    let redis = tollgate_kit::Server::start().unwrap();
    let (store, stop, thread) = open(redis.url());
    let file = folder("redis").join("tollgate.yaml");
    let yaml = "policies:\n  login:\n    limit: 2/h\n    allow: [free]\n    deny: [bad]\n    \
                overrides: [{key: vip, limit: 50/h}]\n    candidate: 1/h\n    ban: 1h after 2/h refusals\n";
    write(&file, yaml);
    let tested = start_by(&file, ServerSettings { store: Some(store), ..settings(&file) });
    let mut client = tested.client();
    let mut allowed = |key: &str| client.ask(&["TG.CHECK", key, "login"])[0];
    assert_eq!((allowed("free"), allowed("bad"), allowed("vip")), (1, 0, 1));
    assert_eq!([(); 4].map(|()| allowed("a")), [1, 1, 0, 0]);
    let told = tested.post("/v1/check", r#"{"key": "a", "policy": "login"}"#);
    assert_eq!((&told["rule"], &told["allowed"]), (&"ban".into(), &false.into()), "{told}");
    let told = tested.post("/v1/explain", r#"{"key": "a", "policy": "login"}"#);
    let candidate = &told["because"]["candidate"];
    assert_eq!((&candidate["decided"], &candidate["would_refuse"]), (&4.into(), &1.into()), "{told}");
    let mut there = redis.connection().unwrap();
    let names = ["tg:{a}login", "tg:{a}login--candidate", "tg:{a}login--refusals", "tg:{free}login", "tg:{bad}login"];
    let found = names.map(|name| -> i64 { redis::cmd("EXISTS").arg(name).query(&mut there).unwrap() });
    assert_eq!(found, [1, 1, 1, 0, 0]);
    // What was consumed counts on there too.
    tested.change(&yaml.replace("2/h\n", "9/h\n").replace("    ban: 1h after 2/h refusals\n", ""));
    assert_eq!(client.ask(&["TG.PEEK", "a", "login"])[2], 7);
    drop((client, tested, stop));
    thread.join().unwrap();
}
