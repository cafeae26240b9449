//! The server's own state: readiness and metrics.

use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};

use super::call::HttpCall;
use super::problem::HttpProblem;
use super::routes::{HttpResponse, text, with_type};
use crate::metrics;

/// Reports readiness until the server stops. It is also ready while its store or its disk is away: it still decides,
/// and an orchestrator that removes servers that are not ready would remove all servers of that store at once.
pub(super) async fn ready(call: &HttpCall<'_>) -> Result<HttpResponse, HttpProblem> {
    if *call.shared.stopping.borrow() {
        let detail = "the server is about to end";
        return Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1));
    }
    let engine = &call.shared.engine;
    if let Some(why) = engine.journal().and_then(|journal| journal.trouble) {
        let who = if engine.is_away() { "deciding as policies say" } else { "deciding on" };
        let line = format!("ready, {who}, but nothing is kept over a restart: {why}\n");
        return Ok(with_type(line.into_bytes(), "text/plain; charset=utf-8"));
    }
    let by_store = engine.home_decides().await;
    Ok(text(if by_store { "ready\n" } else { "ready, deciding in the store's place\n" }))
}

/// Returns the metrics as Prometheus text, or as OpenMetrics if the request prefers that.
pub(super) fn metrics(call: &HttpCall<'_>) -> Result<HttpResponse, HttpProblem> {
    let open = wants_open_metrics(call.headers());
    let text = metrics::exposition(&call.shared.engine, &call.shared.metrics);
    let text = text.and_then(|text| if open { Ok(text) } else { metrics::plain(&text) });
    let text =
        text.map_err(|_| HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"))?;
    let kind = if open {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    Ok(with_type(text.into_bytes(), kind))
}

/// Returns whether the type of OpenMetrics is accepted, and plain text is not preferred to it.
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
