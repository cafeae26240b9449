//! One connection: requests are answered in order, until one side closes it or it takes too long.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::phase::{Phase, PhaseTracker, PhasedStream};
use super::problem::HttpProblem;
use super::routes;
use crate::shared::ServerState;
use tollgate_telemetry::audit::FrontEnd;

/// The most bytes that a connection reads ahead: the longest head.
const MAX_READ: usize = 16 << 10;

/// The last second that a `Date` field can express: the end of the year 9999.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// Returns whether a time can be written as a `Date` field. hyper reads the clock at every poll, and panics at others.
fn has_date(now: SystemTime) -> bool {
    now.duration_since(UNIX_EPOCH).is_ok_and(|since| since < LAST_DATE)
}

/// Serves a connection to its end.
pub(crate) async fn serve<S>(shared: Arc<ServerState>, stream: S, peer: SocketAddr, local: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _counted = shared.metrics.connection(FrontEnd::Http);
    if !has_date(SystemTime::now()) {
        return refuse_without_date(&shared, stream).await;
    }
    let limits = &shared.http.limits;
    let phases = PhaseTracker::new(Arc::clone(&shared.buffers));
    let service = service_fn(|request| {
        phases.enter(Phase::Request);
        let (shared, phases) = (&shared, &phases);
        async move {
            let reserved = routes::is_reserved(request.uri().path());
            let mut response = routes::answer(shared, request, peer, local).await;
            if !phases.reserve_answer(response.body().size_hint().lower() as usize, reserved) {
                response = routes::no_room(shared);
            }
            phases.enter(Phase::Writing);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_headers(limits.fields)
        .max_header_size(limits.head_bytes)
        .max_buf_size(MAX_READ)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(PhasedStream { stream, phases: &phases }), service);
    let mut connection = pin!(connection);
    let mut leaving = shared.leaving.clone();
    let mut stop = pin!(leaving.wait_for(|stop| *stop));
    let mut ends = false;
    let mut timer = pin!(tokio::time::sleep_until(phases.deadline(limits)));
    // However the connection ended, there is nowhere left to report it.
    poll_fn(|context| {
        // The clock may have been set since the connection began.
        if !has_date(SystemTime::now()) {
            return Poll::Ready(());
        }
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !ends && stop.as_mut().poll(context).is_ready() {
            ends = true;
            connection.as_mut().graceful_shutdown();
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
        }
        // Deadlines mostly move later: a timer that fires early is reset then, and not at every request.
        let deadline = phases.deadline(limits);
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            let deadline = phases.deadline(limits);
            if deadline <= tokio::time::Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    })
    .await;
}

/// Answers, without hyper, that the clock of the machine is wrong, and closes the connection.
async fn refuse_without_date<S: AsyncWrite + Unpin>(shared: &ServerState, mut stream: S) {
    let text = "expected the clock of the server's machine between the years 1970 and 9999";
    let problem = HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text);
    shared.metrics.http_error(problem.status);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    let written = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(shared.http.limits.head, written).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_four_digits_since_1970() {
        assert!(has_date(UNIX_EPOCH) && has_date(SystemTime::now()));
        assert!(!has_date(UNIX_EPOCH - Duration::from_nanos(1)));
        assert!(has_date(UNIX_EPOCH + LAST_DATE - Duration::from_nanos(1)) && !has_date(UNIX_EPOCH + LAST_DATE));
    }

    #[tokio::test]
    async fn a_clock_without_a_date_is_told() {
        use tokio::io::AsyncReadExt;
        let (mut client, server) = tokio::io::duplex(4_096);
        refuse_without_date(&ServerState::for_test(), server).await;
        let mut told = String::new();
        client.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && told.contains("1970 and 9999"), "{told}");
    }
}
