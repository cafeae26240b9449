//! With Redis as the store, plain keys are there too, beside those of an application, which survive every command.

use tollgate_daemon::{Scopes, ServerSettings, StoreKeySettings};
use tollgate_kit::{Cluster, Fault, Proxy, Server};
use tollgate_redis::Redis;

use crate::keys::store::OpenStore;
use crate::keys::support::{Client, KeysTestServer};

/// Keys of an application, one of each type, and some that look like ours.
const FOREIGN: [&str; 9] =
    ["app:text", "app:number", "app:list", "app:set", "app:zset", "app:hash", "app:stream", "app:first", "app:packed"];

fn put_foreign(there: &mut redis::Connection) {
    let mut pipe = redis::pipe();
    pipe.cmd("SET").arg("app:text").arg("a session");
    pipe.cmd("SET").arg("app:number").arg(41).arg("EX").arg(100_000);
    pipe.cmd("RPUSH").arg("app:list").arg("a").arg("b");
    pipe.cmd("SADD").arg("app:set").arg("a").arg("b");
    pipe.cmd("ZADD").arg("app:zset").arg(1).arg("a");
    pipe.cmd("HSET").arg("app:hash").arg("h").arg("\x01 no state").arg("last").arg(1);
    pipe.cmd("XADD").arg("app:stream").arg("1-1").arg("field").arg("value");
    // The first byte of a state, and msgpack that is nearly one.
    pipe.cmd("SET").arg("app:first").arg("\x01 the first byte of our states");
    pipe.cmd("SET").arg("app:packed").arg(b"\x01\xa3abc\x05");
    pipe.query::<()>(there).unwrap();
}

/// What is at a key, with its time to live.
fn contents(there: &mut redis::Connection, keys: &[&str]) -> Vec<(Vec<u8>, bool)> {
    let content = |key: &&str| {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(key).query(there).unwrap();
        let left: i64 = redis::cmd("PTTL").arg(key).query(there).unwrap();
        (dump, left > 90_000_000)
    };
    keys.iter().map(content).collect()
}

fn server(url: String, prefixes: &[&str], free: Scopes) -> (OpenStore, KeysTestServer) {
    let store = OpenStore::new(url, Redis::builder);
    let store_keys = StoreKeySettings {
        prefixes: prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()).collect(),
        ..StoreKeySettings::default()
    };
    let settings = ServerSettings { store: Some(store.store()), store_keys, free, ..ServerSettings::default() };
    let server = KeysTestServer::with(settings);
    (store, server)
}

#[test]
fn keys_of_an_application_survive_every_command() {
    let redis = Server::start().unwrap();
    let mut there = redis.connection().unwrap();
    put_foreign(&mut there);
    let before = contents(&mut there, &FOREIGN);
    let (_store, mut server) = server(redis.url(), &[], Scopes::FREE);
    server.ask("FCALL fixed_window 1 mine 5 60");
    let commands = "GET K; SET K x; SET K x NX GET; SET K x EX 5; SET K x NX KEEPTTL; SET K x XX PX 5; INCR K; INCRBY K 5; DECR K; \
         DECRBY K 5; EXPIRE K 5; PEXPIRE K 5; EXPIREAT K 5; PEXPIREAT K 5; EXPIRE K -1; TTL K; PTTL K; \
         EXPIRETIME K; PEXPIRETIME K; EXISTS K; EXISTS mine K; DEL K; DEL mine K; UNLINK K; TYPE K; HGET K h; \
         HMGET K h last; HKEYS K; HVALS K; HLEN K; HEXISTS K h; HGETALL K; FCALL fixed_window 1 K 5 60; \
         FCALL token_bucket 1 K 5 60 2; FCALL sliding_window 1 K 60000 5; \
         FCALL slot_window 1 K 1 ns [[1,5,1]] 1700000040 0; FCALL slot_window 1 K -1 ns [[1,5,1]] 1700000040 0; \
         FCALL ar1 1 K 1 ns [[5,2,1]] 1700000040 0; FCALL rolling 1 K 1 1 1700000040000000 0 5 100 10; \
         CL.THROTTLE K 15 30 60";
    for key in FOREIGN {
        for command in commands.split("; ") {
            let named =
                command.split(' ').map(|word| if word == "K" { key } else { word }).collect::<Vec<_>>().join(" ");
            let reply = server.ask(&named);
            let told =
                reply.starts_with("-ERR the key") && reply.contains("--store-keys PREFIX") && reply.contains(key);
            let is_dialect = command.starts_with("FCALL") || command.starts_with("CL.");
            let own_namespace = command.contains(" ns ");
            assert!(told || is_dialect && (own_namespace || reply.starts_with("-WRONGTYPE")), "{named}: {reply}");
        }
    }
    for command in ["KEYS *", "KEYS app:*", "SCAN 0 COUNT 1000", "SCAN 0 MATCH app:* COUNT 1000", "DBSIZE"] {
        let reply = server.ask(command);
        assert!(!reply.split(' ').any(|word| FOREIGN.contains(&word)), "{command}: {reply}");
    }
    assert_eq!(contents(&mut there, &FOREIGN), before);
    // What is free to a new key is not: the application may want the name.
    for command in ["SET fresh x", "INCR fresh"] {
        assert!(server.ask(command).contains("--store-keys"), "{command}");
    }
    server.expect(&[("GET fresh", "$-1"), ("EXISTS fresh", ":0"), ("PTTL fresh", ":-2"), ("DEL fresh", ":0")]);
    for flush in ["FLUSHDB", "FLUSHALL ASYNC"] {
        server.ask("FCALL fixed_window 1 mine 5 60");
        server.ask("TG.CHECK user 5/min NAME login");
        server.expect(&[(flush, "+OK"), ("EXISTS mine", ":0"), ("DBSIZE", ":0")]);
    }
    assert_eq!(contents(&mut there, &FOREIGN), before);
    // Two checks were charged, and no flush deletes the state of a policy.
    assert!(server.ask("TG.PEEK user 5/min NAME login").starts_with("*6 :1 :1 :3 "));
}

#[test]
fn keys_of_limiters_and_of_allowed_prefixes_are_as_on_the_embedded_store() {
    let redis = Server::start().unwrap();
    let mut there = redis.connection().unwrap();
    put_foreign(&mut there);
    let (_store, mut stored) = server(redis.url(), &["k", "x:"], Scopes::FREE);
    let mut embedded = KeysTestServer::new();
    let rows = "SET k 5; GET k; INCR k; INCRBY k 10; DECR k; DECRBY k 3; SET k x NX; SET k x XX GET; GET k; INCR k; \
         APPEND k y; SET k 9223372036854775807; INCR k; EXISTS k k2 k; TYPE k; TYPE k2; EXPIRE k 100; TTL k; \
         EXPIRE k 50 GT; EXPIRE k 50 NX; EXPIRE k 5 XX; TTL k; EXPIRE k -1; GET k; SET k y EX 100; TTL k; \
         SET k z KEEPTTL; TTL k; SET k y PX 0; SET k y EX x; PEXPIRE k 9223372036854775807; SET k y EXAT 1; \
         GET k; DEL k k2; HGET k f; HGETALL k; HMGET k a b; HLEN k; HKEYS k; HVALS k; HEXISTS k f; SET k2 1; \
         HGETALL k2; HLEN k2; EXPIRE k2 100 NX XX; EXPIRE k2 100 WHAT; DBSIZE; KEYS *; \
         FCALL fixed_window 1 limiter 5 60; GET limiter; INCR limiter; TYPE limiter; EXISTS limiter; \
         HGETALL limiter; TTL limiter; DEL limiter; EXISTS limiter; MULTI; SET x:1 1; INCR x:1; GET k2; \
         INCR x:1 2; DISCARD; MULTI; SET x:1 1; INCR x:1; GET k2; HGETALL k2; EXEC; GET x:1; INCR {api:tok}:14; \
         INCRBY {api:tok}:14 2; EXPIRE {api:tok}:14 59; TTL {api:tok}:14; GET {api:tok}:14; \
         HGET {api:tok}:data ops; HLEN {api:tok}:data; HEXISTS {api:tok}:data last; TYPE {api:tok}:data; \
         TTL {api:tok}:data; SCAN 0 COUNT 1000 MATCH *}:14; SCAN 0 COUNT 1000 TYPE hash; SCAN x; SCAN 0 COUNT 0; \
         DEL {api:tok}:14 {api:tok}:data; FLUSHDB; DBSIZE; EXISTS k2 x:1";
    for command in rows.split("; ") {
        assert_eq!(stored.ask(command), embedded.ask(command), "{command}");
    }
    assert_eq!(contents(&mut there, &["app:text"]).len(), 1);
    // On the store, keys expire by its clock.
    stored.ask("FCALL fixed_window 1 limiter 5 60");
    let left = stored.ask("PTTL limiter")[1..].parse::<i64>().unwrap();
    assert!((30_000..=60_000).contains(&left), "{left}");
}

#[test]
fn a_long_log_is_the_state_of_a_limiter_too() {
    let redis = Server::start().unwrap();
    let mut there = redis.connection().unwrap();
    let (_store, mut server) = server(redis.url(), &[], Scopes::FREE);
    let mut fill = |server: &mut KeysTestServer| {
        (0..300).for_each(|_| assert_eq!(server.ask("FCALL sliding_window 1 long 60000 1000"), ":0"));
        // Redis holds it in pieces.
        assert_eq!(redis::cmd("TYPE").arg("long").query::<String>(&mut there).unwrap(), "hash");
    };
    fill(&mut server);
    server.expect(&[("TYPE long", "+string"), ("EXISTS long", ":1"), ("DBSIZE", ":1"), ("KEYS *", "*1 $4 long")]);
    for command in ["GET long", "HGETALL long", "HLEN long", "HGET long h", "INCR long"] {
        assert!(server.ask(command).starts_with("-WRONGTYPE "), "{command}");
    }
    server.expect(&[("DEL long", ":1"), ("EXISTS long", ":0")]);
    fill(&mut server);
    server.expect(&[("FLUSHDB", "+OK"), ("EXISTS long", ":0")]);
}

#[test]
fn what_a_limiter_counted_is_taken_with_the_scope_reset_alone() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(redis.url(), &["k"], Scopes::FREE_OVER_HTTP);
    server.ask("FCALL fixed_window 1 k 5 60");
    server.ask("TG.CHECK user 5/min NAME login");
    let state: Vec<String> = redis::cmd("KEYS").arg("tg:*").query(&mut redis.connection().unwrap()).unwrap();
    let [state] = state.as_slice() else { panic!("{state:?}") };
    for command in
        ["DEL k", "UNLINK other k", "SET k x", "SET k x NX", "EXPIRE k 1", "PEXPIREAT k 5", "FLUSHDB", "FLUSHALL"]
    {
        assert!(server.ask(command).starts_with("-NOPERM expected a token with the scope reset"), "{command}");
    }
    assert!(server.ask(&format!("DEL {state}")).starts_with("-NOPERM"));
    assert_eq!(server.ask("FCALL fixed_window 1 k 5 60"), "*2 $5 allow *3 $1 5 $2 60 $1 3");
    server.login();
    for command in [format!("SET {state} x"), format!("INCR {state}"), "SET tg:{user}new x".to_owned()] {
        assert!(server.ask(&command).contains("--store-keys"), "{command}");
    }
    let reply = server.ask(&format!("FCALL fixed_window 1 {state} 5 60"));
    assert!(reply.contains("does not begin with tg:{"), "{reply}");
    // Nor does a namespace make such a name.
    let reply = server.ask("FCALL slot_window 1 user 1 tg [[1,5,1]] 1700000040 0");
    assert!(reply.contains("a namespace other than tg"), "{reply}");
    assert!(server.ask("TG.PEEK user 5/min NAME login").starts_with("*6 :1 :1 :4 "));
    server.expect(&[("DEL k", ":1"), ("EXISTS k", ":0")]);
}

#[test]
fn what_a_limiter_counted_is_no_way_to_a_plain_key() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(redis.url(), &["k"], Scopes::FREE);
    for (call, name) in
        [("FCALL fixed_window 1 app 5 60", "app"), ("FCALL slot_window 1 app 1 ns [[1,5,1]] 1700000040 0", "ns:{app}")]
    {
        server.ask(call);
        for set in [format!("SET {name} evil"), format!("SET {name} evil XX EX 5")] {
            let reply = server.ask(&set);
            assert!(reply.contains("--store-keys PREFIX"), "{set}: {reply}");
        }
        server.expect(&[(&format!("TYPE {name}"), "+string"), (&format!("DEL {name}"), ":1")]);
    }
    // Of redis-limiter's names, only the counter is set.
    assert!(server.ask("SET {api:x}:data 1").contains("--store-keys PREFIX"));
    server.expect(&[("SET {api:x}:14 1", "+OK"), ("INCR {api:x}:14", ":2"), ("HLEN {api:x}:data", ":2")]);
    // A prefix allows it.
    server.ask("FCALL fixed_window 1 k 5 60");
    server.expect(&[("SET k own", "+OK"), ("GET k", "$3 own")]);
}

#[test]
fn deleting_a_key_clears_its_states_in_the_namespaces_of_callers() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(redis.url(), &[], Scopes::FREE);
    let mut there = redis.connection().unwrap();
    let count =
        |count: u8, namespace: &str| format!("FCALL slot_window 1 K {count} {namespace} [[2,3600,600]] 1795126000 1");
    for namespace in ["ns", "other"] {
        assert_ne!(server.ask(&count(3, namespace)), ":0");
    }
    server.expect(&[("DEL K", ":1"), (&count(0, "ns"), ":0"), (&count(0, "other"), ":0"), ("DEL K", ":0")]);
    // What an application keeps under such names stays.
    server.ask(&count(3, "ns"));
    redis::cmd("SET").arg("other:{K}").arg("mine").exec(&mut there).unwrap();
    server.expect(&[("DEL K", ":1")]);
    let left: String = redis::cmd("GET").arg("other:{K}").query(&mut there).unwrap();
    assert_eq!(left, "mine");
    // A key of an application is refused, and nothing is cleared.
    server.ask(&count(3, "ns"));
    redis::cmd("SET").arg("K").arg("mine").exec(&mut there).unwrap();
    assert!(server.ask("DEL K").contains("--store-keys PREFIX"));
    assert_ne!(server.ask(&count(0, "ns")), ":0");
}

#[test]
fn databases_are_apart_on_one_redis() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(redis.url(), &["k"], Scopes::FREE);
    server.expect(&[
        ("SET k zero", "+OK"),
        ("SELECT 9", "+OK"),
        ("GET k", "$-1"),
        ("SET k nine", "+OK"),
        ("FCALL fixed_window 1 f 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        ("CL.THROTTLE t 0 1 60", "*5 :0 :1 :0 :-1 :60"),
        ("DBSIZE", ":3"),
        ("SELECT 15", "+OK"),
        ("FCALL fixed_window 1 f 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        ("SELECT 16", "-ERR DB index is out of range: expected 0 to 15"),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SELECT 9", "+OK"),
        ("GET k", "$4 nine"),
        ("FCALL fixed_window 1 f 1 60", "*2 $5 block *3 $1 1 $2 60 $1 0"),
        ("CL.THROTTLE t 0 1 60", "*5 :1 :1 :0 :60 :60"),
        ("SELECT 0", "+OK"),
        ("GET k", "$4 zero"),
    ]);
}

#[test]
fn a_redis_with_fewer_databases_is_not_away_for_it() {
    let redis = tollgate_kit::Builder::default().option("--databases", "2").start().unwrap();
    let (store, mut server) = server(redis.url(), &["k"], Scopes::FREE);
    server.expect(&[("SELECT 1", "+OK"), ("SET k one", "+OK"), ("SELECT 2", "+OK")]);
    for _ in 0..30 {
        for command in ["GET k", "SCAN 0", "DBSIZE", "FCALL fixed_window 1 f 5 60"] {
            let reply = server.ask(command);
            assert!(reply.starts_with("-ERR DB index is out of range"), "{command}: {reply}");
        }
    }
    assert_eq!(store.store().stats().open_breakers, 0);
    server.expect(&[("SELECT 1", "+OK"), ("GET k", "$3 one")]);
}

#[test]
fn over_a_url_with_a_database_there_is_that_one() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(format!("{}3", redis.url()), &["k"], Scopes::FREE);
    server.expect(&[("SELECT 0", "+OK"), ("SET k three", "+OK")]);
    assert!(server.ask("SELECT 3").contains("the URL of the store names a database"));
    let mut there = redis.connection().unwrap();
    redis::cmd("SELECT").arg(3).query::<()>(&mut there).unwrap();
    assert_eq!(redis::cmd("GET").arg("k").query::<String>(&mut there).unwrap(), "three");
}

#[test]
fn over_a_cluster_keys_are_where_their_slots_are() {
    let cluster = Cluster::start().unwrap();
    let addrs: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let (_store, mut server) = server(format!("redis+cluster://{}", addrs.join(",")), &["k:"], Scopes::FREE);
    for number in 0..40 {
        assert_eq!(server.ask(&format!("SET k:{number} {number}")), "+OK");
        assert_eq!(server.ask(&format!("FCALL fixed_window 1 f:{number} 5 60")), "*2 $5 allow *3 $1 5 $2 60 $1 4");
    }
    assert_eq!(server.ask("GET k:7"), "$1 7");
    assert_eq!(server.ask("DBSIZE"), ":80");
    let keys = server.ask("KEYS k:*");
    assert!(keys.starts_with("*40 ") && (0..40).all(|number| keys.contains(&format!(" k:{number}"))), "{keys}");
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let page = server.ask(&format!("SCAN {cursor} COUNT 10"));
        let mut words = page.split(' ');
        cursor = words.nth(2).unwrap().to_owned();
        found += words.next().unwrap()[1..].parse::<usize>().unwrap();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, 80);
    server.expect(&[
        ("SELECT 0", "+OK"),
        ("DEL k:1", ":1"),
        ("DEL k:{1}a k:{1}b", ":0"),
        ("MULTI", "+OK"),
        ("INCR {api:t}:14", "+QUEUED"),
        ("EXPIRE {api:t}:14 59", "+QUEUED"),
        ("EXEC", "*2 :1 :1"),
        ("CL.THROTTLE t 0 1 60", "*5 :0 :1 :0 :-1 :60"),
    ]);
    assert!(server.ask("DEL k:2 k:3").contains("keys of one hash slot (CROSSSLOT)"));
    assert!(server.ask("SELECT 1").starts_with("-ERR SELECT is not allowed in cluster mode: use database 0"));
    server.expect(&[("FLUSHALL", "+OK"), ("DBSIZE", ":0"), ("GET k:2", "$-1")]);
}

#[test]
fn an_exec_is_one_step_of_the_store() {
    let redis = Server::start().unwrap();
    let (_store, server) = server(redis.url(), &["k"], Scopes::FREE);
    let add = |mut client: Client| {
        for _ in 0..200 {
            client.ask(&["MULTI"]);
            ["INCR k:one", "INCR k:two"]
                .iter()
                .for_each(|command| _ = client.ask(&command.split(' ').collect::<Vec<_>>()));
            let reply = client.ask(&["EXEC"]);
            let sums: Vec<&str> = reply.split(' ').skip(1).collect();
            assert_eq!(sums[0], sums[1], "{reply}");
        }
    };
    std::thread::scope(|scope| {
        for client in (0..4).map(|_| server.another()) {
            scope.spawn(|| add(client));
        }
    });
}

#[test]
fn while_the_store_is_away_plain_commands_say_so_and_leave_the_rest_alone() {
    let redis = Server::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    let (_store, mut server) = server(proxy.url(), &["k"], Scopes::FREE);
    assert_eq!(server.ask("SET k 1"), "+OK");
    proxy.faults().refuse();
    proxy.faults().close_all();
    for command in ["GET k", "INCR k", "SCAN 0", "KEYS *", "DBSIZE", "FLUSHDB", "DEL k"] {
        let reply = server.ask(command);
        assert!(reply.starts_with("-UNAVAILABLE "), "{command}: {reply}");
    }
}

#[test]
fn a_store_that_stalls_holds_no_call_longer_than_its_deadline() {
    let redis = Server::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    let deadline = std::time::Duration::from_millis(200);
    let store = OpenStore::within(proxy.url(), deadline, Redis::builder);
    let mut server = KeysTestServer::with(ServerSettings { store: Some(store.store()), ..ServerSettings::default() });
    proxy.faults().set(Fault::Stall);
    for (command, expected) in [
        ("FCALL fixed_window 1 k 5 60", "*2 $5 allow *3 $1 5 $2 60 $1 4"),
        ("CL.THROTTLE t 15 30 60", "*5 :0 :16 :15 :-1 :2"),
        ("GET k", "-UNAVAILABLE "),
        ("SCAN 0", "-UNAVAILABLE "),
    ] {
        let began = std::time::Instant::now();
        let reply = server.ask(command);
        assert!(reply.starts_with(expected), "{command}: {reply}");
        // Ten deadlines, since the machine is shared.
        assert!(began.elapsed() < 10 * deadline, "{command} took {:?}", began.elapsed());
    }
    assert_eq!(store.store().stats().local, 2);
}
