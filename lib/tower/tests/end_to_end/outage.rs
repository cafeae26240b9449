//! Redis stopped and started during load: the layer answers every request by `on_error`, says so in the header and in
//! the log, and returns to Redis when Redis is back. The time that answers took is printed, not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, block_in_place};
use tollgate::redis::Redis;
use tollgate_kernel::{OnError, Policy};
use tollgate_kit::Server;
use tollgate_tower::{GateLayer, HeaderKey, Limiter};

/// Of a decision, and far below the bounds of the test.
const DEADLINE: Duration = Duration::from_millis(100);
/// Answers later than the deadline by more than this are counted.
const SLACK: Duration = Duration::from_millis(250);
/// The test fails if an answer, a change or a return takes longer than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that are under way together.
const WAVE: usize = 200;

/// All that this process logs: the layer runs on threads of its own.
static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    lines
});

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

fn logged(part: &str) -> bool {
    String::from_utf8_lossy(&LINES.0.lock().unwrap()).contains(part)
}

/// The answers of all waves so far.
#[derive(Clone, Debug, Default)]
struct LoadReport {
    waves: usize,
    /// The sources that decided the requests of the last wave.
    last: BTreeSet<String>,
    answers: BTreeMap<(u16, String), usize>,
    slowest: Duration,
    late: usize,
}

/// Wave after wave of requests, until it is ended.
struct Load {
    seen: watch::Receiver<LoadReport>,
    end: Arc<AtomicBool>,
    waves: JoinHandle<()>,
}

impl Load {
    /// Begins to send requests to an axum server behind this layer. Whatever Redis does, every request is answered,
    /// by Redis' decision or by `on_error`.
    async fn start(layer: GateLayer, stands_in: &'static str) -> Self {
        LazyLock::force(&LINES);
        let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let client = Client::builder(TokioExecutor::new()).build_http();
        let (tell, seen) = watch::channel(LoadReport::default());
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let waves = tokio::spawn(async move {
            while !ended.load(Ordering::SeqCst) {
                let wave = wave(&client, &uri, stands_in).await;
                tell.send_modify(|seen| {
                    seen.waves += 1;
                    seen.last.clear();
                    for (status, source, took) in wave {
                        seen.slowest = seen.slowest.max(took);
                        seen.late += usize::from(took > DEADLINE + SLACK);
                        seen.last.insert(source.clone());
                        *seen.answers.entry((status, source)).or_default() += 1;
                    }
                });
            }
        });
        Self { seen, end, waves }
    }

    /// Waits for a wave that `source` decided alone.
    async fn until(&mut self, source: &str) {
        let all = |seen: &LoadReport| seen.last.len() == 1 && seen.last.contains(source);
        let reached = tokio::time::timeout(PATIENCE, self.seen.wait_for(all)).await;
        reached.unwrap_or_else(|_| panic!("a wave decided by {source} does not come")).unwrap();
    }

    /// Waits for so many more waves.
    async fn more(&mut self, waves: usize) {
        let then = self.seen.borrow().waves + waves;
        tokio::time::timeout(PATIENCE, self.seen.wait_for(|seen| seen.waves >= then)).await.unwrap().unwrap();
    }

    async fn end(self) -> LoadReport {
        self.end.store(true, Ordering::SeqCst);
        self.waves.await.unwrap();
        self.seen.borrow().clone()
    }
}

/// Many requests at once.
async fn wave(
    client: &Client<HttpConnector, Empty<Bytes>>,
    uri: &str,
    stands_in: &'static str,
) -> Vec<(u16, String, Duration)> {
    let mut under_way = JoinSet::new();
    for number in 0..WAVE {
        let request = http::Request::get(uri).header("x-key", format!("k{}", number % 50));
        let asked = client.request(request.body(Empty::new()).unwrap());
        under_way.spawn(async move {
            let began = Instant::now();
            let response = tokio::time::timeout(PATIENCE, asked).await.expect("a request hangs").unwrap();
            let took = began.elapsed();
            let status = response.status().as_u16();
            let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let source = header("tollgate-source").unwrap_or_else(|| "home".to_owned());
            assert!(source == "home" || source == stands_in, "{source}");
            if source == "closed" {
                let wait: u32 = header("retry-after").unwrap().parse().unwrap();
                assert!(status == 503 && wait >= 1, "{status}, retry-after {wait}");
            } else {
                assert_eq!(status, 200, "{source}");
            }
            response.into_body().collect().await.unwrap();
            (status, source, took)
        });
    }
    under_way.join_all().await
}

fn policy() -> Policy {
    "100000/h, 50000/h name=half".parse().unwrap()
}

fn x_key() -> HeaderKey {
    HeaderKey::new("x-key").unwrap()
}

/// Redis silent and back, dead and back.
async fn outage(on_error: OnError, stands_in: &'static str) {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(DEADLINE).connect().await.unwrap();
    let layer = GateLayer::new(Limiter::over(store, policy())).key(x_key()).on_error(on_error);
    let mut load = Load::start(layer, stands_in).await;
    load.until("home").await;
    block_in_place(|| server.stop_answering()).unwrap();
    load.until(stands_in).await;
    load.more(5).await;
    block_in_place(|| server.resume()).unwrap();
    load.until("home").await;
    block_in_place(|| server.kill_hard()).unwrap();
    load.until(stands_in).await;
    load.more(5).await;
    block_in_place(|| server.restart()).unwrap();
    load.until("home").await;
    let seen = load.end().await;
    assert!(logged(&format!("a limit was not decided by its store: {stands_in}")));
    println!("{stands_in}: {seen:?}, late: more than {:?}", DEADLINE + SLACK);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_stopped_and_started_under_load_with_on_error_local() {
    outage(OnError::Local, "local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_stopped_and_started_under_load_with_on_error_allow() {
    outage(OnError::Allow, "open").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_stopped_and_started_under_load_with_on_error_deny() {
    outage(OnError::Deny, "closed").await;
}

/// A store that waits much longer than the layer does: the layer's own deadline counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_layers_own_deadline_holds_where_the_store_waits_longer() {
    let mut server = Server::start().unwrap();
    let store = Redis::builder(&server.url()).deadline(PATIENCE).response_timeout(PATIENCE).connect().await.unwrap();
    let limiter = Limiter::over(store, policy());
    let layer = |on_error| GateLayer::new(limiter.clone()).key(x_key()).on_error(on_error).deadline(DEADLINE);
    for (on_error, stands_in) in [(OnError::Local, "local"), (OnError::Allow, "open"), (OnError::Deny, "closed")] {
        let mut load = Load::start(layer(on_error), stands_in).await;
        load.until("home").await;
        block_in_place(|| server.stop_answering()).unwrap();
        load.until(stands_in).await;
        block_in_place(|| server.resume()).unwrap();
        load.until("home").await;
        println!("{stands_in}, by the layer: {:?}", load.end().await);
    }
    assert!(logged(
        "a limit could not be checked: the store did not answer, and may have charged: no answer within 100ms"
    ));
}
