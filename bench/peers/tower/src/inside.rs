//! Requests without sockets, to be counted: the router called as a service, or behind hyper on a pipe in memory.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::{ACCEPT, HOST, USER_AGENT};
use axum::http::{HeaderValue, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tower::{Service, ServiceExt};

use crate::Failure;
use crate::contenders::{Case, Contender};
use crate::response::{LARGEST, REQUEST, whole};

/// Addresses that calls come from. All are known, and their limits used up, before those that count.
const ADDRESSES: u16 = 1_000;

/// How requests reach the router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum How {
    /// As calls of a service.
    Call,
    /// As bytes that hyper parses, and the response as bytes that it wrote.
    Connection,
}

impl How {
    pub(crate) const ALL: [Self; 2] = [Self::Call, Self::Connection];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Connection => "connection",
        }
    }

    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let how = Self::ALL.into_iter().find(|how| how.name() == name);
        how.ok_or_else(|| format!("expected call or connection, found {name:?}"))
    }
}

/// `requests` requests in [`counted`], after those that make every address known.
pub(crate) fn run(how: How, contender: &Contender, case: Case, requests: u64) -> Result<(), Failure> {
    // As axum's serve does it: layers are put on handlers now, and not once a request.
    let router = (contender.build)(case)?.with_state(());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut client = runtime.block_on(async { Client::new(how, router) });
    for number in 0..ADDRESSES {
        runtime.block_on(client.ask(number))?;
    }
    counted(&runtime, &mut client, case, requests)
}

/// What is counted, from its first instruction to its last: valgrind finds it by its name.
#[inline(never)]
fn counted(runtime: &Runtime, client: &mut Client, case: Case, requests: u64) -> Result<(), Failure> {
    runtime.block_on(async {
        for number in (0..ADDRESSES).cycle().take(usize::try_from(requests)?) {
            let status = client.ask(number).await?;
            if status != case.status() {
                return Err(format!("expected {}, found {status}", case.status()).into());
            }
        }
        Ok(())
    })
}

/// Who sends the requests.
enum Client {
    Call(Router),
    Connection { pipe: DuplexStream, buffer: Box<[u8; LARGEST]> },
}

impl Client {
    /// In a runtime, which serves the connection then.
    fn new(how: How, router: Router) -> Self {
        match how {
            How::Call => Self::Call(router),
            How::Connection => Self::Connection { pipe: connection(router), buffer: Box::new([0; LARGEST]) },
        }
    }

    /// The status of the response to a request, as if from the address of this number.
    async fn ask(&mut self, number: u16) -> Result<u16, Failure> {
        match self {
            Self::Call(router) => call(router, peer(number)).await,
            Self::Connection { pipe, buffer } => exchange(pipe, buffer).await,
        }
    }
}

fn peer(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(203, 0, 113 + high, low), 50_000))
}

/// A request with the fields of `REQUEST`, and its response to the end.
async fn call(router: &mut Router, peer: SocketAddr) -> Result<u16, Failure> {
    let mut request = Request::new(Body::empty());
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tollgate-bench"));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
    request.extensions_mut().insert(ConnectInfo(peer));
    let mut response = ServiceExt::<Request<Body>>::ready(router).await?.call(request).await?;
    while let Some(frame) = response.body_mut().frame().await {
        frame?;
    }
    Ok(response.status().as_u16())
}

/// The client's end of a connection to the router. All its requests are of one address.
fn connection(router: Router) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(LARGEST);
    // As axum's serve does it: the peer's address goes into each request, and the body is boxed.
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer(0)));
        router.clone().oneshot(request.map(Body::new))
    });
    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(theirs), service));
    ours
}

async fn exchange(pipe: &mut DuplexStream, buffer: &mut [u8; LARGEST]) -> Result<u16, Failure> {
    pipe.write_all(REQUEST).await?;
    let mut filled = 0;
    loop {
        match pipe.read(&mut buffer[filled..]).await? {
            0 => return Err("the connection ended, or a response was too long".into()),
            more => filled += more,
        }
        if let Some((status, length)) = whole(&buffer[..filled])? {
            return if length == filled { Ok(status) } else { Err("more came than a response".into()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contender that decides otherwise does not do the same work: `run` fails then.
    #[test]
    fn all_contenders_decide_alike() {
        for case in Case::ALL {
            for contender in case.contenders() {
                for how in How::ALL {
                    run(how, contender, case, 3_000).expect(contender.name);
                }
            }
        }
    }
}
