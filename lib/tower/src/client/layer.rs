//! The layer and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tollgate_kernel::Micros;
use tower_layer::Layer;

use super::account::WaitLimits;
use super::accounts::AccountTable;
use super::limit_reader::LimitReader;
use super::origin::origin;
use super::service::ObeyService;
use crate::timer::{Timer, TokioTimer};

type ObeyKeyFn = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// A layer for clients that makes them comply with the limits that the called services report. See the
/// [module](super).
///
/// The knowledge about limits is shared by the layer's clones and all services that it makes.
#[derive(Clone, Debug)]
pub struct ObeyLayer {
    settings: ObeySettings,
    accounts: Arc<AccountTable>,
}

/// The settings of a layer.
#[derive(Clone)]
pub(super) struct ObeySettings {
    pub(super) waiting: WaitLimits,
    pub(super) most_keys: usize,
    pub(super) at_most: Micros,
    pub(super) spread: u8,
    pub(super) key: Arc<ObeyKeyFn>,
    pub(super) timer: Arc<dyn Timer>,
}

/// What a layer's services share.
#[derive(Debug)]
pub(super) struct ObeyCore {
    pub(super) settings: ObeySettings,
    pub(super) reader: LimitReader,
    pub(super) accounts: Arc<AccountTable>,
}

impl ObeyLayer {
    /// Creates a layer that obeys the limits of each origin; a request that has to be held back fails immediately.
    pub fn new() -> Self {
        let settings = ObeySettings {
            waiting: WaitLimits { longest: Micros::ZERO, most_waiting: 1_000 },
            most_keys: 1_024,
            at_most: Micros::from_secs(3_600),
            spread: 0,
            key: Arc::new(origin),
            timer: Arc::new(TokioTimer::new()),
        };
        Self { settings, accounts: Arc::default() }
    }

    /// Sets how long a request may be held back before it is sent. A request that would have to wait longer fails
    /// as soon as that is known. The default is zero, with which no request waits.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.settings.waiting.longest = longest.into();
        self
    }

    /// Sets how many requests of one key may wait. The default is 1,000. Any further request fails immediately.
    pub fn most_waiting(mut self, most: usize) -> Self {
        self.settings.waiting.most_waiting = most;
        self
    }

    /// Sets under whose limits a request falls: requests with the same key are counted together. The default key is
    /// the origin: scheme, host and port of the request's URI, or its `Host` field. Requests for which this returns
    /// `None`, or a key of more than 512 bytes, are sent immediately, and nothing is learned from their responses.
    ///
    /// ```
    /// use tollgate_tower::client::ObeyLayer;
    /// // A service that counts by account: what one account may do says nothing of another.
    /// let layer = ObeyLayer::new().key(|parts| {
    ///     let account = parts.headers.get("x-account")?.to_str().ok()?;
    ///     Some(format!("{} {account}", parts.uri.host()?))
    /// });
    /// ```
    pub fn key(mut self, key: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.settings.key = Arc::new(key);
        self
    }

    /// Sets how many keys are remembered. The default is 1,024. Keys whose hold has ended are forgotten first, then
    /// those whose hold ends first.
    pub fn most_keys(mut self, most: usize) -> Self {
        self.settings.most_keys = most;
        self
    }

    /// Sets the longest hold that is obeyed. The default is one hour. A service that demands a longer hold receives
    /// a request after this time.
    pub fn at_most(mut self, at_most: Duration) -> Self {
        self.settings.at_most = at_most.into();
        self
    }

    /// Lengthens every hold at random by up to this percentage, at most 10, so that many clients that received the
    /// same time from a service do not all return at that moment. A hold never becomes shorter, and never longer
    /// than [`ObeyLayer::at_most`].
    pub fn spread(mut self, percent: u8) -> Self {
        self.settings.spread = percent.min(10);
        self
    }

    /// Sets the timer. The default is the tokio runtime's.
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.settings.timer = Arc::new(timer);
        self
    }

    /// Returns how many keys are remembered now.
    pub fn keys(&self) -> usize {
        self.accounts.len()
    }
}

impl Default for ObeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ObeyLayer {
    type Service = ObeyService<S>;

    fn layer(&self, inner: S) -> ObeyService<S> {
        let settings = self.settings.clone();
        let reader = LimitReader::new(settings.at_most, settings.spread);
        ObeyService::new(inner, Arc::new(ObeyCore { settings, reader, accounts: Arc::clone(&self.accounts) }))
    }
}

impl fmt::Debug for ObeySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ObeySettings");
        shown.field("waiting", &self.waiting).field("most_keys", &self.most_keys);
        shown.field("at_most", &self.at_most).field("spread", &self.spread).finish_non_exhaustive()
    }
}
