//! A limiter for a service or a route, and the layer built from it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tower_layer::Layer;
use tracing::Level;

use super::error::PlugError;
use super::limiters::{Limiters, Switch};
use super::named::{Named, Opt};
use super::said::{Answer, Failure, Said};
use crate::key::{Key, by};
use crate::layer::{GateLayer, Test};
use crate::limiter::Limiter;
use crate::refusal::Refusal;
use crate::service::Gated;
use crate::toll::Toll;
use crate::verdict::Verdict;

/// A limiter from which a layer for a service is built: see [`Limiters::plug`].
#[derive(Clone)]
#[must_use = "a limiter limits nothing until it is built"]
pub struct Plug {
    limiters: Limiters,
    named: Named,
    routes: Vec<(Box<str>, Named)>,
    skip: Vec<Arc<Test>>,
    enabled: Option<Arc<Switch>>,
    tell_service: bool,
}

impl Plug {
    pub(super) fn new(limiters: Limiters, named: Named) -> Self {
        let enabled = limiters.enabled.clone();
        Self { limiters, named, routes: Vec::new(), skip: Vec::new(), enabled, tell_service: false }
    }

    fn change(self, change: impl FnOnce(Named) -> Named) -> Self {
        Self { named: change(self.named), ..self }
    }

    /// See [`Named::lua`]. Like all methods below, this does not change routes that were added before.
    pub fn lua(self, lua: impl Into<String>) -> Self {
        self.change(|named| named.lua(lua))
    }

    /// See [`Named::headers`].
    pub fn headers<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.change(|named| named.headers(names))
    }

    /// See [`Named::opts`].
    pub fn opts<O: Into<Opt>>(self, opts: impl IntoIterator<Item = O>) -> Self {
        self.change(|named| named.opts(opts))
    }

    /// See [`Named::key`].
    pub fn key(self, key: impl Key) -> Self {
        self.change(|named| named.key(key))
    }

    /// See [`Named::keys`].
    pub fn keys<K: AsRef<[u8]>>(self, keys: impl Fn(&Parts) -> Option<Vec<K>> + Send + Sync + 'static) -> Self {
        self.change(|named| named.keys(keys))
    }

    /// See [`Named::log`].
    pub fn log(self, level: impl Into<Option<Level>>) -> Self {
        self.change(|named| named.log(level))
    }

    /// See [`Named::respond`].
    pub fn respond(self, respond: impl Fn(&Said<'_>) -> Result<Answer, Failure> + Send + Sync + 'static) -> Self {
        self.change(|named| named.respond(respond))
    }

    /// Sets another limiter, or other settings, for the paths that match `pattern`, in which `*` stands for
    /// anything. `change` receives the current settings. The first pattern that matches applies.
    pub fn route(mut self, pattern: &str, change: impl FnOnce(Named) -> Named) -> Self {
        let named = change(self.named.clone());
        self.routes.push((pattern.into(), named));
        self
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

    /// Puts the [`Verdict`] into the extensions of requests that pass; its `raw` is the [`Output`](super::Output).
    pub fn tell_service(self) -> Self {
        Self { tell_service: true, ..self }
    }

    /// Builds the layer. All errors in names, options and headers are reported here.
    pub fn build(self) -> Result<PlugLayer, PlugError> {
        let toll = |named: Named| -> Result<Toll, PlugError> {
            let toll = Toll::new(Limiter::custom(self.limiters.prepare(named)?));
            // The limiter makes its keys itself: there may be several.
            let toll = toll.key(by(|_: &Parts| Some("plug"))).log(None).respond(stopped);
            Ok(if self.tell_service { toll.tell_service() } else { toll })
        };
        let enabled = self.enabled.unwrap_or_else(|| Arc::new(|| false));
        let mut gate = GateLayer::of(toll(self.named)?).enabled(move || enabled());
        for skip in self.skip {
            gate = gate.skip(move |parts| skip(parts));
        }
        for (pattern, named) in self.routes {
            let other = toll(named)?;
            gate = gate.route(&pattern, |_| other);
        }
        Ok(PlugLayer(gate))
    }
}

/// Returns the response that the limiter made.
fn stopped(refusal: &Refusal<'_>) -> Response<Bytes> {
    let made = match refusal.verdict() {
        Some(Verdict::Custom(custom)) => custom.raw.as_ref().and_then(|raw| raw.downcast_ref::<Response<Bytes>>()),
        _ => None,
    };
    made.cloned().unwrap_or_else(|| refusal.response())
}

impl fmt::Debug for Plug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plug").field("named", &self.named).field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// A layer of named limiters: see [`Plug::build`].
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing by itself"]
pub struct PlugLayer(GateLayer);

impl<S> Layer<S> for PlugLayer {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        self.0.layer(service)
    }
}
