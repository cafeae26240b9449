//! The layer: tolls for routes, and requests that pass without a decision.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_http::Fields;
use tollgate_kernel::OnError;
use tower_layer::Layer;

use crate::key::Key;
use crate::limiter::Limiter;
use crate::line::Line;
use crate::refusal::Refusal;
use crate::service::Gated;
use crate::settle::Settle;
use crate::toll::Toll;

pub(crate) type Test = dyn Fn(&Parts) -> bool + Send + Sync;

/// A layer that limits the requests of a service.
///
/// ```
/// use tollgate::Gate;
/// use tollgate_http::Proxies;
/// use tollgate_tower::{ClientIp, GateLayer, skip};
///
/// let login = Gate::memory("5/min")?;
/// let layer = GateLayer::new(Gate::memory("100/min, 10/s")?)
///     .key(ClientIp::behind(Proxies::new(["10.0.0.0/8"])?))
///     .cost(|request| if request.method == http::Method::POST { 5 } else { 1 })
///     .skip(skip::preflight)
///     .skip(skip::paths(["/healthz"]))
///     .route("/login", |toll| toll.limiter(login).cost(|_| 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Several layers may be nested, for example one for addresses around one for tokens. They decide from the outside
/// in, and the response carries the header fields of all of them. If an inner layer refuses a request, the outer
/// one has already charged it and keeps the charge, unless it is set to refund it: `settle(|status, _| if status ==
/// 429 { Settle::Refund } else { Settle::Keep })`.
#[derive(Clone)]
#[must_use = "a layer limits nothing by itself"]
pub struct GateLayer {
    toll: Toll,
    routes: Vec<(Box<str>, Toll)>,
    skip: Vec<Arc<Test>>,
    enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// Created once, when the layer is first applied to a service: axum applies it to each of its routes.
    rules: OnceLock<Arc<Rules>>,
}

/// The rules of a layer, shared by the services that it was applied to.
pub(crate) struct Rules {
    pub(crate) toll: Arc<Toll>,
    pub(crate) routes: Box<[(Box<str>, Arc<Toll>)]>,
    pub(crate) skip: Box<[Arc<Test>]>,
    pub(crate) enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl GateLayer {
    /// Creates a layer that charges this limiter one unit for each request, by the peer's address.
    pub fn new(limiter: impl Into<Limiter>) -> Self {
        Self::of(Toll::new(limiter))
    }

    /// Creates a layer with this toll.
    pub fn of(toll: Toll) -> Self {
        Self { toll, routes: Vec::new(), skip: Vec::new(), enabled: None, rules: OnceLock::new() }
    }

    /// Sets a different toll for the paths that match `pattern`, in which `*` stands for anything. `change`
    /// receives the layer's current toll. The first pattern that matches applies.
    ///
    /// Paths are compared as they were sent, byte by byte: nothing is decoded, and a router that is nested in
    /// another sees paths without the prefix under which it is nested. A limiter that `change` does not replace is
    /// shared with the other routes.
    pub fn route(mut self, pattern: &str, change: impl FnOnce(Toll) -> Toll) -> Self {
        let toll = change(self.toll.clone());
        self.routes.push((pattern.into(), toll));
        self.change(|toll| toll)
    }

    /// Lets requests for which `test` returns true pass unchanged: no limiter decides, and no header field is set.
    pub fn skip(mut self, test: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.skip.push(Arc::new(test));
        self.change(|toll| toll)
    }

    /// Sets a switch that is called for each request: while it returns false, all requests pass unchanged.
    pub fn enabled(self, enabled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { enabled: Some(Arc::new(enabled)), rules: OnceLock::new(), ..self }
    }

    /// Changes the toll and discards the prepared rules, which no longer match it.
    fn change(self, change: impl FnOnce(Toll) -> Toll) -> Self {
        Self { toll: change(self.toll), rules: OnceLock::new(), ..self }
    }

    /// See [`Toll::key`]. Like all methods below, this does not change routes that were added before.
    pub fn key(self, key: impl Key) -> Self {
        self.change(|toll| toll.key(key))
    }

    /// See [`Toll::cost`].
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|toll| toll.cost(cost))
    }

    /// See [`Toll::settle`].
    pub fn settle(self, settle: impl Fn(StatusCode, &HeaderMap) -> Settle + Send + Sync + 'static) -> Self {
        self.change(|toll| toll.settle(settle))
    }

    /// See [`Toll::look_first`].
    pub fn look_first(self) -> Self {
        self.change(Toll::look_first)
    }

    /// See [`Toll::headers`].
    pub fn headers(self, fields: Fields) -> Self {
        self.change(|toll| toll.headers(fields))
    }

    /// See [`Toll::respond`].
    pub fn respond(self, respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.change(|toll| toll.respond(respond))
    }

    /// See [`Toll::on_error`].
    pub fn on_error(self, on_error: OnError) -> Self {
        self.change(|toll| toll.on_error(on_error))
    }

    /// See [`Toll::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|toll| toll.deadline(deadline))
    }

    /// See [`Toll::wait`].
    pub fn wait(self, line: Line) -> Self {
        self.change(|toll| toll.wait(line))
    }

    /// See [`Toll::log`].
    pub fn log(self, level: impl Into<Option<tracing::Level>>) -> Self {
        self.change(|toll| toll.log(level))
    }

    /// See [`Toll::pass_without_key`].
    pub fn pass_without_key(self) -> Self {
        self.change(Toll::pass_without_key)
    }

    /// See [`Toll::tell_service`].
    pub fn tell_service(self) -> Self {
        self.change(Toll::tell_service)
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        Gated::new(service, self.rules.get_or_init(|| Arc::new(self.rules())).clone())
    }
}

impl GateLayer {
    fn rules(&self) -> Rules {
        let routes = self.routes.iter().map(|(pattern, toll)| (pattern.clone(), Arc::new(toll.clone().prepare())));
        Rules {
            toll: Arc::new(self.toll.clone().prepare()),
            routes: routes.collect(),
            skip: self.skip.clone().into(),
            enabled: self.enabled.clone(),
        }
    }
}

impl std::fmt::Debug for GateLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateLayer").field("toll", &self.toll).field("routes", &self.routes).finish_non_exhaustive()
    }
}

impl Rules {
    /// Returns the toll of a request, or `None` if it passes unchanged.
    #[inline]
    pub(crate) fn toll(&self, parts: &Parts) -> Option<&Arc<Toll>> {
        if self.enabled.as_ref().is_some_and(|enabled| !enabled()) || self.skip.iter().any(|skip| skip(parts)) {
            return None;
        }
        if self.routes.is_empty() {
            return Some(&self.toll);
        }
        let path = parts.uri.path().as_bytes();
        let route = self.routes.iter().find(|(pattern, _)| tollgate_kernel::matches(pattern.as_bytes(), path, &mut 0));
        Some(route.map_or(&self.toll, |(_, toll)| toll))
    }
}
