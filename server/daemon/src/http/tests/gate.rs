//! The gate: the key it chooses, and its answer to the proxy.

use tollgate_config::Config;

use super::client::{HttpTestOptions, tested, tested_with};

const BEHIND_NGINX: HttpTestOptions = HttpTestOptions {
    limits: None,
    home: None,
    policies: Vec::new(),
    config: Config { policies: Vec::new(), webhook: None },
    trusted: &["127.0.0.1", "10.0.0.0/8"],
    hosts: &[],
    peer: None,
};

#[tokio::test]
async fn passes_and_refusals_in_status_and_fields() {
    let tested = tested();
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let told = tested.ask(method, "/v1/gate?policy=7/min", &[], "").await;
        assert_eq!((told.status, told.body.len()), (200, 0), "{method}");
    }
    let told = tested.get("/v1/gate?policy=7/min").await;
    assert_eq!(told.status, 403);
    for (name, value) in [
        ("ratelimit-policy", "\"7/min\";q=7;w=60"),
        ("ratelimit", "\"7/min\";r=0;t=60"),
        ("retry-after", "60"),
        ("tollgate-remaining", "0"),
        ("tollgate-retry-after-us", "60000000"),
        ("tollgate-source", "home"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(told.header(name), Some(value), "{name}");
    }
    assert_eq!(told.problem(), "refused by 7/min");
    assert_eq!(
        told.text(),
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","#
            .to_owned()
            + r#""status":403,"detail":"refused by 7/min","violated-policies":["7/min"]}"#
    );
    assert!(!told.text().contains("127.0.0.1"), "no key is told");
    assert_eq!(tested.get("/v1/gate?policy=7/min&deny=429").await.status, 429);
    let allowed = tested.get("/v1/gate?policy=8/h").await;
    assert_eq!(allowed.header("retry-after"), None);
    assert_eq!(allowed.header("ratelimit"), Some("\"8/h\";r=7;t=3600"));
}

#[tokio::test]
async fn the_policy_is_the_proxys() {
    let login = "1/min".parse::<tollgate_kernel::Policy>().unwrap().with_name("login").unwrap();
    let tested = tested_with(HttpTestOptions { policies: vec![login], ..HttpTestOptions::default() });
    let by = async |target: &str, field: &str| tested.ask("GET", target, &[("Tollgate-Policy", field)], "").await;
    assert_eq!(by("/v1/gate", "login").await.status, 200);
    assert_eq!(by("/v1/gate", "login").await.status, 403);
    // The policy in the address takes precedence over a field, which a client may have sent.
    assert_eq!(by("/v1/gate?policy=login", "1000/s").await.status, 403);
    assert_eq!(by("/v1/gate?policy=1/min,%202/h", "login").await.status, 200);
    assert_eq!(by("/v1/gate?policy=1/min&name=login", "9/s").await.status, 403);
    assert_eq!(by("/v1/gate?policy=9/min&name=costs&cost=9", "").await.status, 200);
    assert_eq!(by("/v1/gate?policy=9/min&name=costs&cost=1", "").await.status, 403);
    assert_eq!(by("/v1/gate?policy=9/min&name=costs&cost=0", "").await.status, 200);
}

#[tokio::test]
async fn what_a_client_shows_to_the_service_is_no_login_where_the_gate_is_free() {
    let mut tested = tested_with(BEHIND_NGINX);
    for authorization in ["Bearer app.jwt", "Basic dXNlcjpwYXNz", "", "Bearer"].repeat(5) {
        let told = tested.ask("GET", "/v1/gate?policy=100/min", &[("Authorization", authorization)], "").await;
        assert_eq!(told.status, 200, "{authorization}");
    }
    let two = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")];
    assert_eq!(tested.ask("GET", "/v1/gate?policy=100/min", &two, "").await.status, 200);
    // None of them counted as a failed login.
    let bearer = tested.bearer("reset");
    assert_eq!(tested.ask("GET", "/metrics", &[("Authorization", &bearer)], "").await.status, 200);
    tested.peer = "192.0.2.7:50000".parse().unwrap();
    let told = tested.ask("GET", "/v1/gate?policy=100/min", &[("Authorization", "Bearer app.jwt")], "").await;
    assert_eq!(told.status, 401, "elsewhere the gate needs a token");
}

#[tokio::test]
async fn pages_of_other_sites_spend_nothing() {
    let browser = tested();
    let ask = async |tested: &super::client::HttpTestServer, headers: &[(&str, &str)]| {
        tested.ask("GET", "/v1/gate?policy=9/min", headers, "").await
    };
    for site in ["cross-site", "same-site"] {
        let told = ask(&browser, &[("Sec-Fetch-Site", site)]).await;
        assert_eq!((told.status, told.header("tollgate-remaining")), (403, None), "{site}");
        assert!(told.problem().contains("--trusted-proxy"), "{site}");
    }
    let told = ask(&browser, &[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")]).await;
    assert_eq!(told.status, 403);
    for (site, left) in [("same-origin", "8"), ("none", "7")] {
        let told = ask(&browser, &[("Sec-Fetch-Site", site)]).await;
        assert_eq!((told.status, told.header("tollgate-remaining")), (200, Some(left)), "{site}");
    }
    // A proxy passes on the fields of its clients' browsers.
    let proxy = tested_with(BEHIND_NGINX);
    assert_eq!(ask(&proxy, &[("Sec-Fetch-Site", "cross-site")]).await.status, 200);
    let elsewhere = tested_with(HttpTestOptions { peer: Some("192.0.2.7:50000"), ..HttpTestOptions::default() });
    let bearer = elsewhere.bearer("check");
    let headers = [("Sec-Fetch-Site", "cross-site"), ("Authorization", bearer.as_str())];
    assert_eq!(ask(&elsewhere, &headers).await.status, 200, "who has a token is no page");
}

#[tokio::test]
async fn the_key_is_a_header_or_the_address() {
    let tested = tested_with(BEHIND_NGINX);
    let left = async |target: &str, headers: &[(&str, &str)]| {
        let told = tested.ask("GET", target, headers, "").await;
        told.header("tollgate-remaining").map_or_else(|| told.problem(), str::to_owned)
    };
    let by_key = "/v1/gate?policy=9/min&key_header=X-Api-Key";
    assert_eq!(left(by_key, &[("X-Api-Key", "a")]).await, "8");
    assert_eq!(left(by_key, &[("x-api-key", "a")]).await, "7");
    assert_eq!(left(by_key, &[("X-Api-Key", "b")]).await, "8");
    assert!(left(by_key, &[]).await.contains("expected the header x-api-key; &or=address"));
    assert!(left(by_key, &[("X-Api-Key", "")]).await.contains("expected the header x-api-key"));
    assert!(left(by_key, &[("X-Api-Key", "a"), ("X-Api-Key", "b")]).await.contains("expected it once"));
    assert!(left(by_key, &[("X-Api-Key", &"a".repeat(500))]).await.contains("512 bytes"));
    let or_address = "/v1/gate?policy=9/min&key_header=X-Api-Key&or=address";
    assert_eq!(left(or_address, &[("X-Api-Key", "a")]).await, "6");
    assert_eq!(left(or_address, &[]).await, "8");
    // A client cannot take the key of an address by sending its text.
    for name in ["127.0.0.1", "address:127.0.0.1"] {
        assert_eq!(left(or_address, &[("X-Api-Key", name)]).await, "8", "{name}");
    }
    let by_address = "/v1/gate?policy=9/min";
    assert_eq!(left(by_address, &[]).await, "7");
    assert_eq!(left(by_address, &[("X-Forwarded-For", "203.0.113.7")]).await, "8");
    assert_eq!(left(by_address, &[("X-Forwarded-For", "6.6.6.6, ::ffff:203.0.113.7")]).await, "7");
    assert_eq!(left(by_address, &[("X-Forwarded-For", "6.6.6.6, 203.0.113.7:80, 10.9.8.7")]).await, "6");
    let lines = [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-For", "10.1.1.1")];
    assert_eq!(left(by_address, &lines).await, "5");
    // A network of 64 bits counts as one client.
    assert_eq!(left(by_address, &[("X-Forwarded-For", "2001:db8:1:2::1")]).await, "8");
    assert_eq!(left(by_address, &[("X-Forwarded-For", "[2001:db8:1:2:ffff::9]:443")]).await, "7");
    assert_eq!(left(by_address, &[("X-Forwarded-For", "2001:db8:1:3::1")]).await, "8");
}

#[tokio::test]
async fn a_stranger_does_not_choose_his_address() {
    // Rotating headers from an untrusted peer, and rotating addresses of one network, are one bucket.
    let tested = tested_with(HttpTestOptions {
        peer: Some("[2001:db8::1]:5"),
        trusted: &["127.0.0.1"],
        ..HttpTestOptions::default()
    });
    let token = tested.bearer("check");
    for number in 0..300u32 {
        let address = format!("10.0.{}.{}", number / 256, number % 256);
        let headers = [("X-Forwarded-For", address.as_str()), ("X-Real-IP", &address), ("Authorization", &token)];
        let told = tested.ask("GET", "/v1/gate?policy=1000/h", &headers, "").await;
        assert_eq!(told.header("tollgate-remaining"), Some((999 - number).to_string().as_str()));
    }
    let mut tested = tested_with(HttpTestOptions { peer: Some("[2001:db8::1]:5"), ..HttpTestOptions::default() });
    let token = tested.bearer("check");
    for number in 0..300u16 {
        tested.peer = format!("[2001:db8::{:x}:1]:5", number * 7).parse().unwrap();
        let told = tested.ask("GET", "/v1/gate?policy=1000/h", &[("Authorization", &token)], "").await;
        assert_eq!(told.header("tollgate-remaining"), Some((999 - number).to_string().as_str()));
    }
}

#[tokio::test]
async fn wrong_questions_of_a_proxy() {
    let tested = tested();
    for (target, said) in [
        ("/v1/gate", "expected ?policy= or the header Tollgate-Policy"),
        ("/v1/gate?policy=x", "policy: expected a policy such as"),
        ("/v1/gate?policy=", "policy: column 1"),
        ("/v1/gate?policy=9/min&policy=8/min", "policy: expected it once"),
        ("/v1/gate?policy=9/min&cost=", "cost: expected an integer from 0 to"),
        ("/v1/gate?policy=9/min&cost=-1", "cost: expected an integer"),
        ("/v1/gate?policy=9/min&cost=%2B1", "cost: expected an integer"),
        ("/v1/gate?policy=9/min&cost=9007199254740992", "cost: expected an integer"),
        ("/v1/gate?policy=9/min&deny=500", "deny: expected 403 or 429, found \"500\""),
        ("/v1/gate?policy=9/min&key_header=a%20b", "key_header: expected the name of a header"),
        ("/v1/gate?policy=9/min&or=address", "or: expected it beside key_header"),
        ("/v1/gate?policy=9/min&key_header=X&or=peer", "or: expected address"),
        ("/v1/gate?policy=9/min&burst=2", "expected the parameters policy, name, cost, key_header, or, deny"),
    ] {
        let told = tested.get(target).await;
        assert_eq!(told.status, 400, "{target}");
        assert!(told.problem().contains(said), "{target}: {}", told.problem());
    }
}

/// Returns a server behind a proxy, with a policy whose keys are made of parts.
fn of_parts(key: &str) -> super::client::HttpTestServer {
    let yaml = format!("policies:\n  parts: {{limit: 90/min, key: {key}}}\n");
    let config = tollgate_config::read(&yaml, tollgate_config::ConfigFormat::Yaml).unwrap().config;
    tested_with(HttpTestOptions { config, ..BEHIND_NGINX })
}

#[tokio::test]
async fn an_address_that_is_told_is_grouped_as_the_gate_groups_it() {
    let tested = of_parts("[address]");
    for (texts, key) in [
        (
            &[
                "2001:db8::1",
                "2001:db8::2",
                "[2001:db8::3]:443",
                "2001:db8::4%eth0",
                "2001:DB8:0:0:1::",
                "2001:db8::/64",
            ][..],
            "2001:db8::9",
        ),
        (&["1.2.3.4", "::ffff:1.2.3.4", "1.2.3.4:80", "::ffff:102:304", "[::ffff:1.2.3.4]:80"], "1.2.3.4"),
    ] {
        for (before, text) in texts.iter().enumerate() {
            let body = format!(r#"{{"policy": "parts", "parts": {{"address": "{text}"}}}}"#);
            let told = tested.post("/v1/check", &body).await;
            assert_eq!(told.json()["remaining"], 89 - before, "{text}: {told:?}");
        }
        let told = tested.ask("GET", "/v1/gate?policy=parts", &[("X-Forwarded-For", key)], "").await;
        let left = (89 - texts.len()).to_string();
        assert_eq!(told.header("tollgate-remaining"), Some(left.as_str()), "the gate knows {key} as the same");
    }
    for text in ["not an address", "", "1.2.3", "1.2.3.4/24", "2001:db8::/48", "1.2.3.4:99999", "::1::", "localhost"] {
        let body = format!(r#"{{"policy": "parts", "parts": {{"address": "{text}"}}}}"#);
        let told = tested.post("/v1/check", &body).await;
        let expected = "parts.address: expected an address such as 203.0.113.7 or 2001:db8::1, found ";
        assert_eq!(told.status, 400, "{text}");
        assert!(told.problem().starts_with(expected), "{}", told.problem());
    }
}

#[tokio::test]
async fn a_path_is_one_key_however_it_is_written() {
    let tested = of_parts("[host, path]");
    let uris = ["/a/b", "//a/b?x=1", "/./a/b", "/a/../a/b", "/%61/b", "/x/%2e%2E/a//b", "http://Example.org/a/b"];
    for (before, uri) in uris.iter().enumerate() {
        let headers = [("X-Forwarded-Uri", *uri), ("X-Forwarded-Host", "Example.org")];
        let told = tested.ask("GET", "/v1/gate?policy=parts", &headers, "").await;
        let left = (89 - before).to_string();
        assert_eq!(told.header("tollgate-remaining"), Some(left.as_str()), "{uri}");
    }
    let body = r#"{"policy": "parts", "parts": {"host": "EXAMPLE.org", "path": "/a/./b"}}"#;
    assert_eq!(tested.post("/v1/check", body).await.json()["remaining"], 89 - uris.len());
    let other = [("X-Forwarded-Uri", "/a%2Fb"), ("X-Forwarded-Host", "example.org")];
    let told = tested.ask("GET", "/v1/gate?policy=parts", &other, "").await;
    assert_eq!(told.header("tollgate-remaining"), Some("89"), "another path");
}
