//! An axum service with three limits: addresses, tokens, and failed logins.
//!
//! `cargo run -p tollgate-tower --example axum` asks it a few times and prints what curl would see. Its clock is set
//! by hand, so that it prints the same every time. With `-- serve` it listens, to be tried with curl.

mod common;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::{get, post};
use common::{Curl, Failure};
use http::{HeaderMap, Method, StatusCode};
use tollgate::Gate;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, GateLayer, Settlement, TokenKey, skip};

/// Limits all requests by address, searches also by token, and logins also by how many failed.
const EVERYBODY: &str = "20/min name=address";
const SEARCHES: &str = "2/min name=search";
const LOGINS: &str = "3/h name=login";

fn app(everybody: Gate, searches: Gate, logins: Gate) -> Router {
    let everybody = GateLayer::new(everybody)
        .key(ClientIp::peer())
        .skip(skip::paths(["/healthz"]))
        .skip(skip::preflight)
        .route("/reports/*", |route| route.cost(|_| 10));

    // A request without a token is answered 400, so it never falls under another client's limit.
    let searches = GateLayer::new(searches).key(TokenKey::bearer());

    // A login costs nothing while there is room. One that failed is counted. Logins that are under way together see
    // the same room: then more than three fail at once, all of them count, and the layer outside has its limit too.
    // Stricter is to charge all and give back what did not fail: see docs/tower/settling.md.
    let failed = |status, _: &HeaderMap| match status {
        StatusCode::UNAUTHORIZED => Settlement::Charge(1),
        _ => Settlement::Keep,
    };
    let logins = GateLayer::new(logins).key(ClientIp::peer()).look_first().settle(failed);

    Router::new()
        .route("/", get(async || "hello\n"))
        .route("/healthz", get(async || "ok\n"))
        .route("/reports/{id}", get(async || "a report\n"))
        .route("/search", get(async || "found\n").layer(searches))
        .route("/login", post(login).layer(logins))
        .layer(everybody)
}

async fn login(headers: HeaderMap) -> (StatusCode, &'static str) {
    match headers.get("x-password") {
        Some(password) if password == "sesame" => (StatusCode::OK, "welcome\n"),
        _ => (StatusCode::UNAUTHORIZED, "wrong password\n"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let app = app(Gate::memory(EVERYBODY)?, Gate::memory(SEARCHES)?, Gate::memory(LOGINS)?);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
        println!("curl -i http://{}/", listener.local_addr()?);
        // Without the connect info the peer's address is unknown, and every request is answered 500.
        return Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?);
    }
    show().await
}

async fn show() -> Result<(), Failure> {
    let clock = TestClock::new();
    let app = app(clock.gate(EVERYBODY)?, clock.gate(SEARCHES)?, clock.gate(LOGINS)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let curl = Curl::new(listener.local_addr()?);
    tokio::spawn(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).into_future());

    let hello = curl.get("/").await?;
    assert_eq!(hello.status(), "200 OK");
    assert!(hello.says(r#"ratelimit-policy: "address";q=20;w=60"#));
    assert!(hello.says(r#"ratelimit: "address";r=19;t=60"#));

    // A report costs ten; a health check nothing.
    assert!(curl.get("/reports/1").await?.says(r#"ratelimit: "address";r=9;t=60"#));
    assert!(curl.get("/healthz").await?.lines().iter().all(|line| !line.starts_with("ratelimit")));

    // Two layers: the response has the fields of both, and a search costs a unit of each.
    let search = async |token| curl.ask(Method::GET, "/search", &[("authorization", token)]).await;
    assert_eq!(search("Bearer alice").await?.status(), "200 OK");
    assert!(search("Bearer alice").await?.says(r#"ratelimit: "search";r=0;t=60"#));
    let refused = search("Bearer alice").await?;
    assert_eq!(refused.status(), "429 Too Many Requests");
    assert!(refused.says("retry-after: 60"));
    assert!(refused.body().contains(r#""violated-policies":["search"]"#));
    assert_eq!(search("Bearer bob").await?.status(), "200 OK");
    assert_eq!(curl.get("/search").await?.status(), "400 Bad Request");

    // A right password costs nothing, however often; after three wrong ones all are refused.
    clock.advance(std::time::Duration::from_secs(60));
    let login = async |password| curl.ask(Method::POST, "/login", &[("x-password", password)]).await;
    for _ in 0..4 {
        assert!(login("sesame").await?.says(r#"ratelimit: "login";r=3;t=0"#));
    }
    for _ in 0..3 {
        assert_eq!(login("a guess").await?.status(), "401 Unauthorized");
    }
    let refused = login("sesame").await?;
    assert_eq!(refused.status(), "429 Too Many Requests");
    assert!(refused.says("retry-after: 3600"));
    println!("all as expected");
    Ok(())
}
