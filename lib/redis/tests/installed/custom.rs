//! Custom scripts.

use std::time::Duration;

use tollgate_kernel::StoreError;
use tollgate_kit::Server;
use tollgate_redis::{CustomScript, Output, Redis};

const WINDOW: &str = "
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
local limit = tonumber(ARGV[1])
local word = used <= limit and 'allow' or 'block'
local headers = {ARGV[1], {'x-acme-header', ARGV[2]}, tostring(math.max(0, limit - used))}
if used >= limit then headers[4] = {'retry-after', ARGV[2]} end
return {word, headers, used, {'raw'}}";

async fn open(server: &Server) -> Redis {
    Redis::builder(&server.url()).deadline(Duration::from_secs(5)).connect().await.unwrap()
}

#[tokio::test]
async fn a_script_decides_and_names_headers_and_survives_a_flush() {
    let server = Server::start().unwrap();
    let (store, custom) = (open(&server).await, CustomScript::new(WINDOW));
    let names = ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining"];
    for round in 1..=3 {
        let reply = store.run_custom(&custom, &["pipeline:1"], &["2", "60"]).await.unwrap();
        assert_eq!(reply.allowed, round <= 2);
        assert_eq!(reply.word, if round <= 2 { "allow" } else { "block" });
        let headers = reply.headers(&names).unwrap();
        let find = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        assert_eq!((find("x-ratelimit-limit"), find("x-acme-header")), (Some("2"), Some("60")));
        assert_eq!(find("retry-after"), (round >= 2).then_some("60"));
        assert_eq!(find("x-ratelimit-reset"), None);
        assert_eq!(reply.outputs, [Output::Integer(round), Output::List(vec![Output::Text(b"raw".to_vec())])]);
        crate::common::command(&server.url(), &["SCRIPT", "FLUSH"]);
    }
    assert_eq!(store.stats().reloads, 3);
}

#[tokio::test]
async fn errors_of_a_script_are_shown_and_run_once() {
    let server = Server::start().unwrap();
    let store = open(&server).await;
    let rows = [
        ("redis.call('INCR', 'n') return redis.error_reply('ERR mine')", "ERR mine"),
        ("redis.call('INCR', 'n') return redis.error_reply('BUSY mine')", "BUSY mine"),
        ("redis.call('INCR', 'n') return 'allow'", "x-acme-header"),
        ("this is no Lua", "Error compiling script"),
    ];
    for (text, part) in rows {
        let error = store.run_custom(&CustomScript::new(text), &["n"], &[""; 0]).await.unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
        if part == "BUSY mine" {
            assert!(matches!(error, StoreError::Away { untouched: false, .. }));
        }
    }
    assert_eq!(crate::common::command(&server.url(), &["GET", "n"]), redis::Value::BulkString(b"3".to_vec()));
}
