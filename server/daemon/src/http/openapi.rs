//! The OpenAPI document, generated from the routes and the types of the bodies, so that it cannot go stale.

use std::sync::OnceLock;

use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use tollgate_kernel::EXACT;
use utoipa::openapi::ComponentsBuilder;

use super::bodies::{
    BatchBody, BatchItemBody, BatchRequest, CheckRequest, ExplainRequest, ExplanationBody, KeyUsage, ModeName,
    RefundBody, RefundRequest, ResetBody, ResetRequest,
};
use super::decision::{DecisionBody, LimitBody, RuleName, SourceName};
use super::listing::{KeyList, NamedPolicy, OverrideList, PolicyList};
use super::problem::HttpProblem;
use super::reason::{CandidateBody, KeyBan, OverrideBody, ReasonBody};
use super::routes::{Endpoint, Methods, ROUTES, Route};

/// Returns the document.
pub(super) fn text() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    TEXT.get_or_init(|| document().to_string().into()).clone()
}

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let mut item = Map::new();
        for method in route.methods.names().split(", ") {
            item.insert(method.to_ascii_lowercase(), operation(route, method));
        }
        paths.insert(route.path.to_owned(), Value::Object(item));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Exact rate limits. A refusal is an answer, not an error: look at allowed.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components(),
    })
}

fn components() -> Value {
    let components = ComponentsBuilder::new()
        .schema_from::<CheckRequest>()
        .schema_from::<ResetRequest>()
        .schema_from::<RefundRequest>()
        .schema_from::<ExplainRequest>()
        .schema_from::<BatchRequest>()
        .schema_from::<ModeName>()
        .schema_from::<DecisionBody>()
        .schema_from::<LimitBody>()
        .schema_from::<SourceName>()
        .schema_from::<RuleName>()
        .schema_from::<ResetBody>()
        .schema_from::<RefundBody>()
        .schema_from::<ExplanationBody>()
        .schema_from::<ReasonBody>()
        .schema_from::<OverrideBody>()
        .schema_from::<KeyBan>()
        .schema_from::<CandidateBody>()
        .schema_from::<KeyUsage>()
        .schema_from::<BatchBody>()
        .schema_from::<BatchItemBody>()
        .schema_from::<PolicyList>()
        .schema_from::<NamedPolicy>()
        .schema_from::<KeyList>()
        .schema_from::<OverrideList>()
        .schema_from::<HttpProblem>()
        .build();
    let mut components = serde_json::to_value(components).unwrap_or_default();
    // The relation between fields, which the types do not express.
    let keys = ["key", "key_base64", "parts"];
    let one_of = json!(keys.map(|key| json!({"required": [key]})));
    for name in ["Check", "Reset", "Refund"] {
        if let Some(schema) = components.pointer_mut(&format!("/schemas/{name}")) {
            schema["oneOf"] = one_of.clone();
        }
    }
    if let Some(schema) = components.pointer_mut("/schemas/Explain") {
        let both = [("key", "key_base64"), ("key", "parts"), ("key_base64", "parts")];
        schema["not"] = json!({"anyOf": both.map(|(one, other)| json!({"required": [one, other]}))});
    }
    components["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer", "description": "A token that the server was given."}
    });
    components
}

fn operation(route: &Route, method: &str) -> Value {
    let id = if method == "POST" && route.methods == Methods::Post || method == "GET" {
        route.name.to_owned()
    } else {
        format!("{}-{}", route.name, method.to_ascii_lowercase())
    };
    let mut operation = json!({
        "operationId": id,
        "summary": route.summary,
        "responses": responses(route),
    });
    if let Some(scope) = route.scope {
        let free = crate::access::Scopes::FREE_OVER_HTTP.has(scope);
        let how = if free { "on loopback it may be left out" } else { "also on loopback" };
        operation["description"] = json!(format!("Needs a token with the scope {}; {how}.", scope.name()));
        // An empty requirement makes the token optional.
        operation["security"] = if free { json!([{"token": []}, {}]) } else { json!([{"token": []}]) };
    }
    if let Some(schema) = request_schema(route.handler) {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": reference(schema)}}});
    }
    match route.handler {
        Endpoint::Gate => operation["parameters"] = gate_parameters(),
        Endpoint::Policies => operation["parameters"] = policies_parameters(),
        _ => {}
    }
    operation
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn request_schema(handler: Endpoint) -> Option<&'static str> {
    Some(match handler {
        Endpoint::Check | Endpoint::Peek => "Check",
        Endpoint::Reset => "Reset",
        Endpoint::Refund => "Refund",
        Endpoint::Explain => "Explain",
        Endpoint::Batch => "Batch",
        _ => return None,
    })
}

fn responses(route: &Route) -> Value {
    let content = match route.handler {
        Endpoint::Check | Endpoint::Peek => json!({"application/json": {"schema": reference("Decided")}}),
        Endpoint::Reset => json!({"application/json": {"schema": reference("ResetDone")}}),
        Endpoint::Refund => json!({"application/json": {"schema": reference("Refunded")}}),
        Endpoint::Explain => json!({"application/json": {"schema": reference("Explained")}}),
        Endpoint::Batch => json!({"application/json": {"schema": reference("BatchDecided")}}),
        Endpoint::Policies => json!({"application/json": {"schema": reference("Listed")}}),
        Endpoint::OpenApi => json!({"application/json": {"schema": {"type": "object"}}}),
        Endpoint::Metrics => json!({
            "text/plain": {"schema": {"type": "string"}},
            "application/openmetrics-text": {"schema": {"type": "string"}},
        }),
        Endpoint::Health | Endpoint::Ready => json!({"text/plain": {"schema": {"type": "string"}}}),
        Endpoint::Gate => Value::Null,
    };
    let mut responses = json!({"200": {"description": "The answer."}});
    if content.is_null() {
        responses["200"]["description"] = json!("It passes.");
        responses["200"]["headers"] = gate_headers();
    } else {
        responses["200"]["content"] = content;
    }
    responses["431"] = json!({"description": "The head is too large, or has too many fields."});
    for (status, why) in failures(route) {
        let content = json!({"application/problem+json": {"schema": reference("Problem")}});
        responses[status] = json!({"description": why, "content": content});
    }
    responses
}

/// Returns the error statuses of a route.
fn failures(route: &Route) -> Vec<(&'static str, &'static str)> {
    let unavailable = match route.handler {
        Endpoint::Ready => "The server is about to end, or too many requests are being handled.",
        _ => "Too many requests are being handled, or the store behind the server does not answer.",
    };
    let mut failures = vec![
        ("400", "The request is wrong: the detail says what was expected."),
        ("421", "The Host header names another server."),
        ("503", unavailable),
    ];
    if route.scope.is_some() {
        failures.push(("401", "A token is needed, or another one."));
        failures
            .push(("403", "The token lacks the scope; at the gate, a limit refuses, or a page of another site asks."));
        failures.push(("429", "Too many wrong tokens, or a limit refuses at the gate."));
    }
    if route.handler == Endpoint::Policies {
        failures.push(("404", "No policy has that name."));
    }
    if request_schema(route.handler).is_some() {
        failures.push(("409", "The keys of the policy are not made of these parts."));
        failures.push(("408", "The body took too long."));
        failures.push(("413", "The body is too large."));
        failures.push(("415", "The body is not said to be application/json."));
    }
    failures
}

fn gate_headers() -> Value {
    let field = |what: &str| json!({"description": what, "schema": {"type": "string"}});
    json!({
        "RateLimit-Policy": field("The limits: name, q the count, w the period in seconds."),
        "RateLimit": field("How they stand: name, r units left, t seconds until more."),
        "Tollgate-Remaining": field("Units left in the limit that has the fewest."),
        "Tollgate-Retry-After-Us": field("The wait in microseconds; -1 is never."),
        "Tollgate-Source": field("Who decided: home, local, open or closed."),
    })
}

fn policies_parameters() -> Value {
    let parameter = |name: &str, what: &str| {
        let schema = json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"});
        json!({"name": name, "in": "query", "required": false, "description": what, "schema": schema})
    };
    json!([
        parameter("name", "Only the policy of this name, with all of its lists."),
        parameter("after", "Those behind the policy of this name."),
    ])
}

fn gate_parameters() -> Value {
    let parameter = |name: &str, what: &str, schema: Value| json!({"name": name, "in": "query", "required": name == "policy", "description": what, "schema": schema});
    let word = json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "format": "tollgate-name"});
    json!([
        parameter(
            "policy",
            "The limits, or a policy's name. The header Tollgate-Policy may tell it instead.",
            json!({"type": "string", "minLength": 1, "maxLength": 4096, "format": "tollgate-policy"})
        ),
        parameter("name", "The policy name that the state is filed under.", word),
        parameter("cost", "Units, 1 if absent.", json!({"type": "integer", "minimum": 0, "maximum": EXACT - 1})),
        parameter(
            "key_header",
            "The header whose value is the key; without it, the client's address is.",
            json!({"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"})
        ),
        parameter(
            "or",
            "What is the key where that header is missing.",
            json!({"type": "string", "enum": ["address"]})
        ),
        parameter("deny", "The status of a refusal.", json!({"type": "integer", "enum": [403, 429], "default": 403})),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_is_there() {
        fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(map) => {
                    for (name, value) in map {
                        match value.as_str() {
                            Some(place) if name == "$ref" => found.push(place),
                            _ => walk(value, found),
                        }
                    }
                }
                Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        walk(&document, &mut found);
        assert!(found.len() > 20);
        for place in found {
            assert!(document.pointer(place.trim_start_matches('#')).is_some(), "{place}");
        }
    }

    #[test]
    fn unknown_fields_and_neither_key_are_no_check() {
        let document = document();
        let check = &document["components"]["schemas"]["Check"];
        assert_eq!(check["additionalProperties"], json!(false), "{check:#}");
        assert_eq!(check["required"], json!(["policy"]));
        assert_eq!(check["properties"]["cost"]["maximum"], json!(EXACT - 1));
    }
}
