//! Tests of what the client layer guarantees.
//!
//! | file | what it is |
//! |---|---|
//! | `law.rs` | a simulated network that reorders, loses and delays: never refused |
//! | `network.rs` | a server on loopback, and callers on a clock that the test moves |
//! | `obeys.rs` | the layer against Tollgate's own layer, over the network, in every dialect |
//! | `rules.rs` | which responses are obeyed, and for how long |
//! | `line.rs` | waiting requests: order, bounds, cancelling |
//! | `hostile.rs` | malicious header fields; more origins than are remembered |

mod hostile;
mod law;
mod line;
mod network;
mod obeys;
mod rules;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use super::{ObeyError, ObeyLayer, ObeyService};

pub(super) type Client = ObeyService<Answers>;

pub(super) type Answers = BoxCloneSyncService<Request<()>, Response<()>, Infallible>;

/// A service in process that gives these answers in turn, then plain ones, and counts its requests.
#[derive(Clone)]
pub(super) struct ScriptedService {
    answers: Arc<Mutex<VecDeque<Response<()>>>>,
    asked: Arc<Mutex<usize>>,
}

impl ScriptedService {
    pub(super) fn new(answers: impl IntoIterator<Item = Response<()>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), asked: Arc::default() }
    }

    pub(super) fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    pub(super) fn then(&self, answer: Response<()>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    pub(super) fn behind(&self, layer: &ObeyLayer) -> Client {
        let this = self.clone();
        layer.layer(BoxCloneSyncService::new(service_fn(move |_: Request<()>| {
            *this.asked.lock().unwrap() += 1;
            let answer = this.answers.lock().unwrap().pop_front().unwrap_or_default();
            async { Ok(answer) }
        })))
    }
}

/// Returns a response with this status and these fields.
pub(super) fn answer(status: u16, fields: &[(&'static str, &str)]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status.try_into().unwrap();
    let headers: &mut HeaderMap = response.headers_mut();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    response
}

pub(super) fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

/// Makes one request: `None` if it was sent, otherwise how long it is held.
pub(super) async fn held(client: &Client, uri: &str) -> Option<Duration> {
    match client.clone().oneshot(get(uri)).await {
        Ok(_) => None,
        Err(ObeyError::Held { retry_after }) => Some(retry_after),
        Err(other) => panic!("{other}"),
    }
}
