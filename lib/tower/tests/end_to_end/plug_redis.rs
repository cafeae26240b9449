//! Limiters by name in a real redis-server, before a real axum server, called by curl.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use tollgate::redis::Redis;
use tollgate_daemon::ServerSettings;
use tollgate_kernel::{Cost, OnError, StoreError};
use tollgate_kit::Server;
use tollgate_tower::plug::{Limiters, Output, PlugAnswer, PlugLayer, PlugSettings};
use tollgate_tower::testing::request;
use tollgate_tower::{CustomDecision, CustomLimiter, DecisionFuture, GateLayer, HeaderKey, Limiter, key_fn};

/// Generous: the answers are what matters here.
const DEADLINE: Duration = Duration::from_secs(10);

async fn store(server: &Server) -> Redis {
    Redis::builder(&server.url()).deadline(DEADLINE).response_timeout(DEADLINE).connect().await.unwrap()
}

fn limiters(store: &Redis) -> Limiters {
    Limiters::over(store.clone()).enabled(|| true)
}

fn key(name: &'static str) -> impl tollgate_tower::Key {
    key_fn(move |_: &Parts| Some(name))
}

fn app(layer: PlugLayer) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Returns what curl prints for a GET, without the field `date`.
async fn curl(address: SocketAddr) -> String {
    let url = format!("http://{address}/");
    let run = move || Command::new("curl").args(["--silent", "--include", "--max-time", "30", &url]).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
    lines.collect()
}

/// What a command that only has a key answers.
async fn redis(store: &Redis, command: &str, key: &str) -> i64 {
    let script = tollgate::redis::CustomScript::new("return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))");
    let more: &[&str] = if command == "LPUSH" { &[command, "1"] } else { &[command] };
    match store.run_script(&script, &[key], more).await.unwrap() {
        tollgate::redis::Output::Integer(number) => number,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_the_documents_fixed_window_in_redis() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    let plug = limiters(&store).plug("fixed_window").opts([2, 3600]).key(key("my_protected_pipeline_name:12345"));
    let address = serve(app(plug.build().unwrap())).await;
    let ok = |left: u8| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nx-ratelimit-limit: 2\r\n\
             x-ratelimit-reset: 3600\r\nx-ratelimit-remaining: {left}\r\ncontent-length: 5\r\n\r\nhello"
        )
    };
    assert_eq!(curl(address).await, ok(1));
    let second = curl(address).await;
    let reset = second.lines().find_map(|line| line.strip_prefix("x-ratelimit-reset: ")).unwrap().to_owned();
    assert!((3000..=3600).contains(&reset.parse::<u32>().unwrap()), "{reset}");
    assert_eq!(second.replace(&reset, "3600"), ok(0));
    let third = curl(address).await;
    let reset = third.lines().find_map(|line| line.strip_prefix("x-ratelimit-reset: ")).unwrap().to_owned();
    assert_eq!(
        third.replace(&reset, "3600"),
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\nx-ratelimit-limit: 2\r\n\
         x-ratelimit-reset: 3600\r\nx-ratelimit-remaining: 0\r\ncontent-length: 17\r\n\r\nToo Many Requests"
    );
    // The state is at the caller's key, with the window's life.
    let ttl = redis(&store, "TTL", "my_protected_pipeline_name:12345").await;
    assert!((3000..=3600).contains(&ttl), "{ttl}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_the_documents_token_bucket_in_redis() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    // A token every 300 seconds, so that none comes while the test runs.
    let plug = limiters(&store).plug("token_bucket").opts(["15", "3600", "3"]).key(key("bucket:12345"));
    let app = app(plug.build().unwrap());
    let limit = "15 15;w=3600;burst=3;policy=token_bucket";
    for (status, left, empty) in [(200, "14", false), (200, "13", false), (200, "12", true), (429, "12", true)] {
        let answered = request("/").ask(&app).await.unwrap();
        assert_eq!(answered.status, status);
        assert_eq!(answered.header("x-ratelimit-limit"), Some(limit));
        assert_eq!(answered.header("x-ratelimit-remaining"), Some(left));
        let seconds = |name| answered.header(name).map(|text| text.parse::<u32>().unwrap());
        assert!((3000..=3600).contains(&seconds("x-ratelimit-reset").unwrap()));
        assert_eq!(seconds("retry-after").is_some_and(|wait| (1..=300).contains(&wait)), empty);
    }
    assert!((3000..=3600).contains(&redis(&store, "TTL", "bucket:12345").await));
}

const DOCUMENT: &str = "return {'allow', {'10', {'x-acme-header', '60'}, '9'}}";
const NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining"];

#[tokio::test(flavor = "multi_thread")]
async fn plug_the_documents_renamed_header_by_curl() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    let limiters = limiters(&store)
        .add("acme", PlugSettings::script(DOCUMENT).headers(NAMES).takes(0))
        .unwrap()
        .add("plain", PlugSettings::of("acme").lua("return {'allow', {'10', '60', '9'}}"))
        .unwrap();
    let address = serve(app(limiters.plug("acme").key(key("k")).build().unwrap())).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n";
    let tail = "content-length: 5\r\n\r\nhello";
    assert_eq!(
        curl(address).await,
        format!("{head}x-ratelimit-limit: 10\r\nx-acme-header: 60\r\nx-ratelimit-remaining: 9\r\n{tail}")
    );
    let address = serve(app(limiters.plug("plain").key(key("k")).build().unwrap())).await;
    assert_eq!(
        curl(address).await,
        format!("{head}x-ratelimit-limit: 10\r\nx-ratelimit-reset: 60\r\nx-ratelimit-remaining: 9\r\n{tail}")
    );
    let error = limiters.plug("acme").key(key("k")).opts([1]).build().map(drop).unwrap_err().to_string();
    assert_eq!(error, "limiter acme: options: expected 0, found 1");
}

/// Two keys, two options, a header by place, a pair in place, a pair more when nothing is left, and further outputs.
const QUOTA: &str = "
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
local all = redis.call('INCR', KEYS[2])
if all == 1 then redis.call('EXPIRE', KEYS[2], ARGV[2]) end
local left = tonumber(ARGV[1]) - used
local headers = {ARGV[1], {'x-acme-all', tostring(all)}, math.max(0, left)}
if left <= 0 then headers[4] = {'retry-after', ARGV[2]} end
return {left >= 0 and 'allow' or 'no', headers, all, {'further', false, 7}}";

fn quota() -> PlugSettings {
    let keys = |parts: &Parts| {
        let tenant = parts.headers.get("x-tenant")?.to_str().ok()?;
        Some(vec![format!("quota:{tenant}"), "quota:all".to_owned()])
    };
    PlugSettings::script(QUOTA)
        .headers(["x-acme-limit", "x-acme-reset", "x-acme-left"])
        .takes(2)
        .opts([1, 3600])
        .keys(keys)
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_lua_of_ones_own_with_several_keys_and_a_response_function() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    let limiters = limiters(&store).add("quota", quota()).unwrap();
    let usual = app(limiters.plug("quota").build().unwrap());
    let get = |tenant: &'static str| request("/").header("x-tenant", tenant);
    for (tenant, status, all) in [("a", 200, "1"), ("a", 429, "2"), ("b", 200, "3")] {
        let answered = get(tenant).ask(&usual).await.unwrap();
        assert_eq!(answered.status, status, "{tenant}");
        let told = ["x-acme-limit", "x-acme-all", "x-acme-left", "retry-after"].map(|name| answered.header(name));
        assert_eq!(told, [Some("1"), Some(all), Some("0"), Some("3600")]);
        assert_eq!(answered.header("x-acme-reset"), None);
    }
    // More for a route, and an answer of its own made of the further outputs.
    let own = app(limiters
        .plug("quota")
        .opts(["3", "3600"])
        .respond(|reply| match (reply.default_answer()?, reply.result) {
            (PlugAnswer::Stop(mut response), Ok(output)) => {
                let Some(Output::List(further)) = output.list().get(3) else { return Ok(PlugAnswer::Stop(response)) };
                *response.body_mut() = format!("{} {further:?}", reply.parts.uri).into();
                Ok(PlugAnswer::Stop(response))
            }
            (answer, _) => Ok(answer),
        })
        .build()
        .unwrap());
    assert_eq!(get("a").ask(&own).await.unwrap().status, 200);
    let stopped = get("a").ask(&own).await.unwrap();
    let further = [Output::Text(b"further".to_vec()), Output::Nothing, Output::Integer(7)];
    assert_eq!((stopped.status.as_u16(), stopped.body), (429, format!("/ {further:?}").into()));
    assert_eq!(get("c").ask(&usual).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_scripts_and_stores_that_fail_let_requests_pass_and_say_so() {
    let mut server = Server::start().unwrap();
    let store = store(&server).await;
    let rows = [
        "this is no Lua",
        "return redis.error_reply('ERR mine')",
        "error('mine')",
        "return 1",
        "return {}",
        "return {'block'}",
        "return {'block', '10'}",
        "return {'block', {'10', '60', '9', '4'}}",
        "return {'block', {'1\\r\\nset-cookie: a=b'}}",
        "return {'block', {{'x-a\\r\\nset-cookie', '1'}}}",
        "return {'block', {{'content-length', '0'}}}",
        "return {false, {}}",
    ];
    for lua in rows {
        let limiters = limiters(&store).add("mine", PlugSettings::script(lua).headers(NAMES)).unwrap();
        let app = app(limiters.plug("mine").key(key("k")).log(None).build().unwrap());
        let answered = request("/").ask(&app).await.unwrap();
        assert_eq!((answered.status.as_u16(), &answered.body[..]), (200, &b"hello"[..]), "{lua}");
        assert_eq!(answered.header("tollgate-source"), Some("open"), "{lua}");
        assert_eq!(answered.headers.len(), 3, "{lua}: {:?}", answered.headers);
    }
    // A key of another type is the built-in limiter's error, and no limit.
    redis(&store, "LPUSH", "list").await;
    let window = |name| limiters(&store).plug("fixed_window").opts([0, 60]).key(key(name)).log(None);
    assert_eq!(request("/").ask(&app(window("list").build().unwrap())).await.unwrap().status, 200);
    assert_eq!(request("/").ask(&app(window("w").build().unwrap())).await.unwrap().status, 429);
    server.kill_hard().unwrap();
    let answered = request("/").ask(&app(window("w").build().unwrap())).await.unwrap();
    assert_eq!((answered.status.as_u16(), answered.header("tollgate-source")), (200, Some("open")));
    assert_eq!(answered.headers.len(), 3, "{:?}", answered.headers);
    server.restart().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_built_in_limiters_on_a_tollgate_server() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = ServerSettings { resp: Some(any), http: None, threads: 1, ..ServerSettings::default() };
    let tollgate = tollgate_daemon::Server::start(settings).unwrap();
    let url = format!("tollgate://{}", tollgate.resp_addr().unwrap());
    let store = Redis::builder(&url).deadline(DEADLINE).connect().await.unwrap();
    let app = app(limiters(&store).plug("fixed_window").opts([1, 3600]).key(key("k")).build().unwrap());
    assert_eq!(request("/").ask(&app).await.unwrap().header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(request("/").ask(&app).await.unwrap().status, 429);
}

/// A Tollgate server that was told what these scripts do, and its store.
async fn tollgate(scripts: Vec<tollgate_daemon::ScriptAlias>) -> (tollgate_daemon::Server, Redis) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = ServerSettings { resp: Some(any), http: None, threads: 1, scripts, ..ServerSettings::default() };
    let server = tollgate_daemon::Server::start(settings).unwrap();
    let url = format!("tollgate://{}", server.resp_addr().unwrap());
    let store = Redis::builder(&url).deadline(DEADLINE).connect().await.unwrap();
    (server, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_lua_that_a_tollgate_server_does_not_know_is_not_built_over_it() {
    let private = "-- a window of our own\nreturn redis.call('PING')";
    let sha = tollgate::redis::CustomScript::new(private).sha().to_owned();
    let (_unaware, store) = tollgate(Vec::new()).await;
    let mine = |store: &Redis| {
        let mine = PlugSettings::script(private).headers(NAMES).opts([1, 3600]).key(key("k"));
        limiters(store).add("mine", mine).unwrap()
    };
    let error = mine(&store).plug("mine").build().map(drop).unwrap_err().to_string();
    assert!(error.starts_with("limiter mine: script: expected Lua that a Tollgate server knows"), "{error}");
    assert!(error.contains(&sha) && error.contains("load() before build()"), "{error}");
    let error = mine(&store).plug("mine").load().await.map(drop).unwrap_err().to_string();
    assert!(error.contains("this server runs no Lua") && error.contains(&sha), "{error}");
    // A route's script counts as well, and the built-in limiters need nothing.
    let route = limiters(&store)
        .plug("fixed_window")
        .opts([1, 60])
        .key(key("k"))
        .route("/mine", move |settings| settings.lua(private))
        .build();
    assert!(route.is_err());
    let (_aware, store) = tollgate(vec![format!("{sha}=fixed_window").parse().unwrap()]).await;
    let app = app(mine(&store).plug("mine").load().await.unwrap().build().unwrap());
    assert_eq!(request("/").ask(&app).await.unwrap().header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(request("/").ask(&app).await.unwrap().status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_lua_that_redis_does_not_compile_is_found_by_load() {
    let server = Server::start().unwrap();
    let store = store(&server).await;
    let load = async |lua: &str| {
        let limiters = limiters(&store).add("mine", PlugSettings::script(lua).key(key("k"))).unwrap();
        limiters.plug("mine").load().await.map(drop)
    };
    load("return {'allow', {}}").await.unwrap();
    let error = load("this is no Lua").await.unwrap_err().to_string();
    assert!(error.starts_with("limiter mine: script: ") && error.contains("compiling"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_what_stands_in_for_a_store_that_is_away_is_chosen_and_counted() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(DEADLINE).response_timeout(DEADLINE).share(0.5);
    let store = store.connect().await.unwrap();
    let limiters = limiters(&store);
    let window = |on_error| limiters.plug("fixed_window").opts([4, 3600]).key(key("k")).log(None).on_error(on_error);
    let [allow, deny, local] =
        [OnError::Allow, OnError::Deny, OnError::Local].map(|on_error| app(window(on_error).build().unwrap()));
    for app in [&allow, &deny, &local] {
        assert_eq!(request("/").ask(app).await.unwrap().status, 200);
    }
    let own = PlugSettings::script("return {'allow', {}}").key(key("k")).on_error(OnError::Local);
    let error = limiters.clone().add("own", own).unwrap().plug("own").build().map(drop).unwrap_err().to_string();
    assert_eq!(error, "limiter own: on_error: expected allow or deny: Lua runs in the store alone");
    server.kill_hard().unwrap();
    assert_eq!(request("/").ask(&allow).await.unwrap().status, 200);
    let denied = request("/").ask(&deny).await.unwrap();
    assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (503, Some("1")));
    // Half of the limit is this process's.
    for (status, remaining) in [(200, "1"), (200, "0"), (429, "0")] {
        let answered = request("/").ask(&local).await.unwrap();
        assert_eq!((answered.status.as_u16(), answered.header("x-ratelimit-remaining")), (status, Some(remaining)));
    }
    let counts = limiters.counts()["fixed_window"];
    assert_eq!((counts.decided, counts.local, counts.open, counts.closed), (3, 3, 1, 1));
    assert!(store.stats().failed_scripts >= 5, "{:?}", store.stats());
    server.restart().unwrap();
}

/// The same script without the registry: as plug/mod.rs shows.
struct Quota {
    store: Redis,
    script: tollgate::redis::CustomScript,
}

impl CustomLimiter for Quota {
    fn decide(&self, _: &Parts, key: &[u8], _: Cost) -> DecisionFuture {
        let (store, script) = (self.store.clone(), self.script.clone());
        let keys = [key.to_vec(), b"quota:all".to_vec()];
        Box::pin(async move {
            let reply = store.run_custom(&script, &keys, &["1", "3600"]).await?;
            let bad = |error: &dyn std::fmt::Display| StoreError::Refused(error.to_string());
            let mut headers = Vec::new();
            for (name, value) in reply.headers(&["x-acme-limit", "x-acme-reset", "x-acme-left"])? {
                let name = HeaderName::try_from(name).map_err(|error| bad(&error))?;
                headers.push((name, HeaderValue::try_from(value).map_err(|error| bad(&error))?));
            }
            Ok(CustomDecision { allowed: reply.allowed, headers, ..CustomDecision::default() })
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_lua_of_ones_own_without_the_registry_by_curl() {
    let server = Server::start().unwrap();
    let quota = Quota { store: store(&server).await, script: tollgate::redis::CustomScript::new(QUOTA) };
    let layer = GateLayer::new(Limiter::custom(quota)).key(HeaderKey::new("user-agent").unwrap());
    let service = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let address = serve(service).await;
    let headers = |all: u8| format!("x-acme-limit: 1\r\nx-acme-all: {all}\r\nx-acme-left: 0\r\nretry-after: 3600\r\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n";
    assert_eq!(curl(address).await, format!("{head}{}content-length: 5\r\n\r\nhello", headers(1)));
    let refused = curl(address).await;
    let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\n";
    assert!(refused.starts_with(&format!("{head}{}", headers(2))), "{refused}");
}
