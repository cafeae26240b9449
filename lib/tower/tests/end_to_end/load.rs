//! Ten thousand requests at once over sockets: exactly as many pass as may, and every answer has fields that a parser
//! of others reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate_tower::GateLayer;
use tollgate_tower::testing::TestClock;

use crate::support::field;
use crate::support::web::{Client, serve};

const REQUESTS: usize = 10_000;
const CLIENTS: usize = 50;

/// The only limit of a list, and this number of it.
fn number(value: &str, limit: &str, parameter: &str) -> i64 {
    let list: List = Parser::new(value).parse().unwrap();
    let [ListEntry::Item(item)] = list.as_slice() else { panic!("expected one limit, found {value}") };
    assert_eq!(item.bare_item.as_string().map(|name| name.as_str()), Some(limit), "{value}");
    let found = item.params.iter().find(|(name, _)| name.as_str() == parameter);
    let Some((_, BareItem::Integer(number))) = found else { panic!("expected {parameter} in {value}") };
    (*number).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_as_many_pass_as_may() {
    let clock = TestClock::new();
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    let layer = GateLayer::new(clock.gate("1234/min").unwrap());
    let handler = async move || {
        count.fetch_add(1, Ordering::Relaxed);
        "hello"
    };
    let server = serve(Router::new().route("/", get(handler)).layer(layer)).await;
    for window in 1..=2 {
        let clients = (0..CLIENTS).map(|_| {
            let addr = server.addr;
            tokio::spawn(async move {
                let mut client = Client::connect(addr).await;
                let mut left = Vec::new();
                for _ in 0..REQUESTS / CLIENTS / 2 {
                    let (status, headers, body) = client.get("/", &[]).await;
                    let policy = field(&headers, "ratelimit-policy").unwrap();
                    assert_eq!((number(&policy, "1234/min", "q"), number(&policy, "1234/min", "w")), (1_234, 60));
                    let told = field(&headers, "ratelimit").unwrap();
                    let (r, t) = (number(&told, "1234/min", "r"), number(&told, "1234/min", "t"));
                    assert_eq!(t, 60, "the clock stands");
                    match status.as_u16() {
                        200 => {
                            assert_eq!((&body[..], field(&headers, "retry-after")), (&b"hello"[..], None));
                            left.push(r);
                        }
                        429 => {
                            assert_eq!((r, field(&headers, "retry-after").as_deref()), (0, Some("60")));
                            assert!(body.starts_with(b"{\"type\":"));
                        }
                        other => panic!("{other}"),
                    }
                }
                left
            })
        });
        let mut left: Vec<i64> = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            left.extend(client.await.unwrap());
        }
        // Each response reported another number: no two requests shared a unit.
        left.sort_unstable();
        assert_eq!(left, (0..1_234).collect::<Vec<i64>>());
        assert_eq!(served.load(Ordering::Relaxed), 1_234 * window);
        clock.advance(Duration::from_secs(60));
    }
}
