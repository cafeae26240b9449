//! Policy text: what it means and how it is printed back.

use tollgate_kernel::{Limit, Micros, Policy};

#[track_caller]
fn prints(text: &str, canonical: &str) {
    let policy: Policy = text.parse().unwrap();
    assert_eq!(policy.to_string(), canonical);
    assert_eq!(canonical.parse::<Policy>().unwrap(), policy, "{canonical} means the same");
}

#[test]
fn canonical_text_is_short_and_means_the_same() {
    for (text, canonical) in [
        ("100/min", "100/min"),
        ("1/5s, 5/h", "1/5s, 5/h"),
        (" 1/5s ,5/h ", "1/5s, 5/h"),
        ("10/s gcra burst=20", "10/s gcra burst=20"),
        ("10/s   gcra   burst=10", "10/s gcra"),
        ("1000/h fixed align=clock", "1000/h fixed align=clock"),
        ("1000/h fixed align=first", "1000/h fixed"),
        ("5/h slots resolution=10min", "5/h slots resolution=10min"),
        ("15/60s bucket burst=3", "15/min bucket burst=3"),
        ("100/s spacing=10ms", "100/s spacing=10ms"),
        ("100/min sliding", "100/min"),
        ("100/min estimate", "100/min estimate"),
        ("100/10s decay factor=1.50", "100/10s decay factor=1.5"),
        ("10k/d", "10000/d"),
        ("5M/7d grain=60s", "5000000/w grain=1min"),
        ("1_000/hour name=api", "1000/h name=api"),
        ("1/1000ms", "1/s"),
        ("3/36h", "3/36h"),
        ("3/48h", "3/2d"),
        ("1/1500us", "1/1500us"),
        ("1/m, 2/minute gcra, 3/second, 4/day, 5/week, 6/sec gcra", "1/min, 2/min gcra, 3/s, 4/d, 5/w, 6/s gcra"),
        ("9/s name=b spacing=1us gcra burst=2", "9/s gcra burst=2 spacing=1us name=b"),
    ] {
        prints(text, canonical);
    }
}

#[test]
fn a_limit_is_called_by_its_name_or_its_text_without_spaces() {
    let policy: Policy = "10/s gcra burst=20, 5/h name=login".parse().unwrap();
    let names: Vec<String> = policy.limits().iter().map(|limit| limit.name()).collect();
    assert_eq!(names, ["10/sgcraburst=20", "login"]);
}

#[test]
fn a_state_is_filed_under_what_makes_two_limits_the_same() {
    let id = |text: &str| text.parse::<Policy>().unwrap().limits()[0].id().clone();
    for (one, other) in [
        ("100/min", "200/60s"),
        ("100/min", "100/min grain=1s"),
        ("10/s gcra", "20/s gcra burst=5"),
        ("15/min bucket burst=3", "20/min bucket burst=4"),
        ("5/h name=login", "9/d gcra name=login"),
        ("5/h", "5/h spacing=1s"),
    ] {
        assert_eq!(id(one), id(other), "{one} and {other}");
    }
    for (one, other) in [
        ("100/min", "100/h"),
        ("100/min", "100/min gcra"),
        ("100/min fixed", "100/min fixed align=clock"),
        ("5/h slots resolution=10min", "5/h slots resolution=5min"),
        ("5/h decay factor=2", "5/h decay factor=3"),
        ("5/h", "5/h name=login"),
    ] {
        assert_ne!(id(one), id(other), "{one} and {other}");
    }
}

#[test]
fn the_kernel_takes_wider_numbers_than_the_text() {
    let none = Limit::build("fixed", 0, Micros::new(1), &Default::default());
    assert!(none.is_ok());
    assert!(Limit::build("fixed", (1 << 53) + 1, Micros::new(1), &Default::default()).is_err());
    assert!(Limit::build("fixed", 1, Micros::ZERO, &Default::default()).is_err());
    assert!(Limit::build("no such", 1, Micros::new(1), &Default::default()).is_err());
}
