//! One connection: requests are answered one after the other, until one side ends it or it takes too long.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::pace::{Pace, Paced, Phase};
use super::routes;
use crate::metrics::FrontEnd;
use crate::shared::Shared;

/// Bytes that a connection reads ahead: the longest head.
const READ_MOST: usize = 16 << 10;

/// Serves a connection to its end.
pub(crate) async fn serve<S>(shared: Arc<Shared>, stream: S, peer: SocketAddr, local: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let _counted = shared.desk.metrics.connection(FrontEnd::Http);
    let limits = &shared.http.limits;
    let pace = Pace::new(Arc::clone(&shared.held));
    let service = service_fn(|request| {
        pace.enter(Phase::Request);
        let (shared, pace) = (&shared, &pace);
        async move {
            let reserved = routes::is_reserved(request.uri().path());
            let mut response = routes::answer(shared, request, peer, local).await;
            if !pace.answers(response.body().size_hint().lower() as usize, reserved) {
                response = routes::no_room(shared);
            }
            pace.enter(Phase::Writing);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_headers(limits.fields)
        .max_header_size(limits.head_bytes)
        .max_buf_size(READ_MOST)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(Paced { stream, pace: &pace }), service);
    let mut connection = pin!(connection);
    let mut leaving = shared.leaving.clone();
    let mut stop = pin!(leaving.wait_for(|stop| *stop));
    let mut ends = false;
    let mut timer = pin!(tokio::time::sleep_until(pace.deadline(limits)));
    // Whatever ended it, there is nobody to tell.
    poll_fn(|context| {
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
        // Deadlines mostly move on: a timer that is early is set anew when it fires, not at every request.
        let deadline = pace.deadline(limits);
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            let deadline = pace.deadline(limits);
            if deadline <= tokio::time::Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    })
    .await;
}
