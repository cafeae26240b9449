//! One request to the collector, over plain HTTP/1.1, on a connection of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::net::TcpStream;

/// How long the collector may take to respond.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest response that is read, in bytes.
const MAX_LEN: usize = 64 << 10;

/// An HTTP client that opens a connection for each request.
#[derive(Debug)]
pub(crate) struct CollectorClient;

impl HttpClient for CollectorClient {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            match tokio::time::timeout(WITHIN, send(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {WITHIN:?}").into()),
            }
        })
    }
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().ok_or("expected a host")?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    head.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let answer = async {
        let (head, body) = sender.send_request(Request::from_parts(head, Full::new(body))).await?.into_parts();
        let body = Limited::new(body, MAX_LEN).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    // Drives the connection until the response is complete; the connection may end before the response is read.
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.into()),
        },
    }
}
