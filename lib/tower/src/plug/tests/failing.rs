//! What happens to requests whose limiter failed, and how it is counted.

use tollgate_kernel::OnError;

use super::super::*;
use super::*;

/// A service that replies with the source of the verdict.
async fn source(request: Request<String>) -> Result<Response<String>, Infallible> {
    let verdict = request.extensions().get::<LimiterVerdict>();
    Ok(Response::new(verdict.map_or("none", |verdict| verdict.source().name()).to_owned()))
}

async fn ask_source(layer: &PlugLayer, request: TestRequest) -> (u16, String) {
    let answered = request.ask(&layer.layer(tower::service_fn(source))).await.unwrap();
    (answered.status.as_u16(), String::from_utf8_lossy(&answered.body).into_owned())
}

#[tokio::test]
async fn a_failure_lets_requests_pass_or_not_and_is_counted() {
    let limiters = TestClock::new().limiters();
    let window = || limiters.plug("fixed_window").opts([1, 60]).key(x_key()).log(None).tell_service();
    let usual = window().build().unwrap();
    assert_eq!(ask_source(&usual, of("a")).await, (200, "home".to_owned()));
    assert_eq!(ask_source(&usual, of("a")).await.0, 429);
    // A request without a key.
    assert_eq!(ask_source(&usual, request("/")).await, (200, "open".to_owned()));
    let strict = window().on_error(OnError::Deny).build().unwrap();
    let refused = request("/").ask(&strict.layer(tower::service_fn(source))).await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.body[..]), (503, &b"Service Unavailable"[..]));
    assert_eq!((refused.header("retry-after"), refused.header("content-type")), (Some("1"), Some("text/plain")));
    assert_eq!(ask_source(&strict, of("b")).await, (200, "home".to_owned()));
    let counts = limiters.counts();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["fixed_window"]);
    let counts = counts["fixed_window"];
    assert_eq!((counts.decided, counts.local, counts.open, counts.closed), (3, 0, 1, 1));
}

#[tokio::test]
async fn a_response_function_sees_what_is_done_and_may_do_otherwise() {
    let limiters = TestClock::new().limiters();
    let window = |on_error| limiters.plug("fixed_window").opts([1, 60]).key(x_key()).log(None).on_error(on_error);
    let usual = window(OnError::Deny).respond(|reply| reply.default_answer()).build().unwrap();
    assert_eq!(ask(&usual, request("/")).await.status, 503);
    let open = window(OnError::Deny).respond(|reply| {
        assert_eq!(reply.on_error, OnError::Deny);
        Ok(PlugAnswer::Pass(Vec::new()))
    });
    assert_eq!(ask(&open.build().unwrap(), request("/")).await.status, 200);
    // Its own error is a failure too.
    let failing = |on_error| window(on_error).respond(|_| Err(PlugFailure::Script("mine".to_owned()))).build().unwrap();
    assert_eq!(ask(&failing(OnError::Allow), of("a")).await.status, 200);
    assert_eq!(ask(&failing(OnError::Deny), of("a")).await.status, 503);
    let counts = limiters.counts()["fixed_window"];
    assert_eq!((counts.decided, counts.open, counts.closed), (0, 2, 2));
}

#[test]
fn what_stands_in_must_be_able_to() {
    let limiters = Limiters::memory();
    let built = limiters.plug("fixed_window").opts([1, 60]).key(x_key()).on_error(OnError::Local).build();
    assert_eq!(
        built.map(drop).unwrap_err().to_string(),
        "limiter fixed_window: on_error: expected allow or deny: this process decides already"
    );
}
