//! `/v1/gate`: the answer for a proxy that asks before it passes a request on (nginx auth_request, Caddy forward_auth
//! and similar), in a status and header fields. `docs/gate.md` has the recipes.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tollgate_http::{DecisionReport, HeaderFields, Prefix, quota_exceeded};
use tollgate_kernel::{Cost, EXACT};

use super::call::HttpCall;
use super::decide::unexpected_answer;
use super::parts;
use super::problem::{self, HttpProblem};
use super::query::parameters;
use super::routes::{HttpResponse, bytes};
use crate::access::Scope;
use tollgate_engine::{DecidingRule, DetailLevel, EngineAnswer, EngineCheck, EngineQuestion, QuestionPart};
use tollgate_keyspace::Fault;

/// The field that may hold the policy.
const POLICY: HeaderName = HeaderName::from_static("tollgate-policy");
/// The field in which a browser names the origin of the page that made the request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The question as configured in the proxy; clients cannot influence it.
struct GateQuery {
    part: QuestionPart,
    /// The status of a refusal.
    deny: StatusCode,
}

pub(super) async fn gate(call: &HttpCall<'_>) -> Result<HttpResponse, HttpProblem> {
    refuse_pages(call)?;
    let GateQuery { part, deny } = parse_query(call)?;
    let question = EngineQuestion::Check(EngineCheck { part, mode: None, peek: false, detail: DetailLevel::Full });
    let answer = call.ask(&question).await?;
    let (EngineAnswer::Decided(verdict), EngineQuestion::Check(ask)) = (answer, &question) else {
        return Err(unexpected_answer());
    };
    let (policy, decision) = (&verdict.applied(&ask.part.known).policy, &verdict.decision);
    let mut response = if decision.allowed {
        Response::new(bytes(Vec::new()))
    } else {
        let limits = policy.limits().iter().zip(&verdict.details).filter(|(_, detail)| !detail.fits);
        let violated: Vec<String> = limits.map(|(limit, _)| limit.name()).collect();
        let (violated, detail) = match verdict.rule {
            DecidingRule::Deny => (Vec::new(), "refused by the deny list".to_owned()),
            DecidingRule::Ban => (Vec::new(), "refused by a ban".to_owned()),
            _ => {
                let detail = format!("refused by {}", violated.join(", "));
                (violated, detail)
            }
        };
        problem::answer(deny, quota_exceeded(deny, &detail, &violated))
    };
    let told = DecisionReport { policy, decision, details: &verdict.details };
    HeaderFields::default().exact().write(&told, response.headers_mut());
    response.headers_mut().insert(hyper::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Refuses requests of another site's page: it can have a browser send requests without a token, and spend the units of
/// others. A trusted proxy is exempt, since it passes on the fields of its clients' browsers.
fn refuse_pages(call: &HttpCall<'_>) -> Result<(), HttpProblem> {
    let mut sites = call.headers().get_all(FETCH_SITE).iter();
    let foreign = sites.any(|site| site == "cross-site" || site == "same-site");
    if !foreign || !call.free.has(Scope::Check) || call.shared.http.trusted.trusts(call.peer.ip()) {
        return Ok(());
    }
    let text = "expected no request of another site's page (Sec-Fetch-Site); a proxy that passes this header on is \
                named with --trusted-proxy";
    Err(HttpProblem::new(StatusCode::FORBIDDEN, text))
}

fn parse_query(call: &HttpCall<'_>) -> Result<GateQuery, HttpProblem> {
    let names = ["policy", "name", "cost", "key_header", "or", "deny"];
    let [policy, name, cost, key_header, or, deny] = parameters(call.parts.uri.query(), names)?;
    // The policy in the address takes precedence over the field, which a client may send itself.
    let known = match (&policy, call.headers().get(POLICY)) {
        (Some(policy), _) => call.shared.engine.policy(policy.as_bytes(), name.as_deref().map(str::as_bytes))?,
        (None, Some(policy)) => call.shared.engine.policy(policy.as_bytes(), name.as_deref().map(str::as_bytes))?,
        (None, None) => {
            return Err(HttpProblem::bad_request(
                "expected ?policy= or the header Tollgate-Policy, such as 100/min or a name",
            ));
        }
    };
    let cost = match cost.as_deref() {
        None => Cost::ONE,
        Some(text) => {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let cost = text.parse().ok().filter(|_| digits).and_then(Cost::new);
            let expected = || Fault::expected("cost", &format!("an integer from 0 to {}", EXACT - 1), text.as_bytes());
            cost.ok_or_else(expected)?
        }
    };
    let deny = match deny.as_deref() {
        None | Some("403") => StatusCode::FORBIDDEN,
        Some("429") => StatusCode::TOO_MANY_REQUESTS,
        Some(other) => return Err(Fault::expected("deny", "403 or 429", other.as_bytes()).into()),
    };
    let or_address = match or.as_deref() {
        None => false,
        Some("address") => true,
        Some(other) => return Err(Fault::expected("or", "address", other.as_bytes()).into()),
    };
    let key = match parts::key_parts(&known) {
        [] => key(call, key_header.as_deref(), or_address)?,
        _ if key_header.is_some() || or_address => {
            let text = "key_header: expected none, since the policy says what its keys are made of";
            return Err(HttpProblem::bad_request(text));
        }
        key_parts => parts::forwarded_key(call, key_parts)?,
    };
    tollgate_kernel::StoreError::check_key(&key).map_err(Fault::from)?;
    Ok(GateQuery { part: QuestionPart { known, key, cost }, deny })
}

/// Returns `header:x-api-key:VALUE` or `address:203.0.113.7`: a client that chooses one cannot collide with the other.
fn key(call: &HttpCall<'_>, key_header: Option<&str>, or_address: bool) -> Result<Vec<u8>, HttpProblem> {
    if let Some(name) = key_header {
        let name = HeaderName::try_from(name)
            .map_err(|_| Fault::expected("key_header", "the name of a header", name.as_bytes()))?;
        let mut values = call.headers().get_all(&name).iter().filter(|value| !value.is_empty());
        match (values.next(), values.next()) {
            (Some(value), None) => return Ok([b"header:", name.as_str().as_bytes(), b":", value.as_bytes()].concat()),
            // With several, the application might read another one than this server.
            (Some(_), Some(_)) => return Err(HttpProblem::bad_request(format!("{name}: expected it once"))),
            (None, _) if or_address => {}
            (None, _) => {
                let text = format!("expected the header {name}; &or=address takes the client's address without it");
                return Err(HttpProblem::bad_request(text));
            }
        }
    } else if or_address {
        return Err(HttpProblem::bad_request("or: expected it beside key_header"));
    }
    let address = call.shared.http.trusted.client(call.peer.ip(), call.headers());
    Ok(format!("address:{}", Prefix::of(address)).into_bytes())
}
