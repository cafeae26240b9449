//! A limiter for a service or a route, and the layer built from it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollgate_kernel::OnError;
use tower_layer::Layer;
use tracing::Level;

use super::error::PlugError;
use super::limiters::{Limiters, Switch};
use super::reply::{PlugAnswer, PlugFailure, PlugReply};
use super::settings::{PlugOption, PlugSettings};
use crate::key::{Key, key_fn};
use crate::layer::{GateLayer, SkipFn};
use crate::limiter::Limiter;
use crate::refusal::GateRefusal;
use crate::route_rules::RouteRules;
use crate::service::GateService;
use crate::verdict::LimiterVerdict;

/// A limiter from which a layer for a service is built: see [`Limiters::plug`].
#[derive(Clone)]
#[must_use = "a limiter limits nothing until it is built"]
pub struct PlugBuilder {
    limiters: Limiters,
    settings: PlugSettings,
    routes: Vec<(Box<str>, PlugSettings)>,
    skip: Vec<Arc<SkipFn>>,
    enabled: Option<Arc<Switch>>,
    tell_service: bool,
}

impl PlugBuilder {
    pub(super) fn new(limiters: Limiters, settings: PlugSettings) -> Self {
        let enabled = limiters.enabled.clone();
        Self { limiters, settings, routes: Vec::new(), skip: Vec::new(), enabled, tell_service: false }
    }

    fn change(self, change: impl FnOnce(PlugSettings) -> PlugSettings) -> Self {
        Self { settings: change(self.settings), ..self }
    }

    /// See [`PlugSettings::lua`]. Like all methods below, this does not change routes that were added before.
    pub fn lua(self, lua: impl Into<String>) -> Self {
        self.change(|settings| settings.lua(lua))
    }

    /// See [`PlugSettings::headers`].
    pub fn headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.change(|settings| settings.headers(names))
    }

    /// See [`PlugSettings::opts`].
    pub fn opts<O: Into<PlugOption>>(self, opts: impl IntoIterator<Item = O>) -> Self {
        self.change(|settings| settings.opts(opts))
    }

    /// See [`PlugSettings::key`].
    pub fn key(self, key: impl Key) -> Self {
        self.change(|settings| settings.key(key))
    }

    /// See [`PlugSettings::keys`].
    pub fn keys<K: AsRef<[u8]>>(self, keys: impl Fn(&Parts) -> Option<Vec<K>> + Send + Sync + 'static) -> Self {
        self.change(|settings| settings.keys(keys))
    }

    /// See [`PlugSettings::log`].
    pub fn log(self, level: impl Into<Option<Level>>) -> Self {
        self.change(|settings| settings.log(level))
    }

    /// See [`PlugSettings::respond`].
    pub fn respond(
        self,
        respond: impl Fn(&PlugReply<'_>) -> Result<PlugAnswer, PlugFailure> + Send + Sync + 'static,
    ) -> Self {
        self.change(|settings| settings.respond(respond))
    }

    /// Sets another limiter, or other settings, for the paths that match `pattern`, in which `*` stands for
    /// anything. `change` receives the current settings. The first pattern that matches applies.
    pub fn route(mut self, pattern: &str, change: impl FnOnce(PlugSettings) -> PlugSettings) -> Self {
        let settings = change(self.settings.clone());
        self.routes.push((pattern.into(), settings));
        self
    }

    /// See [`PlugSettings::on_error`].
    pub fn on_error(self, on_error: OnError) -> Self {
        self.change(|settings| settings.on_error(on_error))
    }

    /// Lets requests for which `test` returns true pass unchanged.
    pub fn skip(mut self, test: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.skip.push(Arc::new(test));
        self
    }

    /// Replaces the switch of [`Limiters::enabled`].
    pub fn enabled(self, enabled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { enabled: Some(Arc::new(enabled)), ..self }
    }

    /// Puts the [`LimiterVerdict`] into the extensions of requests that pass; its `raw` is the
    /// [`Output`](super::Output).
    pub fn tell_service(self) -> Self {
        Self { tell_service: true, ..self }
    }

    /// Sends the scripts of this limiter and of its routes to the server, and fails if the server cannot run one of them:
    /// Lua that does not compile, or that a Tollgate server does not know. [`PlugBuilder::build`] asks no server. It refuses
    /// Lua that is not known to every Tollgate server, unless this method found that this one knows it.
    #[cfg(feature = "redis")]
    pub async fn load(mut self) -> Result<Self, PlugError> {
        let routes = self.routes.iter().map(|(_, settings)| settings.clone());
        for settings in std::iter::once(self.settings.clone()).chain(routes.collect::<Vec<_>>()) {
            self.limiters.load(settings).await?;
        }
        Ok(self)
    }

    /// Builds the layer. All errors in names, options and headers are reported here, and scripts that a Tollgate server does
    /// not know.
    pub fn build(self) -> Result<PlugLayer, PlugError> {
        let rules = |settings: PlugSettings| -> Result<RouteRules, PlugError> {
            let rules = RouteRules::new(Limiter::custom(self.limiters.prepare(settings)?));
            // The limiter makes its keys itself: there may be several.
            let rules = rules.key(key_fn(|_: &Parts| Some("plug"))).log(None).respond(limiter_response);
            Ok(if self.tell_service { rules.tell_service() } else { rules })
        };
        let enabled = self.enabled.unwrap_or_else(|| Arc::new(|| false));
        let mut gate = GateLayer::of(rules(self.settings)?).enabled(move || enabled());
        for skip in self.skip {
            gate = gate.skip(move |parts| skip(parts));
        }
        for (pattern, settings) in self.routes {
            let other = rules(settings)?;
            gate = gate.route(&pattern, |_| other);
        }
        Ok(PlugLayer(gate))
    }
}

/// Returns the response that the limiter made.
fn limiter_response(refusal: &GateRefusal<'_>) -> Response<Bytes> {
    let made = match refusal.verdict() {
        Some(LimiterVerdict::Custom(custom)) => {
            custom.raw.as_ref().and_then(|raw| raw.downcast_ref::<Response<Bytes>>())
        }
        _ => None,
    };
    made.cloned().unwrap_or_else(|| refusal.response())
}

impl fmt::Debug for PlugBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlugBuilder")
            .field("settings", &self.settings)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// A layer of named limiters: see [`PlugBuilder::build`].
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing by itself"]
pub struct PlugLayer(GateLayer);

impl<S> Layer<S> for PlugLayer {
    type Service = GateService<S>;

    fn layer(&self, service: S) -> GateService<S> {
        self.0.layer(service)
    }
}
