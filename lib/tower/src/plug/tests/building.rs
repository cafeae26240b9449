//! Errors in a limiter are reported before any request arrives.

use super::super::*;
use super::x_key;

#[test]
fn what_is_wrong_is_said_when_it_is_built() {
    let limiters = || Limiters::memory().add("login", PlugSettings::of("token_bucket").opts([5, 60, 1])).unwrap();
    let error = |built: Result<PlugLayer, PlugError>| built.map(drop).unwrap_err().to_string();
    let plug = |name: &str| limiters().plug(name).key(x_key());
    let rows = [
        (
            error(plug("leaky").build()),
            r#"expected the name of a limiter (fixed_window, login, token_bucket), found "leaky""#,
        ),
        (
            error(plug("fixed_window").opts([10]).build()),
            "limiter fixed_window: options: arguments: expected 2 (limit, window), found 1",
        ),
        (
            error(plug("fixed_window").build()),
            "limiter fixed_window: options: arguments: expected 2 (limit, window), found 0",
        ),
        (
            error(plug("token_bucket").opts(["15", "60", "16"]).build()),
            r#"limiter token_bucket: options: burst: expected an integer from 1 to 15, found "16""#,
        ),
        (
            error(plug("login").headers(["x y"]).build()),
            r#"limiter login: headers: expected the name of a header, found "x y""#,
        ),
        (
            error(plug("login").headers(["x\r\nset-cookie: a"]).build()),
            r#"limiter login: headers: expected the name of a header, found "x\r\nset-cookie: a""#,
        ),
        (
            error(plug("login").headers(["Content-Length"]).build()),
            "limiter login: headers: expected a header that does not frame the message, found content-length",
        ),
        (
            error(plug("login").headers(["X-A", "x-a"]).build()),
            "limiter login: headers: expected each name once, found x-a twice",
        ),
        (
            error(plug("login").headers((0..33).map(|place| format!("x-{place}"))).build()),
            "limiter login: headers: expected at most 32 names, found 33",
        ),
        (
            error(limiters().plug("login").build()),
            "limiter login: expected a key function: key(ClientIp::peer()), or keys(…)",
        ),
        (
            error(plug("login").lua("return {}").build()),
            "limiter login: script: expected a limiter like fixed_window or token_bucket: Lua runs in Redis, see \
             Limiters::over",
        ),
        (
            error(plug("login").route("/x", |settings| settings.limiter("fixed_window").opts([1])).build()),
            "limiter fixed_window: options: arguments: expected 2 (limit, window), found 1",
        ),
    ];
    for (error, expected) in rows {
        assert_eq!(error, expected);
    }
}

#[test]
fn what_is_wrong_with_a_name_is_said_when_it_is_added() {
    let error =
        |name: &str, named: PlugSettings| Limiters::memory().add(name, named).map(drop).unwrap_err().to_string();
    let bucket = || PlugSettings::of("token_bucket");
    assert_eq!(error("fixed_window", bucket()), "expected another name: there is a limiter fixed_window already");
    assert_eq!(
        error("x", PlugSettings::of("y")),
        r#"expected the name of a limiter (fixed_window, token_bucket), found "y""#
    );
    assert_eq!(
        error("x", bucket().opts([1])),
        "limiter x: options: arguments: expected 3 (limit, window, burst), found 1"
    );
    assert!(error("x", bucket().headers([""])).starts_with("limiter x: headers: expected the name of a header"));
    assert_eq!(
        error("x", PlugSettings::default()),
        "limiter x: script: expected Lua, or the name of a limiter that this one is like"
    );
    assert!(error("x", PlugSettings::script("return 1")).contains("Lua runs in Redis"));
    for name in ["", "a b", &"x".repeat(65)] {
        let expected = format!("expected a name of 1 to 64 letters, digits, - and _, found {name:?}");
        assert_eq!(error(name, bucket()), expected);
    }
    assert!(Limiters::memory().add(&"x".repeat(64), bucket()).is_ok());
}
