//! Tests of when alerts are raised and fall, on a fixed clock, and of where they are reported.

use std::sync::mpsc::Receiver as Lines;
use std::time::Duration;

use serde_json::Value;
use tollgate_config::PolicyEntry;
use tollgate_kernel::{Clock, Decision, Micros, Policy, Request, Source, Wait};
use tollgate_memory::{MIN_CAP, ManualClock, Memory};
use tollgate_random::Rng;

use super::client::trusting;
use super::level::QUIET;
use super::queue::WebhookPost;
use super::receiver::{HANGS, WebhookReceiver};
use super::webhook::{PostTiming, Poster};
use super::*;
use crate::ops::Ops;
use crate::persist::EmbeddedHome;
use crate::{Engine, EnginePolicy, Home};
use tollgate_keyspace::Keyspace;
use tollgate_telemetry::log::LogFormat;

/// An engine whose alerts are observed.
struct AlertFixture {
    engine: Engine,
    clock: ManualClock,
    lines: Lines<String>,
}

fn tested() -> AlertFixture {
    let clock = ManualClock::at(Timestamp::new(1_790_000_000_000_000).unwrap());
    let (log, lines) = ServerLog::to_channel(LogFormat::Text);
    let log = Arc::new(log);
    let home = Home::embedded(Memory::with_clock(MIN_CAP, Box::new(clock.clone())), Box::new(clock.clone()));
    let ops = Ops::new(None, None, &log).unwrap();
    let engine = Engine::new(home, Vec::new(), Box::new(clock.clone()), log, Keyspace::new(1 << 20));
    AlertFixture { engine: engine.with_ops(ops), clock, lines }
}

impl AlertFixture {
    /// Sets the receiver of alerts.
    fn posts_to(&self, url: String) {
        let mut config = self.engine.generation().config.clone();
        config.webhook = Some(webhook(url));
        self.engine.adopt(config).unwrap();
    }

    /// Adds a policy to those in use, or replaces one.
    fn known(&self, name: &str, text: &str, alerts: &[u8]) -> Arc<EnginePolicy> {
        let policy = text.parse::<Policy>().unwrap().with_name(name).unwrap();
        let mut config = self.engine.generation().config.clone();
        config.policies.retain(|entry| entry.policy.name() != name);
        config.policies.push(Arc::new(PolicyEntry { alerts: alerts.to_vec(), ..PolicyEntry::new(policy) }));
        self.engine.adopt(config).unwrap();
        self.engine.policy(name.as_bytes(), None).unwrap()
    }

    fn check(&self, known: &EnginePolicy, key: &str) -> Decision {
        let mut decisions = Vec::new();
        self.engine.check_many_now(known, &[key.as_bytes()], &Request::ONE, &mut decisions).unwrap().unwrap();
        decisions[0]
    }

    fn checks(&self, known: &EnginePolicy, key: &str, times: u64) {
        for _ in 0..times {
            let _ = self.check(known, key);
        }
    }

    /// Lets seconds pass.
    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Micros::from_secs(1));
            self.engine.ops.alerts.second(self.clock.now());
        }
    }

    /// Returns which levels are raised, and how often each was.
    fn levels(&self) -> Vec<(u64, u64)> {
        self.engine.ops.alerts.levels().into_iter().map(|(_, _, raised, total)| (raised, total)).collect()
    }

    /// Returns the log lines of alerts, without time and key.
    fn said(&self) -> Vec<String> {
        let lines = self.lines.try_iter().filter(|line| line.contains(" near_limit "));
        let words = |line: String| {
            line.split(' ')
                .skip(1)
                .filter(|word| !word.starts_with("key_hash"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(" ")
        };
        lines.map(|line| words(line).trim_end().to_owned()).collect()
    }
}

#[test]
fn a_key_that_comes_near_raises_one_alert_and_quiet_lets_it_fall() {
    let tested = tested();
    let login = tested.known("login", "100/h", &[80, 95]);
    tested.checks(&login, "a", 79);
    assert_eq!(tested.levels(), [(0, 0), (0, 0)], "79 of 100");
    let _ = tested.check(&login, "a");
    assert_eq!(tested.levels(), [(1, 1), (0, 0)], "80 of 100");
    // Other keys that come as near, and the key itself, raise nothing more.
    for key in ["a", "b", "c"] {
        tested.checks(&login, key, 90);
    }
    assert_eq!(tested.levels(), [(1, 1), (1, 1)], "the first key went on, over 95");
    let raised = |percent, left| {
        format!("warn near_limit policy=login percent={percent} state=raised remaining={left} count=100")
    };
    assert_eq!(tested.said(), [raised(80, 20), raised(95, 5)]);
    tested.pass(1);
    // A key that stays at 70 keeps the level at 80 raised, but not the one at 95.
    let near = login.observers.as_ref().unwrap().near.as_ref().unwrap();
    let at_70 = Decision { remaining: 30, ..tested.check(&login, "d") };
    for _ in 0..59 {
        near.observe(b"d", &at_70, &[], || None);
        tested.pass(1);
    }
    assert_eq!(tested.levels(), [(1, 1), (1, 1)], "a minute has not passed");
    near.observe(b"d", &at_70, &[], || None);
    tested.pass(1);
    assert_eq!(tested.levels(), [(1, 1), (0, 1)]);
    tested.pass(59);
    assert_eq!(tested.levels(), [(1, 1), (0, 1)]);
    tested.pass(1);
    assert_eq!(tested.levels(), [(0, 1), (0, 1)]);
    let fell = |percent| format!("info near_limit policy=login percent={percent} state=fell");
    assert_eq!(tested.said(), [fell(95), fell(80)]);
    // Then it can be raised again.
    let _ = tested.check(&login, "a");
    assert_eq!(tested.levels(), [(1, 2), (1, 2)]);
}

#[test]
fn traffic_around_the_percentage_does_not_raise_it_again_and_again() {
    let tested = tested();
    // Ten units a second are restored: a key with ten requests a second stays between 75 and 85.
    let steady = tested.known("steady", "10/s gcra burst=100", &[80]);
    tested.checks(&steady, "a", 75);
    for second in 0..600 {
        tested.checks(&steady, "a", 10 + second % 2);
        tested.pass(1);
    }
    assert!(tested.levels()[0].1 == 1, "{:?}", tested.levels());
}

#[test]
fn below_ten_points_less_an_alert_is_not_held() {
    let tested = tested();
    let policy = tested.known("p", "100/d", &[80]);
    tested.checks(&policy, "a", 80);
    assert_eq!(tested.levels(), [(1, 1)]);
    // 69 of 100 by another key, every second, is not near.
    tested.checks(&policy, "b", 68);
    let peek = Request { peek: true, ..Request::ONE };
    for _ in 0..=QUIET.get() / 1_000_000 {
        let _ = tested.engine.check_many_now(&policy, &[b"b"], &peek, &mut Vec::new());
        tested.pass(1);
    }
    assert_eq!(tested.levels(), [(0, 1)]);
    // 70 of 100 keeps it raised, but does not raise it.
    tested.checks(&policy, "b", 2);
    assert_eq!(tested.levels(), [(0, 1)]);
}

#[test]
fn small_percentages_fall_too() {
    let holds = [(100, 90), (80, 70), (20, 10), (15, 7), (10, 5), (1, 0)];
    for (percent, hold) in holds {
        assert_eq!(AlertLevel::new(percent).holds(), hold, "{percent}");
    }
}

#[test]
fn of_several_limits_none_is_missed_and_none_is_raised_without_cause() {
    let texts = [
        "10/s, 1000/d",
        "5/min, 20/h",
        "3/s gcra burst=40, 60/min fixed, 300/d",
        "100/min",
        "7/min slots resolution=10s, 9/h",
        "20/min bucket burst=5, 50/h sliding",
    ];
    let mut rng = Rng::new(42);
    for (number, text) in texts.into_iter().enumerate() {
        let tested = tested();
        let known = tested.known(&format!("p{number}"), text, &[50, 80, 95]);
        let fresh = embedded(&tested).check_full(known.prepared.as_ref().unwrap(), b"nobody", &peek()).unwrap().1;
        let mut raised = [false; 3];
        for _ in 0..3_000 {
            if rng.one_in(3) {
                tested.clock.advance(Micros::from_millis(rng.below(30_000)));
            }
            if rng.one_in(400) {
                tested.pass(62);
                raised = [false; 3];
                assert!(tested.levels().iter().all(|(raised, _)| *raised == 0));
            }
            let key = format!("k{}", rng.below(3));
            let decision = tested.check(&known, &key);
            let parts =
                embedded(&tested).check_full(known.prepared.as_ref().unwrap(), key.as_bytes(), &peek()).unwrap().1;
            for (raised, percent) in raised.iter_mut().zip([50i64, 80, 95]) {
                let mut shares = parts.iter().zip(&fresh);
                *raised |=
                    shares.any(|(part, fresh)| (fresh.remaining - part.remaining) * 100 >= percent * fresh.remaining);
            }
            let found: Vec<bool> = tested.levels().iter().map(|(raised, _)| *raised == 1).collect();
            assert_eq!(found, raised, "{text} {key} {decision:?} {parts:?}");
        }
    }
}

fn embedded(tested: &AlertFixture) -> &EmbeddedHome {
    match &tested.engine.home {
        Home::Embedded(embedded) => embedded,
        Home::Redis(_) => panic!("the embedded store"),
    }
}

fn peek() -> Request {
    Request { peek: true, ..Request::ONE }
}

#[test]
fn who_is_refused_by_no_limit_or_decided_by_a_stand_in_is_near_none() {
    let tested = tested();
    let known = tested.known("p", "10/min", &[80]);
    let near = known.observers.as_ref().unwrap().near.as_ref().unwrap();
    let refused = Decision {
        allowed: false,
        granted: 0,
        remaining: 0,
        retry_after: Wait::Never,
        limited_by: None,
        ..tested.check(&known, "a")
    };
    near.observe(b"a", &refused, &[], || None);
    for source in [Source::Local, Source::Open, Source::Closed] {
        near.observe(b"a", &Decision { allowed: true, source, ..refused }, &[], || None);
    }
    assert_eq!(tested.levels(), [(0, 0)]);
    near.observe(b"a", &Decision { limited_by: Some(0), ..refused }, &[], || None);
    assert_eq!(tested.levels(), [(1, 1)]);
}

#[test]
fn alerts_outlive_generations_and_fall_with_their_policy() {
    let tested = tested();
    let alerts = &tested.engine.ops.alerts;
    let first = tested.known("p", "10/min", &[80, 95]);
    tested.checks(&first, "a", 10);
    assert_eq!(tested.levels(), [(1, 1), (1, 1)]);
    assert!(Arc::ptr_eq(&alerts.of("p", &[80, 95]).unwrap(), &alerts.of("p", &[80, 95]).unwrap()));
    tested.said();
    let second = tested.known("p", "20/min", &[50, 80]);
    assert_eq!(tested.said(), ["info near_limit policy=p percent=95 state=fell"]);
    let _ = tested.check(&second, "b");
    assert_eq!(tested.levels(), [(0, 0), (1, 1)], "80 stays raised, 50 begins anew");
    alerts.adopt(|_| &[50, 80]);
    assert_eq!(tested.levels(), [(0, 0), (1, 1)]);
    alerts.adopt(|_| &[]);
    assert_eq!(tested.said(), ["info near_limit policy=p percent=80 state=fell"]);
    assert!(tested.levels().is_empty() && alerts.of("p", &[]).is_none());
}

#[test]
fn metrics_tell_so_many_levels_apart() {
    let tested = tested();
    for number in 0..1_000 {
        let known = tested.known(&format!("p{number:04}"), "10/min", &[80, 95]);
        tested.checks(&known, "a", 10);
    }
    let levels = tested.engine.ops.alerts.levels();
    assert_eq!(levels.len(), MAX_LISTED + 1);
    assert_eq!(levels[0], ("p0000".to_owned(), "80".to_owned(), 1, 1));
    let others = 2_000 - MAX_LISTED as u64;
    assert_eq!(levels[MAX_LISTED], ("other".to_owned(), "any".to_owned(), others, others));
}

fn webhook(url: String) -> Webhook {
    Webhook { url }
}

#[test]
fn the_webhook_gets_what_was_raised_and_what_fell() {
    let receiver = WebhookReceiver::start(&[]);
    let tested = tested();
    tested.posts_to(receiver.url());
    let known = tested.known("login", "10/min", &[80]);
    tested.checks(&known, "user:42", 9);
    let (first, head, body) = receiver.next();
    assert_eq!(first, "POST /alerts?of=tollgate HTTP/1.1");
    for line in [format!("host: {}", receiver.addr), "content-type: application/json".to_owned()] {
        assert!(head.iter().any(|other| other.eq_ignore_ascii_case(&line)), "{head:?}");
    }
    let told: Value = serde_json::from_str(&body).unwrap();
    let hash = told["key_hash"].as_str().unwrap();
    assert!(hash.len() == 8 && !body.contains("user:42"), "{body}");
    assert_eq!(
        (&told["policy"], &told["percent"], &told["state"], &told["remaining"], &told["count"]),
        (&"login".into(), &80.into(), &"raised".into(), &2.into(), &10.into())
    );
    assert!(told["at"].as_str().unwrap().ends_with('Z') && told["at_us"].is_u64());
    tested.pass(62);
    let told = receiver.next_json();
    assert_eq!((&told["policy"], &told["state"], &told["key_hash"]), (&"login".into(), &"fell".into(), &Value::Null));
    assert!(tested.lines.try_iter().all(|line| !line.contains("alerts?of")), "the URL is not logged");
}

/// Returns a poster that retries at once.
fn poster(url: &str, roots: tokio_rustls::rustls::RootCertStore) -> (Poster, Lines<String>) {
    let (log, lines) = ServerLog::to_channel(LogFormat::Text);
    let pace = PostTiming { within: HANGS, pauses: vec![Duration::ZERO; 2] };
    let target = super::client::parse_url(url).unwrap();
    (Poster::start_with(target, Arc::new(log), pace, trusting(roots).unwrap()).unwrap(), lines)
}

fn post(number: usize) -> WebhookPost {
    WebhookPost { policy: number.to_string().into(), body: number.to_string() }
}

#[test]
fn what_is_not_taken_is_tried_three_times_and_then_told() {
    let receiver =
        WebhookReceiver::start(&["500 No", "503 No", "429 No", "500 No", "502 No", "200 OK", "302 There", "404 No"]);
    let (poster, lines) = poster(&receiver.url(), tokio_rustls::rustls::RootCertStore::empty());
    (0..4).for_each(|number| poster.post(post(number)));
    let bodies: Vec<String> = (0..8).map(|_| receiver.next().2).collect();
    // The first post fails three times, the second succeeds at its third try; a redirect or a refusal is final.
    assert_eq!(bodies, ["0", "0", "0", "1", "1", "1", "2", "3"]);
    let said: Vec<String> = (0..3).map(|_| lines.recv_timeout(HANGS).unwrap()).collect();
    for (line, policy, because) in [(0, 0, "429"), (1, 2, "302"), (2, 3, "404")] {
        let line: &String = &said[line];
        assert!(line.contains(&format!("webhook_failed policy={policy}")) && line.contains(because), "{line}");
        assert!(!line.contains("127.0.0.1"), "{line}");
    }
    assert_eq!(poster.counts(), [1, 3, 0]);
    assert!(receiver.is_quiet());
}

#[test]
fn a_receiver_that_does_not_answer_slows_nobody() {
    let mut receiver = WebhookReceiver::stuck();
    let tested = tested();
    tested.posts_to(receiver.url());
    // The first post is in progress and does not end; posts of many policies queue up after it.
    let first = tested.known("first", "10/min", &[80]);
    tested.checks(&first, "a", 10);
    assert_eq!(receiver.next_json()["policy"], "first");
    for number in 0..600 {
        let known = tested.known(&format!("p{number}"), "10/min", &[80]);
        tested.checks(&known, "a", 10);
    }
    assert_eq!(tested.engine.ops.alerts.posts(), [0, 0, 600 - super::queue::WAITING as u64], "the oldest are dropped");
    // Decisions were made all the while; when the receiver responds, the waiting posts arrive, the oldest first.
    drop(receiver.go.take());
    assert_eq!(receiver.next_json()["policy"], format!("p{}", 600 - super::queue::WAITING));
    // The end does not wait for it either.
    drop(tested);
}

#[test]
fn a_receiver_that_is_gone_is_told_and_costs_no_more() {
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", receiver.local_addr().unwrap());
    drop(receiver);
    let (poster, lines) = poster(&url, tokio_rustls::rustls::RootCertStore::empty());
    poster.post(post(1));
    assert!(lines.recv_timeout(HANGS).unwrap().contains("webhook_failed policy=1"));
    assert_eq!(poster.counts(), [0, 1, 0]);
}

#[test]
fn over_tls_only_who_is_known_gets_it() {
    use std::io::{Read, Write};
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], private).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let serve = std::thread::spawn(move || {
        let mut read = Vec::new();
        // A client that does not trust the certificate hangs up three times; then one that does connects.
        while read.is_empty() {
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), listener.accept().unwrap().0);
            let mut bytes = [0; 4_096];
            if let Ok(count) = stream.read(&mut bytes) {
                read.extend_from_slice(&bytes[..count]);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
                stream.flush().unwrap();
            }
        }
        read
    });
    let (stranger, lines) = poster(&url, RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    stranger.post(post(1));
    assert!(lines.recv_timeout(HANGS).unwrap().contains("webhook_failed"));
    let (friend, _lines) = poster(&url, roots);
    friend.post(post(2));
    assert!(String::from_utf8(serve.join().unwrap()).unwrap().starts_with("POST / HTTP/1.1\r\n"));
}

#[test]
fn urls_that_cannot_be_posted_to_are_told_without_them() {
    let alerts = Alerts::default();
    for url in ["", "secret", "ftp://secret/x", "http://", "http://user:secret@host/", "http://secret host/"] {
        let error = alerts.set_webhook(Some(&webhook(url.to_owned()))).unwrap_err();
        assert!(
            error.starts_with("webhook: expected ") && !error.contains("secret/") && !error.contains("secret@"),
            "{error}"
        );
    }
    assert!(alerts.set_webhook(None).is_ok());
}
