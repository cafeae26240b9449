//! Requests that are not valid, and their errors.

use super::client::{HttpTestOptions, tested, tested_with};

#[tokio::test]
async fn wrong_bodies_say_what_was_expected_and_change_nothing() {
    let tested = tested();
    let rows = [
        ("", "EOF while parsing"),
        ("{", "line 1 column 1"),
        ("[]", "invalid type: sequence, expected an object"),
        (r#"["a", null, "1/s", null, null, null]"#, "expected an object"),
        ("5", "expected an object"),
        (r#"{"key": "a"}"#, "missing field `policy`"),
        (r#"{"key": "a", "policy": "1/s", "kost": 5}"#, "unknown field `kost`, expected one of `key`"),
        (r#"{"key": "a", "key": "b", "policy": "1/s"}"#, "duplicate field `key`"),
        (r#"{"key": "a", "policy": "1/s"} x"#, "expected one JSON object: trailing characters"),
        (r#"{"policy": "1/s"}"#, "expected key (text) or key_base64 (any bytes), found neither"),
        (r#"{"key": "a", "key_base64": "YQ==", "policy": "1/s"}"#, "found both"),
        (r#"{"key": "", "policy": "1/s"}"#, "1 to 512 bytes"),
        (r#"{"key_base64": "Y", "policy": "1/s"}"#, "key_base64: expected base64"),
        (r#"{"key": 5, "policy": "1/s"}"#, "key: invalid type: integer `5`, expected a string"),
        (r#"{"key": null, "policy": "1/s"}"#, "key: invalid type: null, expected a string"),
        (r#"{"key": "a", "policy": "1/s", "cost": null}"#, "cost: invalid type: null, expected an integer"),
        (r#"{"key": "\ud800", "policy": "1/s"}"#, "key: "),
        (r#"{"key": "a", "policy": "1/parsec"}"#, "policy: column 3: expected a unit"),
        (r#"{"key": "a", "policy": "login"}"#, "or a name (no policy here has a name)"),
        (r#"{"key": "a", "policy": "1/s", "name": "a b"}"#, "NAME: expected 1 to 64 letters"),
        (
            r#"{"key": "a", "policy": "1/s", "cost": -1}"#,
            "cost: invalid value: integer `-1`, expected an integer from 0",
        ),
        (r#"{"key": "a", "policy": "1/s", "cost": 1.5}"#, "expected an integer from 0 to 9007199254740991"),
        (r#"{"key": "a", "policy": "1/s", "cost": "1"}"#, "expected an integer from 0"),
        (r#"{"key": "a", "policy": "1/s", "cost": 9007199254740992}"#, "expected an integer from 0"),
        (r#"{"key": "a", "policy": "1/s", "cost": 1e30}"#, "expected an integer from 0"),
        (r#"{"key": "a", "policy": "1/s", "cost": -1.0}"#, "expected an integer from 0"),
        (r#"{"key": "a", "policy": "1/s", "mode": "some"}"#, "mode: unknown variant `some`, expected one of `binary`"),
    ];
    for path in ["/v1/check", "/v1/peek"] {
        for (body, said) in rows {
            let told = tested.post(path, body).await;
            assert_eq!(told.status, 400, "{body}: {told:?}");
            assert!(told.problem().contains(said), "{body}: {}", told.problem());
        }
    }
    // An incomplete body has no place to name, or the last one that was begun.
    for (path, body, said) in [
        ("/v1/check", "", "EOF while parsing a value at line 1 column 0"),
        ("/v1/check", "{", "EOF while parsing an object at line 1 column 1"),
        ("/v1/check", "{5", "key must be a string at line 1 column 2"),
        ("/v1/batch", r#"{"items": [{"#, "items[0]: EOF while parsing an object at line 1 column 12"),
    ] {
        assert_eq!(tested.post(path, body).await.problem(), said, "{body}");
    }
    let long = format!(r#"{{"key": "{}", "policy": "1/s"}}"#, "é".repeat(257));
    assert!(tested.post("/v1/check", &long).await.problem().contains("512 bytes"));
    let in_batch = r#"{"items": [{"key": "a", "policy": "1/s"}, {"key": "a", "policy": "1/s", "cost": "x"}]}"#;
    assert!(tested.post("/v1/batch", in_batch).await.problem().contains("items[1].cost: invalid type"));
    let listed = r#"{"items": [["a", null, "1/s", null, null, null]]}"#;
    assert!(
        tested
            .post("/v1/batch", listed)
            .await
            .problem()
            .contains("items[0]: invalid type: sequence, expected an object")
    );
    for (items, said) in [(0, "expected 1 to 100, found 0"), (101, "expected 1 to 100, found 101")] {
        let items = vec![r#"{"key": "a", "policy": "1/s"}"#; items].join(",");
        let told = tested.post("/v1/batch", &format!(r#"{{"items": [{items}]}}"#)).await;
        assert!(told.status == 400 && told.problem().contains(said), "{told:?}");
    }
    let refund = r#"{"key": "a", "policy": "1/s", "units": 1, "at_us": -5}"#;
    assert!(tested.post_as("refund", "/v1/refund", refund).await.problem().contains("at_us: invalid value"));
    let asked = tested.post("/v1/check", r#"{"key": "a", "policy": "1/s"}"#).await.json();
    assert_eq!(asked["remaining"], 0, "and nothing was charged before");
}

#[tokio::test]
async fn paths_methods_and_types() {
    let tested = tested();
    for path in ["/", "/v1", "/v1/check/", "/V1/check", "/v1/checks", "//v1/check", "/v1/%63heck", "/metrics.json"] {
        let told = tested.get(path).await;
        assert_eq!(told.status, 404, "{path}");
        assert!(told.problem().contains("/v1/check, /v1/peek"));
    }
    for (method, path, allow) in [
        ("GET", "/v1/check", "POST"),
        ("PUT", "/v1/check", "POST"),
        ("OPTIONS", "/v1/check", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
        ("DELETE", "/healthz", "GET, HEAD"),
        ("BREW", "/v1/gate", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE"),
    ] {
        let told = tested.ask(method, path, &[], "").await;
        assert_eq!((told.status, told.header("allow")), (405, Some(allow)), "{method} {path}");
        assert!(told.problem().contains(allow));
    }
    let body = r#"{"key": "a", "policy": "9/min"}"#;
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "application/json, text/plain"]
    {
        let told = tested.ask("POST", "/v1/check", &[("Content-Type", kind)], body).await;
        assert_eq!((told.status, told.problem().as_str()), (415, "Content-Type: expected application/json"), "{kind}");
    }
    assert_eq!(tested.ask("POST", "/v1/check", &[], body).await.status, 415);
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(tested.ask("POST", "/v1/check", &[("Content-Type", kind)], body).await.status, 200, "{kind}");
    }
}

#[tokio::test]
async fn only_the_names_of_this_server_are_answered() {
    let tested = tested_with(HttpTestOptions { hosts: &["tollgate.internal"], ..HttpTestOptions::default() });
    for (host, status) in [
        ("localhost:7380", 200),
        ("127.0.0.1", 200),
        ("[::1]:7380", 200),
        ("tollgate.internal", 200),
        ("evil.example", 421),
        ("evil.example:7380", 421),
        ("", 421),
    ] {
        for path in ["/healthz", "/metrics", "/v1/gate?policy=9/s"] {
            let told = tested.ask("GET", path, &[("Host", host)], "").await;
            assert_eq!(told.status, status, "{host} {path}");
        }
    }
    let told = tested.ask("GET", "/healthz", &[("Host", "evil.example")], "").await;
    assert!(told.problem().contains("start it with --host NAME"));
    let two = tested.ask("GET", "/healthz", &[("Host", "localhost"), ("Host", "localhost")], "").await;
    assert_eq!(two.status, 400);
    assert_eq!(tested.raw(b"GET /healthz HTTP/1.1\r\n\r\n").await.status, 400);
    assert_eq!(tested.raw(b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status, 421);
    assert_eq!(tested.raw(b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status, 200);
    // The default of nginx.
    assert_eq!(tested.raw(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:7380\r\n\r\n").await.status, 200);
}

#[tokio::test]
async fn where_nothing_is_free_any_name_is_answered() {
    // A server that other machines reach has host names it does not know of.
    let tested = tested_with(HttpTestOptions { peer: Some("192.0.2.7:50000"), ..HttpTestOptions::default() });
    let bearer = tested.bearer("check");
    for host in ["gate.example:7380", "tollgate", "10.1.2.3", "localhost"] {
        assert_eq!(tested.ask("GET", "/healthz", &[("Host", host)], "").await.status, 200, "{host}");
        let target = "/v1/gate?policy=9/s";
        assert_eq!(tested.ask("GET", target, &[("Host", host)], "").await.status, 401, "{host}");
        let headers = [("Host", host), ("Authorization", bearer.as_str())];
        assert_eq!(tested.ask("GET", target, &headers, "").await.status, 200, "{host}");
    }
    let two = tested.ask("GET", "/healthz", &[("Host", "a.example"), ("Host", "b.example")], "").await;
    assert_eq!(two.status, 400);
}
