//! The service behind the layer. Bodies are never touched. While a decision is pending, the request keeps the
//! service that was polled ready for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_kernel::Decision;
use tower_service::Service;

use crate::admission::{Admission, AdmissionFuture, SettlementFuture};
use crate::body::GateBody;
use crate::key::KeyBuf;
use crate::layer::LayerRules;
use crate::route_rules::RouteRules;
use crate::verdict::LimiterVerdict;

/// A service whose requests are limited: see [`GateLayer`](crate::GateLayer).
#[derive(Clone)]
pub struct GateService<S> {
    service: S,
    rules: Arc<LayerRules>,
}

impl<S> GateService<S> {
    pub(crate) fn new(service: S, rules: Arc<LayerRules>) -> Self {
        Self { service, rules }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for GateService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateService").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for GateService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<GateBody<R>>;
    type Error = S::Error;
    type Future = GateFuture<S, B, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let Some(route) = self.rules.route(&parts) else {
            return self.pass(Request::from_parts(parts, body));
        };
        let mut key = KeyBuf::new();
        if let Err(error) = route.write_key(&parts, &mut key) {
            return match route.refuse_without_key(&parts, &error) {
                Some(response) => GateFuture::of(GateState::Refused { response: Some(response) }),
                None => self.pass(Request::from_parts(parts, body)),
            };
        }
        let question = route.question(&parts);
        let admission = match route.decide_now(key.as_bytes(), question) {
            // Most requests take this path, so it is the shortest.
            Some(decision) if decision.allowed => {
                if route.tell_service {
                    parts.extensions.insert(route.verdict_of_one(&decision));
                }
                let finisher = ResponseFinisher::new(route, PassReport::Decision(decision), &key);
                let future = self.service.call(Request::from_parts(parts, body));
                return GateFuture { state: GateState::Serving { future, finisher } };
            }
            Some(decision) => Some(route.admission_of(Ok(route.verdict_of_one(&decision)), key.as_bytes(), question)),
            None => route.admit_now(key.as_bytes(), question),
        };
        match admission {
            Some(Admission::Pass(verdict)) => {
                if route.tell_service {
                    parts.extensions.insert(verdict.clone());
                }
                let finisher = ResponseFinisher::new(route, PassReport::Verdict(Box::new(verdict)), &key);
                let future = self.service.call(Request::from_parts(parts, body));
                GateFuture::of(GateState::Serving { future, finisher })
            }
            Some(Admission::Refuse(verdict, kind)) => {
                GateFuture::of(GateState::Refused { response: Some(route.refuse(&parts, &verdict, kind)) })
            }
            None => {
                let route = route.clone();
                // The clone may not be ready, so the service that was polled ready serves this request.
                let spare = self.service.clone();
                let service = std::mem::replace(&mut self.service, spare);
                let pending =
                    Some(Box::new(UndecidedRequest { body, service, key: key.clone(), route: route.clone() }));
                GateFuture::of(GateState::Asking { admission: route.admit_later(parts, key, question), pending })
            }
        }
    }
}

impl<S> GateService<S> {
    fn pass<B, R>(&mut self, request: Request<B>) -> GateFuture<S, B, R>
    where
        S: Service<Request<B>, Response = Response<R>>,
    {
        GateFuture::of(GateState::Serving { future: self.service.call(request), finisher: None })
    }
}

/// What is needed to finish the response of a request that passed. It moves together with the future, so it is
/// small.
struct ResponseFinisher {
    route: Arc<RouteRules>,
    report: PassReport,
    /// Kept only if a response may change the charge.
    key: Option<Box<KeyBuf>>,
}

/// The result that the response reports for a request that passed.
enum PassReport {
    /// For a policy with one limit, whose decision contains everything.
    Decision(Decision),
    Verdict(Box<LimiterVerdict>),
}

impl PassReport {
    #[inline]
    fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Verdict(verdict) => match &**verdict {
                LimiterVerdict::Decided(decision, _) => Some(decision),
                LimiterVerdict::Custom(_) => None,
            },
        }
    }
}

impl ResponseFinisher {
    /// Returns `None` if the response is not changed at all.
    #[inline]
    fn new(route: &Arc<RouteRules>, report: PassReport, key: &KeyBuf) -> Option<Self> {
        let silent = route.prepared.is_none() && matches!(report, PassReport::Decision(_));
        if silent && route.settle.is_none() {
            return None;
        }
        let key = route.settle.is_some().then(|| Box::new(key.clone()));
        Some(Self { route: route.clone(), report, key })
    }

    #[inline]
    fn settlement<R>(&self, response: &Response<R>) -> Option<SettlementFuture> {
        let key = self.key.as_ref()?;
        self.route.settlement(self.report.decision().copied(), key, response.status(), response.headers())
    }

    #[inline]
    fn finish<R>(&self, mut response: Response<R>) -> Response<GateBody<R>> {
        match &self.report {
            PassReport::Decision(decision) => self.route.write_decision_fields(decision, &[], response.headers_mut()),
            PassReport::Verdict(verdict) => self.route.write_fields(verdict, response.headers_mut()),
        }
        served(response)
    }
}

/// A request whose decision is pending.
struct UndecidedRequest<S, B> {
    body: B,
    service: S,
    key: KeyBuf,
    route: Arc<RouteRules>,
}

pin_project! {
    /// The response of a service behind the layer.
    pub struct GateFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: GateState<S, B, R>,
    }
}

pin_project! {
    #[project = GateStateProjection]
    enum GateState<S, B, R>
    where
        S: Service<Request<B>>,
    {
        Asking { admission: AdmissionFuture, pending: Option<Box<UndecidedRequest<S, B>>> },
        Serving { #[pin] future: S::Future, finisher: Option<ResponseFinisher> },
        Settling { settlement: SettlementFuture, pending: Option<Box<(Response<R>, ResponseFinisher)>> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, B, R> GateFuture<S, B, R>
where
    S: Service<Request<B>>,
{
    fn of(state: GateState<S, B, R>) -> Self {
        Self { state }
    }
}

impl<S, B, R> Future for GateFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<GateBody<R>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                GateStateProjection::Asking { admission, pending } => {
                    let (mut parts, admission) = ready!(admission.as_mut().poll(context));
                    let Some(pending) = pending.take() else { return Poll::Pending };
                    let UndecidedRequest { body, mut service, key, route } = *pending;
                    let next = match admission {
                        Admission::Pass(verdict) => {
                            if route.tell_service {
                                parts.extensions.insert(verdict.clone());
                            }
                            let finisher = ResponseFinisher::new(&route, PassReport::Verdict(Box::new(verdict)), &key);
                            let future = service.call(Request::from_parts(parts, body));
                            GateState::Serving { future, finisher }
                        }
                        Admission::Refuse(verdict, kind) => {
                            GateState::Refused { response: Some(route.refuse(&parts, &verdict, kind)) }
                        }
                    };
                    this.state.set(next);
                }
                GateStateProjection::Serving { future, finisher } => {
                    let response = ready!(future.poll(context))?;
                    let Some(finisher) = finisher.take() else { return Poll::Ready(Ok(served(response))) };
                    match finisher.settlement(&response) {
                        None => return Poll::Ready(Ok(finisher.finish(response))),
                        Some(settlement) => {
                            let pending = Some(Box::new((response, finisher)));
                            this.state.set(GateState::Settling { settlement, pending });
                        }
                    }
                }
                GateStateProjection::Settling { settlement, pending } => {
                    let report = ready!(settlement.as_mut().poll(context));
                    let Some(pending) = pending.take() else { return Poll::Pending };
                    let (response, mut finisher) = *pending;
                    finisher.report = report.map_or(finisher.report, |verdict| PassReport::Verdict(Box::new(verdict)));
                    return Poll::Ready(Ok(finisher.finish(response)));
                }
                GateStateProjection::Refused { response } => {
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(GateBody::from_layer)));
                }
            }
        }
    }
}

fn served<R>(response: Response<R>) -> Response<GateBody<R>> {
    response.map(GateBody::from_service)
}
