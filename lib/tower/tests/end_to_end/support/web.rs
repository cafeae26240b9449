//! Servers on free ports of the loopback, and clients of theirs.

use std::net::SocketAddr;
use std::process::Command;

use axum::Router;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server in this process, stopped when it is dropped.
pub(crate) struct TestServer {
    pub(crate) addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Serves what listens there until it is dropped.
    pub(crate) fn of(addr: SocketAddr, serving: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { addr, task: tokio::spawn(serving) }
    }
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// An axum router, with the peers' addresses.
pub(crate) async fn serve(router: Router) -> TestServer {
    let (listener, addr) = listen().await;
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    TestServer::of(addr, async move { axum::serve(listener, service).await.unwrap() })
}

/// Returns the response as curl prints it, without the fields `date` and `connection`.
pub(crate) async fn curl(url: &str, args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "30"]).args(args).arg(url);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "curl {url}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

/// A head and a body as they are on the wire.
pub(crate) fn wire(head: &[&str], body: &str) -> String {
    let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{head}\r\n{body}")
}

/// A client on a connection of its own.
pub(crate) struct Client(hyper::client::conn::http1::SendRequest<RequestBody>);

/// The error by which a test breaks off the body of a request.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// No body.
pub(crate) fn nothing() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        Self(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> Response<Incoming> {
        self.0.ready().await.unwrap();
        self.0.send_request(request).await.unwrap()
    }

    /// The status, header fields and body of a GET with these fields.
    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, http::HeaderMap, Bytes) {
        let mut request = Request::get(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, body) = self.send(request.body(nothing()).unwrap()).await.into_parts();
        (head.status, head.headers, body.collect().await.unwrap().to_bytes())
    }
}
