//! The layer: rules for its routes, and requests that pass without a decision.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use tollgate_http::HeaderFields;
use tollgate_kernel::OnError;
use tower_layer::Layer;

use crate::key::Key;
use crate::limiter::Limiter;
use crate::line::WaitLine;
use crate::refusal::GateRefusal;
use crate::route_rules::RouteRules;
use crate::service::GateService;
use crate::settle::Settlement;

pub(crate) type SkipFn = dyn Fn(&Parts) -> bool + Send + Sync;

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
///     .route("/login", |route| route.limiter(login).cost(|_| 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Several layers may be nested, for example one for addresses around one for tokens. They decide from the outside
/// in, and the response carries the header fields of all of them. If an inner layer refuses a request, the outer
/// one has already charged it and keeps the charge, unless it is set to refund it: `settle(|status, _| if status ==
/// 429 { Settlement::Refund } else { Settlement::Keep })`.
#[derive(Clone)]
#[must_use = "a layer limits nothing by itself"]
pub struct GateLayer {
    /// The rules of requests that match no route.
    default: RouteRules,
    routes: Vec<(Box<str>, RouteRules)>,
    skip: Vec<Arc<SkipFn>>,
    enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// Created once, when the layer is first applied to a service: axum applies it to each of its routes.
    prepared: OnceLock<Arc<LayerRules>>,
}

/// The prepared rules of a layer, shared by the services that it was applied to.
pub(crate) struct LayerRules {
    pub(crate) default: Arc<RouteRules>,
    pub(crate) routes: Box<[(Box<str>, Arc<RouteRules>)]>,
    pub(crate) skip: Box<[Arc<SkipFn>]>,
    pub(crate) enabled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl GateLayer {
    /// Creates a layer that charges this limiter one unit for each request, by the peer's address.
    pub fn new(limiter: impl Into<Limiter>) -> Self {
        Self::of(RouteRules::new(limiter))
    }

    /// Creates a layer with these rules.
    pub fn of(rules: RouteRules) -> Self {
        Self { default: rules, routes: Vec::new(), skip: Vec::new(), enabled: None, prepared: OnceLock::new() }
    }

    /// Sets different rules for the paths that match `pattern`, in which `*` stands for anything. `change`
    /// receives the layer's current rules. The first pattern that matches applies.
    ///
    /// Paths are compared as they were sent, byte by byte: nothing is decoded, and a router that is nested in
    /// another sees paths without the prefix under which it is nested. A limiter that `change` does not replace is
    /// shared with the other routes.
    pub fn route(mut self, pattern: &str, change: impl FnOnce(RouteRules) -> RouteRules) -> Self {
        let rules = change(self.default.clone());
        self.routes.push((pattern.into(), rules));
        self.change(|rules| rules)
    }

    /// Lets requests for which `test` returns true pass unchanged: no limiter decides, and no header field is set.
    pub fn skip(mut self, test: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.skip.push(Arc::new(test));
        self.change(|rules| rules)
    }

    /// Sets a switch that is called for each request: while it returns false, all requests pass unchanged.
    pub fn enabled(self, enabled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { enabled: Some(Arc::new(enabled)), prepared: OnceLock::new(), ..self }
    }

    /// Changes the rules and discards the prepared ones, which no longer match them.
    fn change(self, change: impl FnOnce(RouteRules) -> RouteRules) -> Self {
        Self { default: change(self.default), prepared: OnceLock::new(), ..self }
    }

    /// See [`RouteRules::key`]. Like all methods below, this does not change routes that were added before.
    pub fn key(self, key: impl Key) -> Self {
        self.change(|rules| rules.key(key))
    }

    /// See [`RouteRules::cost`].
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.cost(cost))
    }

    /// See [`RouteRules::settle`].
    pub fn settle(self, settle: impl Fn(StatusCode, &HeaderMap) -> Settlement + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.settle(settle))
    }

    /// See [`RouteRules::look_first`].
    pub fn look_first(self) -> Self {
        self.change(RouteRules::look_first)
    }

    /// See [`RouteRules::headers`].
    pub fn headers(self, fields: HeaderFields) -> Self {
        self.change(|rules| rules.headers(fields))
    }

    /// See [`RouteRules::respond`].
    pub fn respond(self, respond: impl Fn(&GateRefusal<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.change(|rules| rules.respond(respond))
    }

    /// See [`RouteRules::on_error`].
    pub fn on_error(self, on_error: OnError) -> Self {
        self.change(|rules| rules.on_error(on_error))
    }

    /// See [`RouteRules::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|rules| rules.deadline(deadline))
    }

    /// See [`RouteRules::wait`].
    pub fn wait(self, line: WaitLine) -> Self {
        self.change(|rules| rules.wait(line))
    }

    /// See [`RouteRules::log`].
    pub fn log(self, level: impl Into<Option<tracing::Level>>) -> Self {
        self.change(|rules| rules.log(level))
    }

    /// See [`RouteRules::pass_without_key`].
    pub fn pass_without_key(self) -> Self {
        self.change(RouteRules::pass_without_key)
    }

    /// See [`RouteRules::tell_service`].
    pub fn tell_service(self) -> Self {
        self.change(RouteRules::tell_service)
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GateService<S>;

    fn layer(&self, service: S) -> GateService<S> {
        GateService::new(service, self.prepared.get_or_init(|| Arc::new(self.prepare())).clone())
    }
}

impl GateLayer {
    fn prepare(&self) -> LayerRules {
        let routes = self.routes.iter().map(|(pattern, rules)| (pattern.clone(), Arc::new(rules.clone().prepare())));
        LayerRules {
            default: Arc::new(self.default.clone().prepare()),
            routes: routes.collect(),
            skip: self.skip.clone().into(),
            enabled: self.enabled.clone(),
        }
    }
}

impl std::fmt::Debug for GateLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GateLayer")
            .field("default", &self.default)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl LayerRules {
    /// Returns the rules of a request, or `None` if it passes unchanged.
    #[inline]
    pub(crate) fn route(&self, parts: &Parts) -> Option<&Arc<RouteRules>> {
        if self.enabled.as_ref().is_some_and(|enabled| !enabled()) || self.skip.iter().any(|skip| skip(parts)) {
            return None;
        }
        if self.routes.is_empty() {
            return Some(&self.default);
        }
        let path = parts.uri.path().as_bytes();
        let route = self.routes.iter().find(|(pattern, _)| tollgate_kernel::matches(pattern.as_bytes(), path, &mut 0));
        Some(route.map_or(&self.default, |(_, rules)| rules))
    }
}
