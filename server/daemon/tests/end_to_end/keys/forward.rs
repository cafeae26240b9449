//! Scripts and functions that the server does not know: the store runs them for connections with the scope `script`.

use tollgate_daemon::{AccessToken, Scope, Scopes, ServerSettings};
use tollgate_kit::{Cluster, Server};
use tollgate_redis::Redis;

use crate::keys::store::OpenStore;
use crate::keys::support::KeysTestServer;

const LIBRARY: &str = "#!lua name=app\nredis.register_function('app_add', function(keys, args)\n  \
                       return redis.call('INCRBY', keys[1], args[1])\nend)";
const UNKNOWN: &str = "EVAL return~KEYS[1] 1 k";

fn with_script() -> Scopes {
    Scopes::FREE.with(Scope::Script)
}

fn server(url: String, free: Scopes) -> (OpenStore, KeysTestServer) {
    let store = OpenStore::new(url, Redis::builder);
    let settings = ServerSettings { store: Some(store.store()), free, ..ServerSettings::default() };
    let server = KeysTestServer::with(settings);
    (store, server)
}

#[test]
fn without_the_scope_or_without_a_store_the_error_says_how_to_allow_it() {
    let redis = Server::start().unwrap();
    let (_store, mut stored) = server(redis.url(), Scopes::FREE);
    let mut embedded = KeysTestServer::with(ServerSettings { free: Scopes::ALL, ..ServerSettings::default() });
    for login in [false, true] {
        if login {
            // The token made at the start does not run scripts of others either.
            stored.login();
        }
        for command in [UNKNOWN, "SCRIPT LOAD return~1", "FUNCTION LOAD x", "FCALL app_add 1 k 1", "EVAL_RO return~1 0"]
        {
            let reply = stored.ask(command);
            assert!(reply.starts_with("-ERR ") && reply.contains("with the scope script: tollgate token"), "{reply}");
            let reply = embedded.ask(command);
            assert!(reply.starts_with("-ERR ") && reply.contains("with serve --store redis://"), "{reply}");
        }
        assert!(stored.ask("EVALSHA 0123456789012345678901234567890123456789 0").starts_with("-NOSCRIPT "));
    }
    let free: i64 = redis::cmd("DBSIZE").query(&mut redis.connection().unwrap()).unwrap();
    assert_eq!(free, 0);
}

#[test]
fn with_the_scope_the_store_runs_what_is_not_known() {
    let redis = Server::start().unwrap();
    let (_store, mut server) = server(redis.url(), with_script());
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    server.expect(&[
        (UNKNOWN, "$1 k"),
        ("EVAL return~{1,'a',redis.status_reply('FINE'),{'x'},false,7.9} 0", "*6 :1 $1 a +FINE *1 $1 x $-1 :7"),
        ("EVAL return~redis.error_reply('MINE~went~wrong') 0", "-MINE went wrong"),
        ("EVAL return~redis.call('SET','app',ARGV[1]) 0 1", "+OK"),
        ("EVAL_RO return~redis.call('GET','app') 0", "$1 1"),
        (&format!("EVALSHA {sha} 0"), "-NOSCRIPT No matching script. Please use EVAL."),
        (&format!("SCRIPT EXISTS {sha} 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50"), "*2 :0 :1"),
        ("SCRIPT LOAD return~1", &format!("$40 {sha}")),
        (&format!("SCRIPT EXISTS {sha} 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50"), "*2 :1 :1"),
        (&format!("EVALSHA {sha} 0"), ":1"),
        (&format!("EVALSHA_RO {sha} 0"), ":1"),
        ("FCALL app_add 1 sum 5", "-ERR Function not found"),
        // What is known is decided by the server, and answered as the published script answers.
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 1 60", "*2 $4 deny *3 $1 1 $2 60 $1 0"),
        ("SELECT 3", "+OK"),
        ("EVAL return~redis.call('EXISTS','app') 0", ":0"),
        ("SELECT 0", "+OK"),
    ]);
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", LIBRARY]), "$3 app");
    server.expect(&[
        ("FCALL app_add 1 sum 5", ":5"),
        ("MULTI", "+OK"),
        ("FCALL app_add 1 sum 5", "+QUEUED"),
        (UNKNOWN, "+QUEUED"),
        ("FCALL fixed_window 1 f 1 60", "+QUEUED"),
        ("EXEC", "*3 :10 $1 k *2 $5 block *3 $1 1 $2 60 $1 0"),
    ]);
}

#[test]
fn a_token_that_names_the_scope_has_it() {
    let redis = Server::start().unwrap();
    let file = std::env::temp_dir().join(format!("tollgate-forward-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let (token, _) = AccessToken::add_to(&file, "check,script".parse().unwrap(), "app").unwrap();
    let store = OpenStore::new(redis.url(), Redis::builder);
    let settings =
        ServerSettings { store: Some(store.store()), tokens: Some(file.clone()), ..ServerSettings::default() };
    let mut server = KeysTestServer::with(settings);
    assert!(server.ask(UNKNOWN).contains("with the scope script"));
    assert_eq!(server.client.ask(&["AUTH", token.text()]), "+OK");
    assert_eq!(server.ask(UNKNOWN), "$1 k");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn on_a_cluster_scripts_go_where_their_keys_are() {
    let cluster = Cluster::start().unwrap();
    let addrs: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let (_store, mut server) = server(format!("redis+cluster://{}", addrs.join(",")), with_script());
    let loaded = server.ask("SCRIPT LOAD return~redis.call('INCR',KEYS[1])");
    let sha = loaded.strip_prefix("$40 ").unwrap();
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", LIBRARY]), "$3 app");
    for number in 0..30 {
        assert_eq!(server.ask(&format!("EVALSHA {sha} 1 k{number}")), ":1");
        assert_eq!(server.ask(&format!("FCALL app_add 1 k{number} 5")), ":6");
    }
    assert!(server.ask(&format!("EVALSHA {sha} 2 k1 k2")).starts_with("-CROSSSLOT "));
}
