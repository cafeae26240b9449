//! The layer and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tollgate_core::Micros;
use tower_layer::Layer;

use super::account::Patience;
use super::book::Book;
use super::hear::Ear;
use super::origin::origin;
use super::service::Obey;
use crate::timer::{Timer, TokioTimer};

type KeyOf = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// Makes clients that keep to what the services they call say of their limits. See the [module](super).
///
/// What was heard is shared by the layer's clones and all services it makes.
#[derive(Clone, Debug)]
pub struct ObeyLayer {
    settings: Settings,
    book: Arc<Book>,
}

/// What a layer was told.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) patience: Patience,
    pub(super) most_keys: usize,
    pub(super) at_most: Micros,
    pub(super) spread: u8,
    pub(super) key: Arc<KeyOf>,
    pub(super) timer: Arc<dyn Timer>,
}

/// What a layer's services share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) ear: Ear,
    pub(super) book: Arc<Book>,
}

impl ObeyLayer {
    /// Keeps to the limits of each origin; a request that a service does not want yet fails at once.
    pub fn new() -> Self {
        let settings = Settings {
            patience: Patience { longest: Micros::ZERO, most_waiting: 1_000 },
            most_keys: 1_024,
            at_most: Micros::from_secs(3_600),
            spread: 0,
            key: Arc::new(origin),
            timer: Arc::new(TokioTimer::new()),
        };
        Self { settings, book: Arc::default() }
    }

    /// How long a request may be held back before it is sent. One that would have to wait longer fails as soon as that
    /// is known. Without this, or with zero, none waits.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.settings.patience.longest = longest.into();
        self
    }

    /// How many requests of one key may wait; 1,000 without this. One more fails at once.
    pub fn most_waiting(mut self, most: usize) -> Self {
        self.settings.patience.most_waiting = most;
        self
    }

    /// Whose limits a request falls under: requests with the same key are counted together. Without this the key is
    /// the origin: scheme, host and port of the request's URI, or its `Host` field. Requests for which this answers
    /// `None`, or a key of more than 512 bytes, are sent as they come, and nothing is learned from their responses.
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

    /// How many keys are remembered; 1,024 without this. Those whose hold is over are forgotten first, then those whose
    /// hold ends first.
    pub fn most_keys(mut self, most: usize) -> Self {
        self.settings.most_keys = most;
        self
    }

    /// The longest hold that is believed; one hour without this. A service that asks for more is asked again after
    /// this long.
    pub fn at_most(mut self, at_most: Duration) -> Self {
        self.settings.at_most = at_most.into();
        self
    }

    /// Makes every hold longer by chance, by up to this many in a hundred, at most 10: so that the many clients which a
    /// service told the same moment do not all come back in it. Never shorter, and never longer than
    /// [`ObeyLayer::at_most`].
    pub fn spread(mut self, percent: u8) -> Self {
        self.settings.spread = percent.min(10);
        self
    }

    /// The clock to wait by; the tokio runtime's without this.
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.settings.timer = Arc::new(timer);
        self
    }

    /// How many keys are remembered now.
    pub fn keys(&self) -> usize {
        self.book.len()
    }
}

impl Default for ObeyLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ObeyLayer {
    type Service = Obey<S>;

    fn layer(&self, inner: S) -> Obey<S> {
        let settings = self.settings.clone();
        let ear = Ear::new(settings.at_most, settings.spread);
        Obey::new(inner, Arc::new(Shared { settings, ear, book: Arc::clone(&self.book) }))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Settings");
        told.field("patience", &self.patience).field("most_keys", &self.most_keys);
        told.field("at_most", &self.at_most).field("spread", &self.spread).finish_non_exhaustive()
    }
}
