//! What the server says of itself: readiness and metrics.

use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};
use tollgate_core::{Policy, Request, Source};

use super::call::Call;
use super::problem::Problem;
use super::routes::{Answered, text, with_type};
use crate::desk::Home;
use crate::metrics;

/// The key that readiness asks the store about, under a policy of its own name that always has room. It is charged,
/// since a store that is out of memory or read-only still answers who only looks.
const READY_KEY: &[u8] = b"tollgate:ready";
const READY_NAME: &str = "tollgate-ready";
const READY_POLICY: &str = "1000000/s gcra";

/// Ready while the server stays. It is also ready while its store is away, or its disk: it decides then too, and whoever
/// takes away what is not ready would take all servers of that store away at once.
pub(super) async fn ready(call: &Call<'_>) -> Result<Answered, Problem> {
    if *call.shared.stopping.borrow() {
        let detail = "the server is about to end";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1));
    }
    let home = &call.shared.desk.home;
    if let Some(why) = home.binding().and_then(|binding| binding.trouble()) {
        let who = if home.is_away() { "deciding as policies say" } else { "deciding on" };
        let line = format!("ready, {who}, but nothing is kept over a restart: {why}\n");
        return Ok(with_type(line.into_bytes(), "text/plain; charset=utf-8"));
    }
    let by_store = store_decides(home).await;
    Ok(text(if by_store { "ready\n" } else { "ready, deciding in the store's place\n" }))
}

async fn store_decides(home: &Home) -> bool {
    let Home::Redis(redis) = home else { return true };
    let Ok(Ok(policy)) = READY_POLICY.parse::<Policy>().map(|policy| policy.with_name(READY_NAME)) else {
        return false;
    };
    let decided = home.store().check(&policy, READY_KEY, Request::ONE).await;
    decided.is_ok_and(|decision| decision.source == Source::Home) && redis.stats().open_breakers == 0
}

/// In the format that everything reads, unless the newer one is asked for.
pub(super) fn metrics(call: &Call<'_>) -> Result<Answered, Problem> {
    let open = wants_open_metrics(call.headers());
    let text = metrics::exposition(&call.shared.desk);
    let text = text.and_then(|text| if open { Ok(text) } else { metrics::plain(&text) });
    let text = text.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"))?;
    let kind = if open {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    Ok(with_type(text.into_bytes(), kind))
}

/// Whether the type of OpenMetrics is named, and plain text is not preferred to it.
fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let (mut open, mut plain) = (0.0_f32, 0.0_f32);
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        let weight = weight.map_or(1.0, |(_, weight)| weight.parse().unwrap_or(0.0));
        if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            open = open.max(weight);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            plain = plain.max(weight);
        }
    }
    open > 0.0 && open >= plain
}
