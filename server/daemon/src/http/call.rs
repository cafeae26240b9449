//! A request on its way to a route: its caller and its body.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use tollgate_telemetry::traces::RequestSpan;

use super::problem::HttpProblem;
use super::routes::{Endpoint, Route};
use super::values::JsonObject;
use crate::access::{Scope, Scopes};
use crate::buffers::{BufferBudget, BufferLease};
use crate::shared::ServerState;
use crate::spans;
use tollgate_engine::{EngineAnswer, EngineQuestion};
use tollgate_keyspace::Fault;
use tollgate_telemetry::audit::FrontEnd;
use tollgate_telemetry::audit::{AuditAction, AuditActor, AuditEvent, AuditOutcome, CallerIdentity};

/// A body that has arrived completely.
#[derive(Default)]
pub(super) struct HttpRequestBody {
    bytes: Vec<u8>,
    /// The bytes that it takes of the shared buffers.
    lease: BufferLease,
}

/// A request.
pub(super) struct HttpCall<'a> {
    pub(super) shared: &'a ServerState,
    pub(super) parts: Parts,
    pub(super) peer: SocketAddr,
    /// What may be done on this connection without a token.
    pub(super) free: Scopes,
    /// The caller, unknown until [`HttpCall::admit`] identifies it.
    pub(super) who: CallerIdentity,
    /// The span of the request, if it is traced.
    pub(super) span: Option<Mutex<RequestSpan>>,
}

impl HttpCall<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Checks that the caller may use the route: by the token it presents, else by where it comes from.
    pub(super) fn admit(&mut self, route: &Route) -> Result<(), HttpProblem> {
        let Some(scope) = route.scope else { return Ok(()) };
        self.who = self.free.who();
        // Proxies pass on credentials that their client sent to the service behind them; they are not meant for this
        // server.
        if route.handler == Endpoint::Gate && self.free.has(scope) {
            return Ok(());
        }
        let admitted = self.check_token(scope);
        if let (Err(problem), Scope::Reset) = (&admitted, scope) {
            let (by, outcome) = (&self.by(), AuditOutcome::Refused(&problem.detail));
            let event =
                AuditEvent { actor: by, detail: route.path, ..AuditEvent::of_server(AuditAction::Reset, outcome) };
            self.shared.engine.audit().record(&event);
        }
        admitted
    }

    /// Adds to the span of the request, if it is traced.
    #[inline]
    pub(super) fn trace(&self, tell: impl FnOnce(&mut RequestSpan)) {
        if let Some(span) = &self.span {
            tell(&mut span.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Asks the engine a question.
    pub(super) async fn ask(&self, question: &EngineQuestion) -> Result<EngineAnswer, Fault> {
        let answer = match question {
            EngineQuestion::Reset(_) => self.shared.engine.answer_by(question, &self.by()).await,
            _ => self.shared.engine.answer(question).await,
        };
        self.trace(|span| spans::answer(span, &self.shared.engine, question, &answer));
        answer
    }

    /// Returns the caller and its address, for the audit log.
    pub(super) fn by(&self) -> AuditActor {
        let peer = self.peer.ip().to_canonical();
        let client = self.shared.http.trusted.client(peer, self.headers());
        AuditActor::new(self.who.clone(), FrontEnd::Http, self.peer, Some(client).filter(|client| *client != peer))
    }

    fn check_token(&mut self, scope: Scope) -> Result<(), HttpProblem> {
        let (shared, ip) = (self.shared, self.peer.ip());
        let mut shown = self.headers().get_all(AUTHORIZATION).iter();
        let Some(authorization) = shown.next() else {
            if self.free.has(scope) {
                return Ok(());
            }
            let text = format!("expected Authorization: Bearer TOKEN, a token with the scope {}", scope.name());
            return Err(HttpProblem::unauthorized(text));
        };
        let token = authorization.as_bytes().split_at_checked(7);
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer ")).map(|(_, token)| token);
        let (Some(token), None) = (token, shown.next()) else {
            return Err(HttpProblem::unauthorized("Authorization: expected it once, as Bearer TOKEN"));
        };
        let login = shared.access.login(token.trim_ascii(), ip);
        self.who =
            login.as_ref().map_or(CallerIdentity::UnknownToken, |login| CallerIdentity::Token(Arc::clone(&login.name)));
        let scopes = login?.scopes.and(self.free);
        if scopes.has(scope) { Ok(()) } else { Err(HttpProblem::missing_scope(scope, scopes)) }
    }

    /// Parses a body as JSON.
    pub(super) fn json<T: DeserializeOwned>(body: &HttpRequestBody) -> Result<T, HttpProblem> {
        let mut reader = serde_json::Deserializer::from_slice(&body.bytes);
        let JsonObject(read) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            // A path with an unknown end is written with a trailing `?`.
            let known = match error.path().iter().next_back() {
                Some(Segment::Unknown) => path.strip_suffix('?').unwrap_or(&path),
                _ => &path,
            };
            let place = match known.strip_suffix('.').unwrap_or(known) {
                "" => String::new(),
                place => format!("{place}: "),
            };
            HttpProblem::bad_request(format!("{place}{}", error.into_inner()))
        })?;
        reader.end().map_err(|error| HttpProblem::bad_request(format!("expected one JSON object: {error}")))?;
        Ok(read)
    }

    /// Receives the whole body. It is copied piece by piece, because a piece of one byte would keep the whole buffer
    /// that it arrived in.
    pub(super) async fn receive(&self, mut body: Incoming) -> Result<HttpRequestBody, HttpProblem> {
        if !is_json(self.headers()) {
            let text = "Content-Type: expected application/json";
            return Err(HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let limits = &self.shared.http.limits;
        let most = limits.body_bytes;
        if body.size_hint().lower() > most as u64 {
            return Err(too_large(most));
        }
        let received = async {
            let mut received = HttpRequestBody::default();
            while let Some(piece) = body.frame().await {
                let piece =
                    piece.map_err(|error| HttpProblem::bad_request(format!("expected a whole body: {error}")))?;
                received.add(piece.data_ref().map_or(&[], |data| &data[..]), most, &self.shared.buffers)?;
            }
            Ok(received)
        };
        let late = |_| {
            let text = format!("expected the body within {:?}", limits.body);
            HttpProblem::new(StatusCode::REQUEST_TIMEOUT, text)
        };
        tokio::time::timeout(limits.body, received).await.map_err(late)?
    }
}

impl HttpRequestBody {
    /// Appends a piece, if the body may be that long and there is room for it.
    fn add(&mut self, piece: &[u8], most: usize, budget: &Arc<BufferBudget>) -> Result<(), HttpProblem> {
        let len = self.bytes.len() + piece.len();
        if len > most {
            return Err(too_large(most));
        }
        if len > self.bytes.capacity() {
            let room = len.max(2 * self.bytes.capacity()).min(most);
            if !self.lease.keep(budget, room) {
                let text = "expected a shorter body: the buffers that all share are nearly full (--buffers); try again";
                return Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1));
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

fn too_large(most: usize) -> HttpProblem {
    HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("expected a body of at most {most} bytes"))
}

/// Returns whether the body is declared as JSON. A page of another site cannot send this type without a CORS preflight,
/// which is refused.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (types.next(), types.next()) else { return false };
    let kind = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
