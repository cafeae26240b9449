//! Responses that give back what their requests were charged, or charge for what they did: over the embedded store, a
//! Redis server and a Tollgate server.

use std::time::Duration;

use axum::Router;
use axum::routing::any;
use http::{HeaderMap, StatusCode, Uri};
use tollgate::{Gate, ManualClock};
use tollgate_daemon::{AccessToken, Server as Tollgate, ServerSettings};
use tollgate_kernel::{Policy, Request, Store};
use tollgate_kit::Server as Redis;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, Limiter, Settlement};

use crate::support::homes::{begin, store, tollgate};
use crate::support::log_capture::LogCapture;
use crate::support::web::{Client, serve};
use crate::support::{field, in_process, left};

/// Limits in three homes.
struct Homes {
    clock: ManualClock,
    redis: Redis,
    tollgate: (Tollgate, String),
}

impl Homes {
    fn start() -> Self {
        let clock = begin();
        Self { redis: Redis::start().unwrap(), tollgate: tollgate(&clock), clock }
    }

    async fn limiters(&self, policy: &str) -> [(&'static str, Limiter); 3] {
        let policy: Policy = policy.parse().unwrap();
        let gate = Gate::builder().value(policy.clone()).clock(self.clock.clone()).build().unwrap();
        [
            ("embedded", gate.into()),
            ("redis", Limiter::over(store(&self.redis.url()).await, policy.clone())),
            ("tollgate", Limiter::over(store(&self.tollgate.1).await, policy)),
        ]
    }
}

/// Answers with the status that the query asks for, and reports the cost.
fn as_asked() -> Router {
    let answer = async |uri: Uri| {
        let (mut status, mut headers) = (StatusCode::OK, HeaderMap::new());
        match uri.query().and_then(|asked| asked.split_once('=')) {
            Some(("status", value)) => status = value.parse().unwrap(),
            Some((_, value)) => drop(headers.insert("x-cost", value.parse().unwrap())),
            None => {}
        }
        (status, headers)
    };
    Router::new().fallback(any(answer))
}

/// Returns the status and what is left of the limit for requests made one after the other.
async fn check(name: &str, layer: GateLayer, rows: &[(&str, u16, u64)]) {
    let server = serve(as_asked().layer(layer)).await;
    let mut client = Client::connect(server.addr).await;
    for (place, (path, status, remaining)) in rows.iter().enumerate() {
        let (got, headers, _) = client.get(path, &[]).await;
        assert_eq!((got.as_u16(), left(&headers)), (*status, Some(*remaining)), "{name}, row {place}: {path}");
        assert_eq!(headers.contains_key("retry-after"), *status == 429, "{name}, row {place}: {path}");
        assert_eq!(field(&headers, "tollgate-source"), None, "{name}");
    }
}

#[tokio::test]
async fn what_failed_is_given_back() {
    let homes = Homes::start();
    for (name, limiter) in homes.limiters("5/d").await {
        let layer = GateLayer::new(limiter)
            .cost(|parts| if parts.uri.path() == "/left" { 0 } else { 2 })
            .settle(|status, _| if status.is_server_error() { Settlement::Refund } else { Settlement::Keep });
        let rows = [
            ("/", 200, 3),
            ("/?status=500", 500, 3),
            ("/left", 200, 3),
            ("/?status=503", 503, 3),
            ("/?status=404", 404, 1),
            ("/left", 200, 1),
            // Refused: there is nothing to give back.
            ("/?status=500", 429, 1),
            ("/left", 200, 1),
        ];
        check(name, layer, &rows).await;
    }
}

/// Good logins are free, failed ones count, and after too many failures the service is not called.
#[tokio::test]
async fn only_failed_logins_count() {
    let homes = Homes::start();
    for (name, limiter) in homes.limiters("3/d").await {
        let failed = |status: StatusCode, _: &HeaderMap| match status {
            StatusCode::UNAUTHORIZED => Settlement::Charge(1),
            _ => Settlement::Keep,
        };
        let rows = [
            ("/", 200, 3),
            ("/", 200, 3),
            ("/", 200, 3),
            ("/", 200, 3),
            ("/?status=401", 401, 2),
            ("/", 200, 2),
            ("/?status=401", 401, 1),
            ("/?status=401", 401, 0),
            ("/?status=401", 429, 0),
            ("/", 429, 0),
        ];
        check(name, GateLayer::new(limiter).look_first().settle(failed), &rows).await;
    }
}

/// A response adds to the charge of its request, even more than is left.
#[tokio::test]
async fn a_response_may_cost_more() {
    let homes = Homes::start();
    for (name, limiter) in homes.limiters("100/d").await {
        let by_field = |_: StatusCode, headers: &HeaderMap| {
            let cost = headers.get("x-cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
            cost.map_or(Settlement::Keep, Settlement::Charge)
        };
        let rows = [
            ("/", 200, 99),
            ("/?cost=9", 200, 89),
            ("/?cost=0", 200, 88),
            ("/?cost=40", 200, 47),
            // It passed, so its response contains no wait: the next one does.
            ("/?cost=60", 200, 0),
            ("/", 429, 0),
        ];
        check(name, GateLayer::new(limiter).settle(by_field), &rows).await;
    }
}

/// More than can be counted is the most that can be, not less.
#[tokio::test]
async fn a_charge_beyond_all_numbers_is_the_greatest_one() {
    for units in [1 << 53, u64::MAX] {
        let gate = TestClock::new().gate("100/d").unwrap();
        let mut service = in_process::gated(&GateLayer::new(gate).settle(move |_, _| Settlement::Charge(units)));
        assert_eq!(in_process::ask(&mut service, in_process::get("/")).await.status(), 200);
        assert_eq!(in_process::ask(&mut service, in_process::get("/")).await.status(), 429, "{units}");
    }
}

/// After a refund as much is left as before, however long the service took.
#[tokio::test]
async fn a_refund_leaves_what_was_there_before() {
    for policy in [
        "5/min",
        "5/min gcra burst=3",
        "5/min fixed",
        "9/min bucket burst=3",
        "5/min slots resolution=10s",
        "5/min, 9/h gcra burst=4",
    ] {
        let clock = TestClock::new();
        let gate = clock.gate(policy).unwrap();
        let took = clock.clone();
        let layer = GateLayer::new(gate.clone())
            .settle(|status, _| if status.is_server_error() { Settlement::Refund } else { Settlement::Keep });
        let answer = tower::service_fn(move |request: http::Request<()>| {
            let fails = request.uri().path() == "/fail";
            took.advance(if fails { Duration::from_millis(1_234) } else { Duration::ZERO });
            let status = if fails { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
            let answer = http::Response::builder().status(status).body(http_body_util::Empty::<bytes::Bytes>::new());
            std::future::ready(Ok::<_, std::convert::Infallible>(answer.unwrap()))
        });
        let mut service = tower::Layer::layer(&layer, answer);
        in_process::ask(&mut service, in_process::get("/")).await;
        clock.advance(Duration::from_millis(777));
        let key = "address:203.0.113.7";
        let before = gate.decide(key, &Request::ONE.peek()).unwrap();
        assert_eq!(in_process::ask(&mut service, in_process::get("/fail")).await.status(), 502);
        let after = gate.decide(key, &Request::ONE.peek()).unwrap();
        assert_eq!(after.remaining, before.remaining, "{policy}");
    }
}

/// A decision that another source made while the store was away did not charge the store, so nothing is refunded.
#[tokio::test]
async fn nothing_is_given_back_where_nothing_was_charged() {
    let homes = Homes::start();
    let store = store(&homes.redis.url()).await;
    let policy: Policy = "5/d".parse().unwrap();
    let key = b"address:203.0.113.7";
    assert_eq!(store.check(&policy, key, Request::ONE).await.unwrap().remaining, 4);
    let layer =
        GateLayer::new(Limiter::over(store.clone(), policy.clone())).look_first().settle(|_, _| Settlement::Refund);
    for _ in 0..3 {
        in_process::ask(&mut in_process::gated(&layer), in_process::get("/")).await;
    }
    assert_eq!(store.check(&policy, key, Request::ONE.peek()).await.unwrap().remaining, 4);
}

/// A layer over a Tollgate server whose token may not refund logs that with its first request, before any refund is
/// due; with the right token it logs nothing, and refunds.
#[tokio::test]
async fn a_missing_right_to_give_back_is_said_with_the_first_request() {
    let folder = std::env::temp_dir().join(format!("tollgate-settle-{}", std::process::id()));
    let _ = std::fs::remove_file(&folder);
    let token = |scopes: &str, name: &str| AccessToken::add_to(&folder, scopes.parse().unwrap(), name).unwrap().0;
    let (old, new) = (token("check", "old"), token("check,refund", "new"));
    let any = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let settings = ServerSettings {
        resp: Some(any),
        http: None,
        threads: 1,
        tokens: Some(folder.clone()),
        ..ServerSettings::default()
    };
    let server = Tollgate::start_with_clock(settings, &begin()).unwrap();
    std::fs::remove_file(&folder).unwrap();
    for (token, may) in [(old, false), (new, true)] {
        let url = format!("tollgate://{}@{}", token.text(), server.resp_addr().unwrap());
        let policy: Policy = "5/d".parse::<Policy>().unwrap().with_name(if may { "new" } else { "old" }).unwrap();
        let fails = |status: StatusCode, _: &HeaderMap| match status.is_server_error() {
            true => Settlement::Refund,
            false => Settlement::Keep,
        };
        let store = store(&url).await;
        let layer = GateLayer::new(Limiter::over(store.clone(), policy.clone())).settle(fails);
        let service = tower::service_fn(async |request: http::Request<()>| {
            let status = if request.uri().path() == "/fail" { 500 } else { 200 };
            let answer = http::Response::builder().status(status).body(http_body_util::Empty::<bytes::Bytes>::new());
            Ok::<_, std::convert::Infallible>(answer.unwrap())
        });
        let mut service = tower::Layer::layer(&layer, service);
        let (log, _guard) = LogCapture::listen();
        assert_eq!(in_process::ask(&mut service, in_process::get("/")).await.status(), 200);
        // The request does not wait for the check, which is answered later.
        let missing = "the store does not let us give back, so Settlement::Refund will fail";
        let told = || log.lines().join("\n");
        for _ in 0..100 {
            if told().contains(missing) {
                break;
            }
            tokio::task::yield_now().await;
            let _ = store.check(&policy, b"another", Request::ONE.peek()).await.unwrap();
        }
        assert_eq!(told().contains(missing), !may, "{}", told());
        assert_eq!(told().contains("NOPERM expected a token with the scope refund"), !may, "{}", told());
        assert_eq!(in_process::ask(&mut service, in_process::get("/fail")).await.status(), 500);
        let left = store.check(&policy, b"address:203.0.113.7", Request::ONE.peek()).await.unwrap().remaining;
        assert_eq!(left, if may { 4 } else { 3 });
        assert_eq!(told().matches(missing).count(), usize::from(!may), "{}", told());
    }
}
