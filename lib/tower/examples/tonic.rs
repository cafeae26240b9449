//! A gRPC service with a limit in front, and a client that reads how long it has to wait.
//!
//! `cargo run -p tollgate-tower --example tonic` asks the service a few times and prints what the client sees; its
//! clock is set by hand. With `-- serve` it listens, for a client of yours. The service is the health service that
//! tonic has ready. One would not limit that in earnest: `skip::paths(["/grpc.health.v1.Health/*"])`.

use std::error::Error;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tollgate::Gate;
use tollgate_tower::testing::TestClock;
use tollgate_tower::{ClientIp, GateLayer};
use tonic::Code;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

const CALLS: &str = "2/10s name=calls";

async fn serve(gate: Gate, listener: TcpListener) -> Result<(), tonic::transport::Error> {
    let (_, health) = tonic_health::server::health_reporter();
    Server::builder()
        // tonic provides the peer's address; the feature `grpc` reads it.
        .layer(GateLayer::new(gate).key(ClientIp::peer()))
        .add_service(health)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let listener = TcpListener::bind("127.0.0.1:50051").await?;
        println!("{CALLS} on {}", listener.local_addr()?);
        return Ok(serve(Gate::memory(CALLS)?, listener).await?);
    }
    let clock = TestClock::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let channel = Channel::from_shared(format!("http://{}", listener.local_addr()?))?;
    tokio::spawn(serve(clock.gate(CALLS)?, listener));
    show(&clock, HealthClient::new(channel.connect().await?)).await
}

async fn show(clock: &TestClock, mut client: HealthClient<Channel>) -> Result<(), Box<dyn Error>> {
    for left in ["1", "0"] {
        let answer = client.check(HealthCheckRequest::default()).await?;
        let told = answer.metadata().get("ratelimit").and_then(|told| told.to_str().ok()).unwrap_or_default();
        println!("ok         ratelimit: {told}");
        assert!(told.starts_with(&format!(r#""calls";r={left};"#)), "{told}");
    }

    clock.advance(Duration::from_millis(2_500));
    let Err(refused) = client.check(HealthCheckRequest::default()).await else {
        return Err("expected the third call to be refused".into());
    };
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay).unwrap_or_default();
    let quota = refused.get_details_quota_failure().map(|failure| failure.violations).unwrap_or_default();
    println!("{:?}: {}", refused.code(), refused.message());
    println!("  RetryInfo     retry_delay {wait:?}");
    for violation in &quota {
        println!("  QuotaFailure  subject {:?}, description {:?}", violation.subject, violation.description);
    }
    assert_eq!((refused.code(), wait), (Code::ResourceExhausted, Duration::from_millis(7_500)));
    assert_eq!(quota.len(), 1);

    // A client that waits as long as it was told is not refused then.
    clock.advance(wait);
    client.check(HealthCheckRequest::default()).await?;
    println!("ok         after exactly that wait");
    Ok(())
}
