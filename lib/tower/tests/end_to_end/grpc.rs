//! gRPC calls through the layer: a stream passes with its trailers, and a refusal is one that clients of gRPC read.

use std::time::Duration;

use tokio_stream::wrappers::TcpListenerStream;
use tollgate_kernel::OnError;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{GateLayer, HeaderKey, Limiter};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::HealthReporter;
use tonic_types::StatusExt;

use crate::support::web::{TestServer, curl, listen};

struct Health {
    server: TestServer,
    reporter: HealthReporter,
    client: HealthClient<Channel>,
}

async fn health(layer: GateLayer) -> Health {
    let (reporter, service) = tonic_health::server::health_reporter();
    let (listener, addr) = listen().await;
    let server = tonic::transport::Server::builder().layer(layer).add_service(service);
    let serving = server.serve_with_incoming(TcpListenerStream::new(listener));
    let server = TestServer::of(addr, async move { serving.await.unwrap() });
    let channel = Endpoint::from_shared(server.url("")).unwrap().connect().await.unwrap();
    Health { server, reporter, client: HealthClient::new(channel) }
}

fn whole() -> HealthCheckRequest {
    HealthCheckRequest { service: String::new() }
}

#[tokio::test]
async fn a_stream_passes_as_it_comes_and_its_trailers_too() {
    let clock = TestClock::new();
    // The key is the peer's address, which tonic provides.
    let mut health = health(GateLayer::new(clock.gate("3/min").unwrap())).await;
    let request = HealthCheckRequest { service: "shop".to_owned() };
    health.reporter.set_service_status("shop", ServingStatus::Serving).await;
    let answer = health.client.watch(request.clone()).await.unwrap();
    assert_eq!(answer.metadata().get("ratelimit").unwrap(), "\"3/min\";r=2;t=60");
    let mut stream = answer.into_inner();
    for status in [ServingStatus::Serving, ServingStatus::NotServing, ServingStatus::Serving] {
        health.reporter.set_service_status("shop", status).await;
        assert_eq!(stream.message().await.unwrap().unwrap().status, status as i32);
    }
    health.reporter.clear_service_status("shop").await;
    drop(stream);
    // A call that fails has its status in the trailers, or in the header fields; the layer changes neither.
    let failed = health.client.check(request).await.unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::NotFound, "service not registered"));
    let answer = health.client.check(whole()).await.unwrap();
    assert_eq!(answer.metadata().get("ratelimit").unwrap(), "\"3/min\";r=0;t=60");
}

#[tokio::test]
async fn a_refusal_says_how_long_and_which_limits() {
    let clock = TestClock::new();
    let policy = "1/min name=per-minute, 1/h name=per-hour, 100/d";
    let mut health = health(GateLayer::new(clock.gate(policy).unwrap())).await;
    health.client.check(whole()).await.unwrap();
    clock.advance(Duration::from_micros(1_234_567));
    for refused in
        [health.client.check(whole()).await.unwrap_err(), health.client.watch(whole()).await.map(drop).unwrap_err()]
    {
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(refused.message(), "refused by per-minute, per-hour");
        let info = refused.get_details_retry_info().unwrap();
        assert_eq!(info.retry_delay, Some(Duration::from_secs(3_600) - Duration::from_micros(1_234_567)));
        let failure = refused.get_details_quota_failure().unwrap();
        let told: Vec<_> = failure.violations.iter().map(|v| (v.subject.as_str(), v.description.as_str())).collect();
        assert_eq!(told, [("per-minute", "refused by per-minute"), ("per-hour", "refused by per-hour")]);
        assert_eq!(refused.metadata().get("retry-after").unwrap(), "3599");
    }
    clock.advance(Duration::from_secs(3_600));
    health.client.check(whole()).await.unwrap();
}

/// The answer ends with its head: no body, and so no trailers to wait for.
#[tokio::test]
async fn a_refusal_on_the_wire() {
    let clock = TestClock::new();
    let health = health(GateLayer::new(clock.gate("1/min").unwrap()).key(HeaderKey::new("x-key").unwrap())).await;
    let url = health.server.url("/grpc.health.v1.Health/Check");
    let args =
        ["--http2-prior-knowledge", "-X", "POST", "-H", "te: trailers", "-H", "content-type: application/grpc+proto"];
    let answer = curl(&url, &args).await;
    assert_eq!(
        answer,
        "HTTP/2 200 \r\ncontent-type: application/grpc\r\ngrpc-status: 3\r\n\
         grpc-message: x-key: expected this header\r\n\r\n"
    );
}

#[tokio::test]
async fn other_failures_have_the_codes_of_grpc() {
    // No key: the caller's fault.
    let clock = TestClock::new();
    let gate = clock.gate("1/min").unwrap();
    let mut without_key = health(GateLayer::new(gate.clone()).key(HeaderKey::new("x-key").unwrap())).await;
    let refused = without_key.client.check(whole()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "x-key: expected this header"));
    // Put together wrongly: ours.
    let key = tollgate_tower::ExtensionKey::<String>::new();
    let mut wrong = health(GateLayer::new(gate).key(key).log(None)).await;
    let refused = wrong.client.check(whole()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Internal, "the limits of this service are not set up"));
    // The store does not decide: the status asks for a retry and names no limit.
    let away = Limiter::over(crate::failures::AwayStore, "5/min".parse().unwrap());
    let mut closed = health(GateLayer::new(away).on_error(OnError::Deny).log(None)).await;
    let refused = closed.client.check(whole()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "the limits cannot be checked at the moment"));
    assert_eq!(refused.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
    assert!(refused.get_details_quota_failure().is_none());
    assert_eq!(refused.metadata().get("tollgate-source").unwrap(), "closed");
}

/// gRPC in browsers gets an answer of its own kind, and what only looks like gRPC is answered as other requests are.
#[tokio::test]
async fn the_kind_of_answer_follows_the_kind_of_request() {
    let clock = TestClock::new();
    let server =
        health(GateLayer::new(clock.gate("1/min").unwrap()).key(HeaderKey::new("x-key").unwrap())).await.server;
    for (kind, answered) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc;charset=utf-8", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("Application/gRPC", "application/grpc"),
        ("application/grpc-web", "application/grpc-web"),
        ("application/grpc-web+proto", "application/grpc-web+proto"),
        ("application/grpc-web-text", "application/grpc-web-text"),
        ("application/grpcurl", "application/problem+json"),
        ("application/json", "application/problem+json"),
    ] {
        let head = format!("content-type: {kind}");
        let answer = curl(&server.url("/x"), &["--http2-prior-knowledge", "-X", "POST", "-H", &head]).await;
        assert!(answer.contains(&format!("\r\ncontent-type: {answered}\r\n")), "{kind}: {answer}");
    }
}
