//! The answer of each route.

use serde_json::json;
use tollgate_kernel::Micros;

use super::client::{HttpTestOptions, START, read, request, tested, tested_with};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_check_tells_the_whole_decision() {
    let tested = tested();
    let told = tested.post("/v1/check", r#"{"key": "user:42", "policy": "2/min, 3/h"}"#).await;
    assert_eq!((told.status, told.header("content-type")), (200, Some("application/json")));
    assert_eq!(
        told.json(),
        json!({
            "allowed": true, "granted": 1, "remaining": 1, "retry_after_us": 0, "reset_after_us": 3_600_000_000u64,
            "limited_by": null, "charged": 1, "next_after_us": 0, "at_us": START, "source": "home",
            "rule": "policy",
            "limits": [
                {"name": "2/min", "fits": true, "remaining": 1, "retry_after_us": 0,
                 "reset_after_us": 60_000_000, "count": 2},
                {"name": "3/h", "fits": true, "remaining": 2, "retry_after_us": 0,
                 "reset_after_us": 3_600_000_000u64, "count": 3},
            ],
        })
    );
    let asked = r#"{"key": "user:42", "policy": "2/min, 3/h", "cost": 2}"#;
    let told = tested.post("/v1/check", asked).await.json();
    assert_eq!(
        (&told["allowed"], &told["limited_by"], &told["charged"], &told["retry_after_us"]),
        (&json!(false), &json!("2/min"), &json!(0), &json!(60_000_000))
    );
    assert!(!told.to_string().contains("user:42"));
    // A peek charges nothing, and modes are words.
    let asked = r#"{"key": "user:42", "policy": "2/min, 3/h", "cost": 9, "mode": "nary"}"#;
    for _ in 0..2 {
        assert_eq!(tested.post("/v1/peek", asked).await.json()["granted"], 1);
    }
    assert_eq!(tested.post("/v1/check", asked).await.json()["granted"], 1);
    assert_eq!(tested.post("/v1/check", asked).await.json()["granted"], 0);
    tested.clock.advance(Micros::from_secs(60));
    assert_eq!(tested.post("/v1/check", asked).await.json()["granted"], 1);
}

#[tokio::test]
async fn keys_are_text_or_bytes() {
    let tested = tested();
    let remaining = async |key: &str| {
        let body = format!(r#"{{{key}, "policy": "9/min"}}"#);
        tested.post("/v1/check", &body).await.json()["remaining"].clone()
    };
    assert_eq!(remaining(r#""key": "a""#).await, 8);
    assert_eq!(remaining(r#""key_base64": "YQ==""#).await, 7);
    assert_eq!(remaining(r#""key": "\u0061""#).await, 6);
    assert_eq!(remaining(r#""key_base64": "/wA=""#).await, 8);
    assert_eq!(remaining(r#""key": "b", "cost": 2.0"#).await, 7);
}

#[tokio::test]
async fn names_file_states_and_policies_have_names() {
    let login = "5/min".parse::<tollgate_kernel::Policy>().unwrap().with_name("login").unwrap();
    let tested = tested_with(HttpTestOptions { policies: vec![login], ..HttpTestOptions::default() });
    let remaining = async |policy: &str| {
        let body = format!(r#"{{"key": "a", "policy": {policy}}}"#);
        tested.post("/v1/check", &body).await.json()["remaining"].clone()
    };
    assert_eq!(remaining(r#""login""#).await, 4);
    assert_eq!(remaining(r#""5/min", "name": "login""#).await, 3);
    assert_eq!(remaining(r#""5/min""#).await, 4);
    let told = tested.get("/v1/policies").await.json();
    let login = json!({"name": "login", "policy": "5/min", "mode": "binary", "on_error": "local", "shadow": false,
        "usage": false, "alerts": []});
    assert_eq!(told, json!({"generation": 1, "count": 1, "policies": [login]}));
}

#[tokio::test]
async fn resets_and_refunds() {
    let tested = tested();
    let all = "check,read,refund,reset,admin";
    let asked = r#"{"key": "a", "policy": "5/min", "cost": 4}"#;
    let at = tested.post("/v1/check", asked).await.json()["at_us"].clone();
    let body = format!(r#"{{"key": "a", "policy": "5/min", "units": 3, "at_us": {at}}}"#);
    let told = tested.post_as("refund", "/v1/refund", &body).await;
    assert_eq!((told.status, told.json()), (200, json!({"refunded": 3})));
    assert_eq!(tested.post("/v1/check", asked).await.json()["remaining"], 0);
    let told = tested.post_as(all, "/v1/reset", r#"{"key": "a", "policy": "5/min"}"#).await;
    assert_eq!((told.status, told.json()), (200, json!({"reset": true})));
    assert_eq!(tested.post("/v1/check", asked).await.json()["remaining"], 1);
}

#[tokio::test]
async fn explanations_with_and_without_a_key() {
    let tested = tested();
    let told = tested.post("/v1/explain", r#"{"policy": "100/60s"}"#).await.json();
    assert_eq!((&told["policy"], &told["now"]), (&json!("100/min"), &json!(null)));
    assert!(told["promises"][0].as_str().unwrap().starts_with("100/min"), "{told}");
    let body = r#"{"policy": "100/min", "key": "a", "cost": 101}"#;
    for _ in 0..2 {
        let told = tested.post("/v1/explain", body).await.json();
        assert_eq!((&told["now"]["allowed"], &told["now"]["retry_after_us"]), (&json!(false), &json!(-1)));
        assert_eq!(told["now"]["remaining"], 100, "nothing is charged");
    }
}

#[tokio::test]
async fn a_batch_decides_in_order_and_tells_errors_in_place() {
    let tested = tested();
    let body = json!({"items": [
        {"key": "a", "policy": "2/min"},
        {"key": "a", "policy": "2/min"},
        {"key": "a", "policy": "2/min"},
        {"key": "b", "policy": "2/min"},
        {"key": "", "policy": "2/min"},
        {"key": "b", "policy": "2/parsec"},
        {"key": "b", "policy": "2/min", "cost": 5, "mode": "nary"},
        {"key": "b", "policy": "2/min"},
        {"policy": "2/min"},
    ]});
    let told = tested.post("/v1/batch", &body.to_string()).await;
    assert_eq!(told.status, 200);
    let told = told.json();
    assert_eq!((&told["allowed"], &told["retry_after_us"]), (&json!(null), &json!(null)));
    let decisions = told["decisions"].as_array().unwrap();
    let allowed: Vec<Option<bool>> = decisions.iter().map(|decision| decision["allowed"].as_bool()).collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(allowed, [yes, yes, no, yes, None, None, yes, no, None]);
    assert_eq!(decisions[6]["granted"], 1);
    for (place, said) in [(4, "1 to 512 bytes"), (5, "policy: column 3"), (8, "found neither")] {
        let error = &decisions[place]["error"];
        assert_eq!(error["status"], 400);
        assert!(error["detail"].as_str().unwrap().contains(said), "{error}");
    }
}

#[tokio::test]
async fn all_or_none_charges_all_or_none() {
    let tested = tested();
    let body = |cost: u64| {
        let items = json!([{"key": "a", "policy": "10/min"}, {"key": "b", "policy": "3/min", "cost": cost}]);
        json!({"items": items, "all_or_none": true}).to_string()
    };
    let told = tested.post("/v1/batch", &body(2)).await.json();
    assert_eq!((&told["allowed"], &told["retry_after_us"]), (&json!(true), &json!(0)));
    let told = tested.post("/v1/batch", &body(2)).await.json();
    assert_eq!((&told["allowed"], &told["retry_after_us"]), (&json!(false), &json!(60_000_000)));
    assert_eq!(told["decisions"][0]["remaining"], 9, "{told}");
    let told = tested.post("/v1/batch", &body(1)).await.json();
    assert_eq!((&told["allowed"], &told["decisions"][0]["remaining"]), (&json!(true), &json!(8)));
    let wrong = r#"{"items": [{"key": "a", "policy": "1/s"}, {"key": "b", "policy": "1/s", "mode": "nary"}],
        "all_or_none": true}"#;
    assert!(tested.post("/v1/batch", wrong).await.problem().contains("items[1].mode: expected none"));
    let wrong = r#"{"items": [{"key": "a", "policy": "1/s"}, {"key": "b", "policy": "x/s"}], "all_or_none": true}"#;
    assert!(tested.post("/v1/batch", wrong).await.problem().contains("items[1]: policy: column 1"));
}

#[tokio::test]
async fn the_server_tells_its_health_and_its_document() {
    let tested = tested();
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let told = tested.get(path).await;
        assert_eq!((told.status, told.text().as_str(), told.header("cache-control")), (200, body, Some("no-store")));
        let told = tested.ask("HEAD", path, &[], "").await;
        assert_eq!((told.status, told.body.len()), (200, 0));
    }
    // An HTTP/1.0 client need not name the server to learn its health, and learns nothing else.
    for (head, status) in [
        ("GET /healthz HTTP/1.0", 200),
        ("HEAD /readyz HTTP/1.0", 200),
        ("GET http://evil.example/healthz HTTP/1.0", 421),
        ("GET /healthz HTTP/1.0\r\nHost: evil.example", 421),
        ("GET /healthz HTTP/1.1", 400),
        ("GET /metrics HTTP/1.0", 400),
        ("GET /v1/gate?policy=9/s HTTP/1.0", 400),
        ("GET /nowhere HTTP/1.0", 400),
    ] {
        assert_eq!(tested.raw(format!("{head}\r\n\r\n").as_bytes()).await.status, status, "{head}");
    }
    let document = tested.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    for route in crate::http::ROUTES {
        assert!(document["paths"][route.path].is_object(), "{}", route.path);
    }
    // No page of another site may read an answer.
    let told = tested.ask("GET", "/healthz", &[("Origin", "https://evil.example")], "").await;
    assert!(told.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{told:?}");
}

#[tokio::test]
async fn requests_of_one_connection_are_answered_in_order() {
    let tested = tested();
    let mut stream = tested.connect();
    let json = [("Content-Type", "application/json")];
    let one = request("POST", "/v1/check", &json, r#"{"key": "a", "policy": "9/min"}"#);
    stream.write_all(&one.repeat(3)).await.unwrap();
    for remaining in [8, 7, 6] {
        assert_eq!(read(&mut stream, false).await.unwrap().json()["remaining"], remaining);
    }
}
