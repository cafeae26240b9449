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
use tollgate_telemetry::traces::Span;

use super::call::Call;
use super::front::{check_host, named_host};
use super::problem::Problem;
use super::{batch, decide, gate, listing, openapi, state};
use crate::access::Scope;
use crate::shared::Shared;
use tollgate_telemetry::audit::Who;

/// The field that names the trace to which a request belongs.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

const METRICS: &str = "/metrics";

/// An answer to be written.
pub(super) type Answered = Response<Full<Bytes>>;

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
    pub(super) run: Run,
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

/// The handler of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
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

impl Run {
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
    run: Run,
    summary: &'static str,
) -> Route {
    Route { path, name, methods, scope, summary, run }
}

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    route("/v1/check", "check", Methods::Post, Some(Scope::Check), Run::Check, "Decide a request and charge it"),
    route("/v1/peek", "peek", Methods::Post, Some(Scope::Check), Run::Peek, "Decide a request and charge nothing"),
    route("/v1/reset", "reset", Methods::Post, Some(Scope::Reset), Run::Reset, "Forget a key under a policy"),
    route("/v1/refund", "refund", Methods::Post, Some(Scope::Refund), Run::Refund, "Give units back"),
    route("/v1/explain", "explain", Methods::Post, Some(Scope::Read), Run::Explain, "Say what a policy promises"),
    route("/v1/batch", "batch", Methods::Post, Some(Scope::Check), Run::Batch, "Decide many requests"),
    route("/v1/policies", "policies", Methods::Get, Some(Scope::Read), Run::Policies, "List the policies with names"),
    route("/v1/gate", "gate", Methods::Any, Some(Scope::Check), Run::Gate, "Decide for a proxy, in status and headers"),
    route(METRICS, "metrics", Methods::Get, Some(Scope::Read), Run::Metrics, "What the server counted"),
    route("/healthz", "healthz", Methods::Get, None, Run::Health, "Whether the server runs"),
    route("/readyz", "readyz", Methods::Get, None, Run::Ready, "Whether the server takes requests, and who decides"),
    route("/openapi.json", "openapi", Methods::Get, None, Run::OpenApi, "This document"),
];

/// Answers any request.
pub(super) async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
    peer: SocketAddr,
    local: SocketAddr,
) -> Answered {
    match respond(shared, request, peer, local).await {
        Ok(answered) => answered,
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
pub(super) fn no_room(shared: &Shared) -> Answered {
    let text = "expected room for a long answer: the buffers that all share are nearly full (--buffers); it may have \
                been charged";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1);
    shared.metrics.http_error(problem.status);
    problem.response()
}

async fn respond(
    shared: &Shared,
    request: Request<Incoming>,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<Answered, Problem> {
    let (parts, body) = request.into_parts();
    let free = shared.access.free(local, peer);
    let path = parts.uri.path();
    let found = ROUTES.iter().enumerate().find(|(_, route)| route.path == path);
    // Health checkers may speak no more than HTTP/1.0.
    let is_health = found.is_some_and(|(_, route)| matches!(route.run, Run::Health | Run::Ready));
    let host = named_host(&parts, is_health)?;
    // Where nothing is free, a page of another site gains nothing from its host name: it has no token.
    if !free.is_none() {
        check_host(host, &parts, local, &shared.http.hosts)?;
    }
    let (place, route) = found.ok_or_else(unknown)?;
    if !route.methods.has(&parts.method) {
        return Err(Problem::method(route.methods.names()));
    }
    // Scrapes and health checks are not traced.
    let span =
        route.scope.and_then(|_| shared.engine.trace(|| parts.headers.get(TRACEPARENT).map(HeaderValue::as_bytes)));
    let mut call = Call { shared, parts, peer, free, who: Who::Nobody, span: span.map(Mutex::new) };
    let answered = routed(place, route, &mut call, body).await;
    if let Some(span) = call.span.take() {
        traced(span, &call, route, &answered);
    }
    answered
}

async fn routed(place: usize, route: &Route, call: &mut Call<'_>, body: Incoming) -> Result<Answered, Problem> {
    let shared = call.shared;
    call.admit(route)?;
    shared.metrics.http_request(place);
    let began = Instant::now();
    let was_away = shared.engine.is_away();
    let answered = match route.methods {
        Methods::Post => run_with_body(route.run, call, body).await,
        Methods::Get | Methods::Any => run(route.run, call).await,
    };
    // Nothing is answered that would be lost in a restart, unless the policies decided without the home.
    if route.run.writes() && shared.engine.settled().await.is_err() && !was_away {
        let text = "expected to keep what was decided, and the disk failed; it may have been charged";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1));
    }
    if matches!(route.scope, Some(Scope::Check | Scope::Refund)) {
        shared.metrics.took(began.elapsed());
    }
    answered
}

/// Ends the span of a request.
#[cold]
fn traced(span: Mutex<Span>, call: &Call<'_>, route: &Route, answered: &Result<Answered, Problem>) {
    let mut span = span.into_inner().unwrap_or_else(PoisonError::into_inner);
    span.name(format!("{} {}", call.parts.method, route.path));
    let status = match answered {
        Ok(answered) => answered.status().as_u16(),
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
async fn run_with_body(run: Run, call: &Call<'_>, body: Incoming) -> Result<Answered, Problem> {
    let body = call.receive(body).await?;
    let _turn = call.shared.http.turn()?;
    match run {
        Run::Check => json(&decide::check(call, Call::json(&body)?, false).await?),
        Run::Peek => json(&decide::check(call, Call::json(&body)?, true).await?),
        Run::Reset => json(&decide::reset(call, Call::json(&body)?).await?),
        Run::Refund => json(&decide::refund(call, Call::json(&body)?).await?),
        Run::Explain => json(&decide::explain(call, Call::json(&body)?).await?),
        Run::Batch => json(&batch::batch(call, Call::json(&body)?).await?),
        Run::Policies | Run::Gate | Run::Metrics | Run::Health | Run::Ready | Run::OpenApi => Err(unknown()),
    }
}

async fn run(run: Run, call: &Call<'_>) -> Result<Answered, Problem> {
    match run {
        Run::Check | Run::Peek | Run::Reset | Run::Refund | Run::Explain | Run::Batch => Err(unknown()),
        Run::Policies => json(&listing::policies(call)?),
        Run::Gate => gate::gate(call).await,
        Run::Metrics => state::metrics(call),
        Run::Health => Ok(text("ok\n")),
        Run::Ready => state::ready(call).await,
        Run::OpenApi => Ok(with_type(openapi::text(), "application/json")),
    }
}

fn unknown() -> Problem {
    let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    Problem::new(StatusCode::NOT_FOUND, format!("expected one of the paths {}", paths.join(", ")))
}

fn json(answer: &impl Serialize) -> Result<Answered, Problem> {
    let text = serde_json::to_vec(answer);
    let text = text.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(with_type(text, "application/json"))
}

pub(super) fn text(text: &'static str) -> Answered {
    with_type(text, "text/plain; charset=utf-8")
}

/// Returns an answer of that type. No cache may store it: each answer is valid for its moment only.
pub(super) fn with_type(body: impl Into<Bytes>, kind: &'static str) -> Answered {
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
