//! Every route: its methods, path, scope and handler. The metrics, the OpenAPI document and the tests iterate this
//! list.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tollgate_telemetry::traces::RequestSpan;

use super::call::HttpCall;
use super::problem::HttpProblem;
use super::shared::{check_host, named_host};
use super::{batch, decide, gate, listing, openapi, state};
use crate::access::Scope;
use crate::shared::ServerState;
use tollgate_telemetry::audit::{CallerIdentity, FrontEnd};

/// The field that names the trace to which a request belongs.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

const METRICS: &str = "/metrics";

/// An answer to be written.
pub(super) type HttpResponse = Response<Full<Bytes>>;

/// A route.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// The name of the route in metrics and in the OpenAPI document.
    pub(crate) name: &'static str,
    pub(super) methods: Methods,
    /// The scope that a caller needs; `None` if it needs none.
    pub(crate) scope: Option<Scope>,
    /// The summary of the route in the OpenAPI document.
    pub(super) summary: &'static str,
    pub(super) handler: Endpoint,
}

/// The methods that a route accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Methods {
    /// POST with a body in JSON.
    Post,
    /// GET, and HEAD, which is the same without the body of the answer.
    Get,
    /// Any method: proxies pass on the method of their client.
    Any,
}

impl Methods {
    pub(super) const fn names(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET, HEAD",
            Self::Any => "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE",
        }
    }

    fn has(self, method: &Method) -> bool {
        self.names().split(", ").any(|name| name == method.as_str())
    }
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Check,
    Peek,
    Reset,
    Refund,
    Explain,
    Batch,
    Policies,
    Gate,
    Metrics,
    Health,
    Ready,
    OpenApi,
}

impl Endpoint {
    /// Returns whether it may change state that is kept.
    fn writes(self) -> bool {
        matches!(self, Self::Check | Self::Reset | Self::Refund | Self::Batch | Self::Gate)
    }
}

const fn route(
    path: &'static str,
    name: &'static str,
    methods: Methods,
    scope: Option<Scope>,
    handler: Endpoint,
    summary: &'static str,
) -> Route {
    Route { path, name, methods, scope, summary, handler }
}

const CHECK: Option<Scope> = Some(Scope::Check);
const READ: Option<Scope> = Some(Scope::Read);

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    route("/v1/check", "check", Methods::Post, CHECK, Endpoint::Check, "Decide a request and charge it"),
    route("/v1/peek", "peek", Methods::Post, CHECK, Endpoint::Peek, "Decide a request and charge nothing"),
    route("/v1/reset", "reset", Methods::Post, Some(Scope::Reset), Endpoint::Reset, "Forget a key under a policy"),
    route("/v1/refund", "refund", Methods::Post, Some(Scope::Refund), Endpoint::Refund, "Give units back"),
    route("/v1/explain", "explain", Methods::Post, READ, Endpoint::Explain, "Say what a policy promises"),
    route("/v1/batch", "batch", Methods::Post, CHECK, Endpoint::Batch, "Decide many requests"),
    route("/v1/policies", "policies", Methods::Get, READ, Endpoint::Policies, "List the policies with names"),
    route("/v1/gate", "gate", Methods::Any, CHECK, Endpoint::Gate, "Decide for a proxy, in status and headers"),
    route(METRICS, "metrics", Methods::Get, READ, Endpoint::Metrics, "What the server counted"),
    route("/healthz", "healthz", Methods::Get, None, Endpoint::Health, "Whether the server runs"),
    route(
        "/readyz",
        "readyz",
        Methods::Get,
        None,
        Endpoint::Ready,
        "Whether the server takes requests, and who decides",
    ),
    route("/openapi.json", "openapi", Methods::Get, None, Endpoint::OpenApi, "This document"),
];

/// Answers any request.
pub(super) async fn answer(
    shared: &ServerState,
    request: Request<Incoming>,
    peer: SocketAddr,
    local: SocketAddr,
) -> HttpResponse {
    match respond(shared, request, peer, local).await {
        Ok(response) => response,
        Err(problem) => {
            shared.metrics.http_error(problem.status);
            problem.response()
        }
    }
}

/// Returns whether the answer to a path is given even while the buffers are full: operators need it most then.
pub(super) fn is_reserved(path: &str) -> bool {
    path == METRICS
}

/// Returns the answer that there is no room for the answer.
pub(super) fn no_room(shared: &ServerState) -> HttpResponse {
    let text = "expected room for a long answer: the buffers that all share are nearly full (--buffers); it may have \
                been charged";
    let problem = HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1);
    shared.metrics.http_error(problem.status);
    problem.response()
}

async fn respond(
    shared: &ServerState,
    request: Request<Incoming>,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<HttpResponse, HttpProblem> {
    let (parts, body) = request.into_parts();
    let free = shared.access.free(FrontEnd::Http, local, peer);
    let path = parts.uri.path();
    let found = ROUTES.iter().enumerate().find(|(_, route)| route.path == path);
    // Health checkers may speak no more than HTTP/1.0.
    let is_health = found.is_some_and(|(_, route)| matches!(route.handler, Endpoint::Health | Endpoint::Ready));
    let host = named_host(&parts, is_health)?;
    // Where nothing is free, a page of another site gains nothing from its host name: it has no token.
    if !free.is_none() {
        check_host(host, &parts, local, &shared.http.hosts)?;
    }
    let (place, route) = found.ok_or_else(unknown_path)?;
    if !route.methods.has(&parts.method) {
        return Err(HttpProblem::method(route.methods.names()));
    }
    // Scrapes and health checks are not traced.
    let span =
        route.scope.and_then(|_| shared.engine.trace(|| parts.headers.get(TRACEPARENT).map(HeaderValue::as_bytes)));
    let mut call = HttpCall { shared, parts, peer, free, who: CallerIdentity::NoToken, span: span.map(Mutex::new) };
    let response = run_route(place, route, &mut call, body).await;
    if let Some(span) = call.span.take() {
        end_span(span, &call, route, &response);
    }
    response
}

async fn run_route(
    place: usize,
    route: &Route,
    call: &mut HttpCall<'_>,
    body: Incoming,
) -> Result<HttpResponse, HttpProblem> {
    let shared = call.shared;
    call.admit(route)?;
    shared.metrics.http_request(place);
    let began = Instant::now();
    let was_away = shared.engine.is_away();
    let response = match route.methods {
        Methods::Post => run_with_body(route.handler, call, body).await,
        Methods::Get | Methods::Any => run(route.handler, call).await,
    };
    // Nothing is answered that would be lost in a restart, unless the policies decided without the home.
    if route.handler.writes() && shared.engine.settled().await.is_err() && !was_away {
        let text = "expected to keep what was decided, and the disk failed; it may have been charged";
        return Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1));
    }
    if matches!(route.scope, Some(Scope::Check | Scope::Refund)) {
        shared.metrics.took(began.elapsed());
    }
    response
}

/// Ends the span of a request.
#[cold]
fn end_span(
    span: Mutex<RequestSpan>,
    call: &HttpCall<'_>,
    route: &Route,
    response: &Result<HttpResponse, HttpProblem>,
) {
    let mut span = span.into_inner().unwrap_or_else(PoisonError::into_inner);
    span.name(format!("{} {}", call.parts.method, route.path));
    let status = match response {
        Ok(response) => response.status().as_u16(),
        Err(problem) => {
            // Only the title is recorded: the detail may repeat what the caller sent.
            span.fail(problem.title);
            problem.status
        }
    };
    span.set("http.response.status_code", usize::from(status));
    call.shared.engine.end_trace(span);
}

/// Answers a route that takes a body. It counts as being answered only once the body has arrived, so that slow bodies
/// do not keep other requests from being answered.
async fn run_with_body(handler: Endpoint, call: &HttpCall<'_>, body: Incoming) -> Result<HttpResponse, HttpProblem> {
    let body = call.receive(body).await?;
    let _guard = call.shared.http.begin_request()?;
    match handler {
        Endpoint::Check => json(&decide::check(call, HttpCall::json(&body)?, false).await?),
        Endpoint::Peek => json(&decide::check(call, HttpCall::json(&body)?, true).await?),
        Endpoint::Reset => json(&decide::reset(call, HttpCall::json(&body)?).await?),
        Endpoint::Refund => json(&decide::refund(call, HttpCall::json(&body)?).await?),
        Endpoint::Explain => json(&decide::explain(call, HttpCall::json(&body)?).await?),
        Endpoint::Batch => json(&batch::batch(call, HttpCall::json(&body)?).await?),
        Endpoint::Policies
        | Endpoint::Gate
        | Endpoint::Metrics
        | Endpoint::Health
        | Endpoint::Ready
        | Endpoint::OpenApi => Err(unknown_path()),
    }
}

async fn run(handler: Endpoint, call: &HttpCall<'_>) -> Result<HttpResponse, HttpProblem> {
    match handler {
        Endpoint::Check | Endpoint::Peek | Endpoint::Reset | Endpoint::Refund | Endpoint::Explain | Endpoint::Batch => {
            Err(unknown_path())
        }
        Endpoint::Policies => json(&listing::policies(call)?),
        Endpoint::Gate => gate::gate(call).await,
        Endpoint::Metrics => state::metrics(call),
        Endpoint::Health => Ok(text("ok\n")),
        Endpoint::Ready => state::ready(call).await,
        Endpoint::OpenApi => Ok(with_type(openapi::text(), "application/json")),
    }
}

fn unknown_path() -> HttpProblem {
    let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    HttpProblem::new(StatusCode::NOT_FOUND, format!("expected one of the paths {}", paths.join(", ")))
}

fn json(answer: &impl Serialize) -> Result<HttpResponse, HttpProblem> {
    let text = serde_json::to_vec(answer);
    let text = text.map_err(|error| HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(with_type(text, "application/json"))
}

pub(super) fn text(text: &'static str) -> HttpResponse {
    with_type(text, "text/plain; charset=utf-8")
}

/// Returns an answer of that type. No cache may store it: each answer is valid for its moment only.
pub(super) fn with_type(body: impl Into<Bytes>, kind: &'static str) -> HttpResponse {
    let mut response = Response::new(bytes(body));
    let set: [(HeaderName, _); 2] = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    for (name, value) in set {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(super) fn bytes(body: impl Into<Bytes>) -> Full<Bytes> {
    Full::new(body.into())
}
