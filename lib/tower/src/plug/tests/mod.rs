//! Limiters by name, before a service in process.

mod answers;
mod building;
mod failing;

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Level;

use super::*;
use crate::key::{HeaderKey, key_fn};
use crate::testing::{TestClock, TestRequest, TestResponse, request};
use crate::verdict::LimiterVerdict;

const NAMES: [&str; 4] = ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining", "retry-after"];

/// A service that reports whether it received a verdict.
async fn serve(request: Request<String>) -> Result<Response<String>, Infallible> {
    let told = request.extensions().get::<LimiterVerdict>().map(|verdict| match verdict {
        LimiterVerdict::Custom(custom) => {
            let raw = custom.raw.as_ref().and_then(|raw| raw.downcast_ref::<Output>());
            format!("{:?}", raw.map(|raw| raw.list()[0].clone()))
        }
        LimiterVerdict::Decided(..) => "decided".to_owned(),
    });
    Ok(Response::new(told.unwrap_or_else(|| "served".to_owned())))
}

async fn ask(layer: &PlugLayer, request: TestRequest) -> TestResponse {
    request.ask(&layer.layer(tower::service_fn(serve))).await.unwrap()
}

fn headers(answered: &TestResponse) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.to_str().unwrap().to_owned());
    answered.headers.iter().map(text).collect()
}

fn x_key() -> HeaderKey {
    HeaderKey::new("x-key").unwrap()
}

fn of(key: &str) -> TestRequest {
    request("/").header("x-key", key)
}

fn text(text: &str) -> Output {
    Output::Text(text.into())
}

#[tokio::test]
async fn the_documents_examples_in_process() {
    let clock = TestClock::new();
    let limiters = clock.limiters();
    let window = limiters.plug("fixed_window").opts([10, 60]).key(x_key()).build().unwrap();
    let first = ask(&window, of("a")).await;
    assert_eq!((first.status, &first.body[..]), (StatusCode::OK, &b"served"[..]));
    let expected = [("x-ratelimit-limit", "10"), ("x-ratelimit-reset", "60"), ("x-ratelimit-remaining", "9")];
    assert_eq!(headers(&first), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let bucket = limiters.plug("token_bucket").opts(["15", "60", "3"]).key(x_key()).build().unwrap();
    let limit = "15 15;w=60;burst=3;policy=token_bucket";
    let rows =
        [(200, "60", "14", None), (200, "60", "13", None), (200, "60", "12", Some("5")), (429, "60", "12", Some("5"))];
    for (status, reset, remaining, retry_after) in rows {
        let answered = ask(&bucket, of("a")).await;
        assert_eq!(answered.status, status);
        let told = NAMES.map(|name| answered.header(name));
        assert_eq!(told, [Some(limit), Some(reset), Some(remaining), retry_after]);
        if status == 429 {
            assert_eq!(answered.header("content-type"), Some("text/plain"));
            assert_eq!(&answered.body[..], b"Too Many Requests");
        }
    }
    clock.advance(Duration::from_secs(5));
    assert_eq!(ask(&bucket, of("a")).await.header("retry-after"), Some("5"));
    assert_eq!(ask(&bucket, of("b")).await.status, 200);
}

#[tokio::test]
async fn it_is_off_unless_switched_on_and_the_switch_is_read_for_each_request() {
    let on = Arc::new(AtomicBool::new(false));
    let read = on.clone();
    let off = Limiters::memory();
    let switched = Limiters::memory().enabled(move || read.load(Ordering::SeqCst));
    let plug = |limiters: &Limiters| limiters.plug("fixed_window").opts([0, 60]).key(x_key());
    for layer in [plug(&off).build().unwrap(), plug(&switched).build().unwrap()] {
        let answered = ask(&layer, of("a")).await;
        assert_eq!((answered.status, headers(&answered)), (StatusCode::OK, vec![]));
    }
    assert_eq!(ask(&plug(&off).enabled(|| true).build().unwrap(), of("a")).await.status, 429);
    let layer = plug(&switched).build().unwrap();
    for (state, status) in [(true, 429), (false, 200), (true, 429)] {
        on.store(state, Ordering::SeqCst);
        assert_eq!(ask(&layer, of("a")).await.status, status);
    }
    assert_eq!(ask(&plug(&switched).enabled(|| false).build().unwrap(), of("a")).await.status, 200);
}

#[tokio::test]
async fn each_setting_may_be_another_for_a_route() {
    let limiters = TestClock::new().limiters();
    let respond = |reply: &PlugReply<'_>| match reply.default_answer()? {
        PlugAnswer::Stop(_) => {
            let mut response = Response::new(Bytes::from(format!("{} {:?}", reply.limiter, reply.result.unwrap())));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            Ok(PlugAnswer::Stop(response))
        }
        pass => Ok(pass),
    };
    let named = PlugSettings::of("fixed_window").opts([1, 60]).key(x_key());
    let layer = limiters
        .add("one", named)
        .unwrap()
        .plug("one")
        .route("/two/*", |settings| {
            settings.opts([2, 60]).key(key_fn(|parts: &Parts| Some(parts.uri.path().to_owned())))
        })
        .route("/mine", |settings| settings.headers(["x-a", "x-b", "x-c"]).respond(respond))
        .route("/few", |settings| settings.headers(["x-a"]).log(None))
        .route("/bucket", |settings| settings.limiter("token_bucket").opts([3, 60, 1]).key(x_key()))
        .skip(|parts| parts.uri.path() == "/healthz")
        .build()
        .unwrap();
    let get = |path: &str| request(path).header("x-key", "a");
    let statuses = async |path: &str| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(ask(&layer, get(path)).await.status.as_u16());
        }
        statuses
    };
    assert_eq!(statuses("/").await, [200, 429, 429]);
    assert_eq!(statuses("/two/a").await, [200, 200, 429]);
    assert_eq!(statuses("/two/b").await, [200, 200, 429]);
    assert_eq!(statuses("/bucket").await, [200, 429, 429]);
    assert_eq!(statuses("/healthz").await, [200, 200, 200]);
    // The same window as "/", with another response.
    let mine = ask(&layer, get("/mine")).await;
    let answer = Output::List(vec![text("block"), Output::List(vec![text("1"), text("60"), text("0")])]);
    assert_eq!((mine.status, mine.body), (StatusCode::IM_A_TEAPOT, format!("one {answer:?}").into()));
    // Three values, but only one configured name.
    let few = ask(&layer, get("/few")).await;
    assert_eq!((few.status, headers(&few)), (StatusCode::OK, vec![("tollgate-source".to_owned(), "open".to_owned())]));
}

#[tokio::test]
async fn a_response_function_gets_all_that_was_answered_and_says_what_is_done() {
    let respond = |reply: &PlugReply<'_>| {
        let output = match reply.result {
            Ok(output) => output,
            Err(failure) => {
                let mut response = Response::new(Bytes::from(failure.to_string()));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                return Ok(PlugAnswer::Stop(response));
            }
        };
        let [word, headers] = output.list() else { return Err(PlugFailure::Script("another form".to_owned())) };
        let keys: Vec<_> = reply.keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
        let told =
            format!("{} {} {:?} {:?} {}", reply.parts.uri.path(), reply.limiter, reply.opts, keys, reply.names[0]);
        if word.text().as_deref() == Some(b"allow") {
            return Ok(PlugAnswer::Pass(reply.headers(&Output::List(headers.list()[..1].to_vec()))?));
        }
        let mut response = Response::new(Bytes::from(told));
        *response.status_mut() = StatusCode::ACCEPTED;
        Ok(PlugAnswer::Stop(response))
    };
    let limiters = TestClock::new().limiters();
    let plug = limiters.plug("fixed_window").opts([1, 60]).key(x_key()).log(None).respond(respond);
    let layer = plug.build().unwrap();
    let passed = ask(&layer, of("a")).await;
    assert_eq!(headers(&passed), [("x-ratelimit-limit".to_owned(), "1".to_owned())]);
    let stopped = ask(&layer, of("a")).await;
    assert_eq!((stopped.status, headers(&stopped)), (StatusCode::ACCEPTED, vec![]));
    assert_eq!(&stopped.body[..], br#"/ fixed_window ["1", "60"] ["header:x-key:a"] x-ratelimit-limit"#);
    let failed = ask(&layer, request("/")).await;
    assert_eq!(
        (failed.status, &failed.body[..]),
        (StatusCode::SERVICE_UNAVAILABLE, &b"no key: x-key: expected this header"[..])
    );
}

#[tokio::test]
async fn a_service_can_be_told() {
    let limiters = TestClock::new().limiters();
    let layer = limiters.plug("fixed_window").opts([1, 60]).key(x_key()).tell_service().build().unwrap();
    let served = ask(&layer, of("a")).await;
    assert_eq!(served.body, format!("{:?}", Some(Output::Text(b"allow".to_vec()))));
}

/// The captured log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_key_that_fails_is_logged_at_its_level_or_not_at_all_and_the_request_passes_and_says_so() {
    let limiters = TestClock::new().limiters();
    let plug = || limiters.plug("fixed_window").opts([0, 60]);
    let long = "x".repeat(513);
    let many = |keys: Vec<String>| plug().keys(move |_| Some(keys.clone()));
    let rows = [
        (plug().key(x_key()), "no key: x-key: expected this header"),
        (plug().keys(|_| None::<Vec<&str>>), "no key: expected a request that tells whose it is"),
        (many(vec![]), "no key: expected 1 to 32 keys, found 0"),
        (many(vec!["k".to_owned(); 33]), "no key: expected 1 to 32 keys, found 33"),
        (many(vec!["a".to_owned(), "b".to_owned()]), "no key: expected 1 key, found 2"),
        (many(vec![String::new()]), "no key: expected a key of at least one byte"),
        (many(vec![long]), "no key: expected a key of at most 512 bytes, found a longer one"),
    ];
    for (plug, why) in rows {
        for (level, told) in [(None, " ERROR "), (Some(Some(Level::WARN)), "  WARN "), (Some(None), "")] {
            let plug = match level {
                None => plug.clone(),
                Some(level) => plug.clone().log(level),
            };
            let lines = Lines::default();
            let writer = lines.clone();
            let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
            let guard = tracing::subscriber::set_default(subscriber);
            let answered = ask(&plug.build().unwrap(), request("/")).await;
            drop(guard);
            let says_so = vec![("tollgate-source".to_owned(), "open".to_owned())];
            assert_eq!((answered.status, headers(&answered)), (StatusCode::OK, says_so), "{why}");
            let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            if told.is_empty() {
                assert_eq!(logged, "");
            } else {
                let expected = format!("limiter fixed_window failed, a request passes: {why}");
                assert!(logged.contains(told) && logged.contains(&expected), "{logged}");
            }
        }
    }
}

#[tokio::test]
async fn services_behind_it_are_polled_as_the_layer_does() {
    let limiters = TestClock::new().limiters();
    let layer = limiters.plug("fixed_window").opts([1, 60]).key(x_key()).build().unwrap();
    let mut service = layer.layer(tower::service_fn(serve));
    let request = of("a").body(String::new()).unwrap();
    assert_eq!(service.call(request).await.unwrap().status(), 200);
}
