//! Tests that calls of dialects are decided and counted while the store does not answer.

use std::net::TcpListener;
use std::sync::Arc;

use tollgate_dialects::Output;
use tollgate_kernel::{OnError, Timestamp};
use tollgate_keyspace::samples::{CALLS, parse_call};
use tollgate_keyspace::{DialectCall, FaultCode, KeyCommand, KeyFailure, Keyspace};
use tollgate_memory::ManualClock;
use tollgate_redis::{Redis, RedisBuilder, RedisStats};
use tollgate_telemetry::log::{LogFormat, ServerLog};

use super::START;
use crate::{Engine, Home, HomeStats, StoreHome, StoreKeySettings};

/// An engine whose store is at a port without a listener.
fn without_store(on_error: OnError, settings: impl FnOnce(RedisBuilder) -> RedisBuilder) -> Engine {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let redis = settings(Redis::builder(&format!("redis://127.0.0.1:{port}"))).lazy().unwrap();
    let keys = StoreKeySettings { on_error, ..StoreKeySettings::default() };
    let home = Home::Redis(Arc::new(StoreHome::new(redis, keys)));
    let clock = Box::new(ManualClock::at(Timestamp::new(START).unwrap()));
    let (log, _) = ServerLog::to_channel(LogFormat::Text);
    Engine::new(home, Vec::new(), clock, Arc::new(log), Keyspace::new(1 << 20))
}

fn calls() -> impl Iterator<Item = DialectCall> {
    CALLS.iter().map(|text| parse_call(&text.replace("KEY", "k").replace('N', "7")))
}

/// Whether the reply of a dialect lets the request pass.
fn passes(dialect: &str, reply: &Output) -> bool {
    let part = |place: usize| reply.list()[place].clone();
    match dialect {
        "fixed_window" | "token_bucket" => part(0) == Output::Text(b"allow".to_vec()),
        "sliding_window" => *reply == Output::Integer(0),
        "slot_window" | "ar1" => *reply == Output::Nothing,
        "rolling" => part(1) == Output::Integer(1),
        "api_counter" => part(0) == Output::Integer(1),
        _ => part(0) == Output::Integer(0),
    }
}

fn stats(engine: &Engine) -> RedisStats {
    match engine.home_stats() {
        HomeStats::Redis(stats) => stats,
        HomeStats::Embedded(_) => panic!("the store in Redis"),
    }
}

#[tokio::test]
async fn each_kind_of_on_error_decides_calls_of_dialects_and_says_so() {
    for (on_error, passing, source) in
        [(OnError::Local, true, "local"), (OnError::Allow, true, "open"), (OnError::Deny, false, "closed")]
    {
        let engine = without_store(on_error, |builder| builder);
        for call in calls() {
            let answer = engine.ask_call(&call).await.unwrap();
            let passed = passes(call.dialect.name, &answer.output);
            assert_eq!((passed, answer.source.name()), (passing, source), "{}: {answer:?}", call.dialect.name);
        }
        let RedisStats { home, local, open, closed, .. } = stats(&engine);
        let count = CALLS.len() as u64;
        let counted = [("local", local), ("open", open), ("closed", closed)];
        assert_eq!(home, 0);
        assert!(counted.iter().all(|(name, found)| *found == if *name == source { count } else { 0 }), "{counted:?}");
    }
}

#[tokio::test]
async fn the_own_keys_count_on_while_the_store_is_away() {
    let engine = without_store(OnError::Local, |builder| builder);
    let call = parse_call("fixed_window 1 k 2 60");
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(passes("fixed_window", &engine.ask_call(&call).await.unwrap().output));
    }
    assert_eq!(replies, [true, true, false]);
    // One of four servers admits a quarter.
    let engine = without_store(OnError::Local, |builder| builder.share(0.25));
    let call = parse_call("fixed_window 1 k 8 60");
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(passes("fixed_window", &engine.ask_call(&call).await.unwrap().output));
    }
    assert_eq!(replies, [true, true, false]);
}

#[tokio::test]
async fn what_nothing_stands_in_for_is_unavailable() {
    let engine = without_store(OnError::Local, |builder| builder);
    let reset = parse_call("slot_window 1 k -1 ns [[5,60,1]] 1700000040 0");
    assert_eq!(engine.ask_call(&reset).await.unwrap_err().code, FaultCode::Away);
    for command in [KeyCommand::Get(b"k"), KeyCommand::Count, KeyCommand::Flush, KeyCommand::Delete(vec![b"k"])] {
        let outcome = engine.run_commands(0, true, std::slice::from_ref(&command)).await.pop().unwrap();
        let Err(KeyFailure::Fault(fault)) = outcome.result else { panic!("{command:?}") };
        assert_eq!(fault.code, FaultCode::Away, "{command:?}");
    }
}
