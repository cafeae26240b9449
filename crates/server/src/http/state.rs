//! What the server says of itself: readiness, metrics, the policies that have names.

use hyper::StatusCode;
use tollgate_core::{Policy, Request, Source};

use super::bodies::{Listed, NamedPolicy};
use super::call::Call;
use super::problem::Problem;
use super::routes::{Answered, text, with_type};
use crate::desk::Home;
use crate::metrics;

/// The key that readiness looks at, under a policy of its own name. It is never charged.
const READY_KEY: &[u8] = b"tollgate:ready";
const READY_NAME: &str = "tollgate-ready";

pub(super) fn policies(call: &Call<'_>) -> Listed {
    let named = |policy: &Policy| NamedPolicy { name: policy.name().to_owned(), policy: policy.to_string() };
    Listed { policies: call.shared.desk.policies.listed().iter().map(named).collect() }
}

/// Ready while the server stays and its store decides.
pub(super) async fn ready(call: &Call<'_>) -> Result<Answered, Problem> {
    let away = |detail: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1);
    if *call.shared.stopping.borrow() {
        return Err(away("the server is about to end"));
    }
    if let Home::Redis(redis) = &call.shared.desk.home {
        let decided = match "1/s".parse::<Policy>().map(|policy| policy.with_name(READY_NAME)) {
            Ok(Ok(policy)) => {
                let request = Request { peek: true, ..Request::ONE };
                call.shared.desk.home.store().check(&policy, READY_KEY, request).await
            }
            _ => return Err(away("the server cannot ask its store")),
        };
        if !decided.is_ok_and(|decision| decision.source == Source::Home) || redis.stats().open_breakers > 0 {
            return Err(away("the store does not answer; decisions are made by each policy's on_error"));
        }
    }
    Ok(text("ready\n"))
}

pub(super) fn metrics(call: &Call<'_>) -> Result<Answered, Problem> {
    let text = metrics::exposition(&call.shared.desk)
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"))?;
    Ok(with_type(text.into_bytes(), "application/openmetrics-text; version=1.0.0; charset=utf-8"))
}
