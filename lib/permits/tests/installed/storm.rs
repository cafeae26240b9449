//! Many requests of several processes on one real Redis. Requests are cancelled while they ask and while they run,
//! and panic; processes are killed. The test checks that the limit is never exceeded, by the reports of the processes and
//! by the state in Redis; that no key is ever without expiry; and that no place is lost once the leases have ended.
//!
//! 10,000 requests that are not refused, or as many as `TOLLGATE_PERMITS` says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{ON_PURPOSE, quiet, size, take, until};
use tollgate_kit::Server;
use tollgate_permits::{Acquisition, Concurrency, Permit};
use tollgate_random::Rng;
use tollgate_redis::Redis;

const MAX: usize = 12;
const KEYS: u64 = 3;
const LEASE: Duration = Duration::from_millis(600);
const CHILDREN: usize = 3;
const CALLERS: u64 = 16;
/// The variable with the address of the server, for a child process.
const URL: &str = "TOLLGATE_PERMITS_STORM_URL";
const SEED: &str = "TOLLGATE_PERMITS_STORM_SEED";

fn limit(url: &str) -> Concurrency {
    let store = Redis::builder(url).deadline(Duration::from_secs(5)).lazy().unwrap();
    Concurrency::redis(store, "storm", MAX as u32, LEASE).unwrap()
}

/// Returns the time in microseconds by a clock that all processes of this machine share.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// Writes one line to the parent, atomically, so that a killed process leaves no partial line.
fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(format!("@{line}\n").as_bytes()).and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

/// A permit that reports to the parent when it is taken, and again before it is freed, however that happens.
struct ReportedPermit {
    permit: Option<Permit>,
    /// The number of this permit within its process.
    id: u64,
    /// The time when the first lease ends.
    first: u64,
}

impl ReportedPermit {
    fn new(key: u64, permit: Permit) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        let first = now() + permit.left().unwrap().as_micros() as u64;
        // A permit that was lost before it could be reported was held for no time.
        let from = if permit.is_lost() { first } else { now() };
        report(&format!("held {id} {key} {from} {first}"));
        Self { permit: Some(permit), id, first }
    }

    fn end(&mut self) -> Option<Permit> {
        let permit = self.permit.take()?;
        // A lost permit was held at least until the end of its first lease.
        let to = if permit.is_lost() { self.first } else { now() };
        report(&format!("free {} {to}", self.id));
        Some(permit)
    }
}

impl Drop for ReportedPermit {
    fn drop(&mut self) {
        drop(self.end());
    }
}

async fn run(limit: Concurrency, key: u64, hold: Duration, end: u64) {
    let mut holding = match limit.acquire(&[b'k', key as u8]).await.unwrap() {
        Acquisition::Held(permit) => ReportedPermit::new(key, permit),
        Acquisition::Full(_) => {
            report("full");
            return tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::sleep(hold).await;
    match end {
        0 => std::panic::panic_any(ON_PURPOSE),
        // Runs until it is cancelled.
        1 => std::future::pending().await,
        2 => holding.end().unwrap().release().await.unwrap(),
        _ => drop(holding),
    }
}

/// One request.
async fn request(limit: &Concurrency, rng: &mut Rng) {
    let (key, end) = (rng.below(KEYS), rng.below(5));
    // A few run so long that their leases must be renewed.
    let hold = if rng.one_in(500) { 2 * LEASE } else { Duration::from_micros(rng.below(4_000)) };
    let task = tokio::spawn(run(limit.clone(), key, hold, end));
    if end == 1 {
        // By then some requests are waiting for a permit and some are running.
        for _ in 0..rng.below(20) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_micros(rng.below(3) * 1_500)).await;
        task.abort();
        report("cancelled");
    }
    if let Err(error) = task.await
        && error.is_panic()
    {
        assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&ON_PURPOSE));
        report("panicked");
    }
}

/// Not a test by itself: the body of a child process, which runs until it is killed.
#[test]
fn storm_child() {
    let (Ok(url), Ok(seed)) = (std::env::var(URL), std::env::var(SEED)) else { return };
    let seed: u64 = seed.parse().unwrap();
    quiet();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let limit = limit(&url);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (limit, mut rng) = (limit.clone(), Rng::of_part(seed, caller));
                tokio::spawn(async move {
                    // More than any test run needs of one child.
                    for _ in 0..10_000_000_u64 {
                        request(&limit, &mut rng).await;
                        report("asked");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

/// The reports of the children.
#[derive(Default)]
struct ChildReports {
    /// The key, start and end of each place that was held.
    spans: Vec<(u64, u64, u64)>,
    counts: HashMap<&'static str, u64>,
    killed_holding: u64,
}

const KINDS: [&str; 5] = ["asked", "full", "cancelled", "panicked", "released"];

/// A child process, and the thread that reads its reports until it is dead.
struct StormChild {
    child: Child,
    listener: std::thread::JoinHandle<HashMap<u64, (u64, u64, u64)>>,
    released: Arc<AtomicU64>,
    /// The number of freed places after which it is killed.
    kill_at: u64,
}

impl StormChild {
    fn start(server: &Server, seen: &Arc<Mutex<ChildReports>>, seed: u64, kill_at: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storm::storm_child", "--nocapture"])
            .envs([(URL, server.url()), (SEED, seed.to_string())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, seen) = (BufReader::new(child.stdout.take().unwrap()).lines(), seen.clone());
        let released = Arc::new(AtomicU64::new(0));
        let counted = released.clone();
        let listener = std::thread::spawn(move || listen(lines.map_while(Result::ok), &seen, &counted));
        Self { child, listener, released, kill_at }
    }

    fn kill(mut self, seen: &Mutex<ChildReports>) {
        // A place that is held now was held at this moment, and the child cannot free much before it is dead.
        let at = now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let held = self.listener.join().unwrap();
        let mut seen = seen.lock().unwrap();
        for (key, from, first) in held.into_values() {
            let to = at.min(first);
            if from < to {
                seen.spans.push((key, from, to));
                seen.killed_holding += 1;
            }
        }
    }
}

fn listen(
    lines: impl Iterator<Item = String>,
    seen: &Mutex<ChildReports>,
    released: &AtomicU64,
) -> HashMap<u64, (u64, u64, u64)> {
    let mut held = HashMap::new();
    for line in lines {
        let Some(line) = line.strip_prefix('@') else { continue };
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().unwrap();
        let mut seen = seen.lock().unwrap();
        match words[0] {
            "held" => {
                held.insert(number(1), (number(2), number(3), number(4)));
            }
            "free" => {
                let (key, from, _) = held.remove(&number(1)).unwrap();
                seen.spans.push((key, from, number(2)));
                *seen.counts.entry("released").or_default() += 1;
                released.fetch_add(1, Ordering::Relaxed);
            }
            word => {
                let kind = KINDS.iter().find(|kind| **kind == word).unwrap();
                *seen.counts.entry(kind).or_default() += 1;
            }
        }
    }
    held
}

/// Returns the number of places of each key in Redis, and the time until the key expires.
fn look(connection: &mut redis::Connection) -> Vec<(i64, i64)> {
    let script = "local time = redis.call('TIME')
        local now = string.format('%.0f', time[1] * 1000000 + time[2])
        local found = {}
        for place, key in ipairs(KEYS) do
            found[2 * place - 1] = redis.call('ZCOUNT', key, '(' .. now, '+inf')
            found[2 * place] = redis.call('PTTL', key)
        end
        return found";
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(KEYS);
    for key in 0..KEYS {
        eval.arg(state_key(key));
    }
    let found: Vec<i64> = eval.query(connection).unwrap();
    found.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Returns the time by the server's clock.
fn time(connection: &mut redis::Connection) -> u64 {
    let (secs, micros): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
    secs * 1_000_000 + micros
}

fn state_key(key: u64) -> Vec<u8> {
    tollgate_redis::state_key(&[b'k', key as u8], "storm:permits")
}

/// Returns the maximum number of spans of a key that overlap.
fn most_at_once(spans: &[(u64, u64, u64)], key: u64) -> usize {
    let of_key = spans.iter().filter(|span| span.0 == key && span.1 < span.2);
    // At the same microsecond the end counts first: the order within it is not known.
    let mut edges: Vec<(u64, i64)> = of_key.flat_map(|(_, from, to)| [(*from, 1), (*to, -1)]).collect();
    edges.sort_unstable();
    let (mut running, mut most) = (0_i64, 0);
    for (_, step) in edges {
        running += step;
        most = most.max(running);
    }
    most as usize
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_panics_and_kills_lose_no_place_and_never_exceed_the_limit() {
    let began = std::time::Instant::now();
    let server = Server::start().unwrap();
    let (requests, seed) = (size(10_000), std::process::id().into());
    eprintln!("{requests} requests, seed {seed}");
    let (mut rng, seen) = (Rng::new(seed), Arc::new(Mutex::new(ChildReports::default())));
    let (mut looks, mut kills, mut most_held) = (0_u64, 0_u64, 0);
    let mut connection = server.connection().unwrap();
    let start = |rng: &mut Rng| {
        let kill_at = 50 + rng.below(900);
        StormChild::start(&server, &seen, rng.next_u64() >> 32, kill_at)
    };
    let mut children: Vec<StormChild> = (0..CHILDREN).map(|_| start(&mut rng)).collect();
    loop {
        let asked = {
            let counts = &seen.lock().unwrap().counts;
            let count = |kind: &str| counts.get(kind).copied().unwrap_or(0);
            count("asked").saturating_sub(count("full"))
        };
        if asked >= requests {
            break;
        }
        for (held, lives) in look(&mut connection) {
            most_held = most_held.max(held);
            assert!(held <= MAX as i64, "seed {seed}: {held} places are taken");
            // -2: there is no key.
            assert!(lives == -2 || (0..=1_600).contains(&lives), "seed {seed}: a key lives for {lives} ms");
            looks += 1;
        }
        let due = |child: &StormChild| child.released.load(Ordering::Relaxed) >= child.kill_at;
        if let Some(place) = children.iter().position(due) {
            children.swap_remove(place).kill(&seen);
            kills += 1;
            children.push(start(&mut rng));
        }
        assert!(
            began.elapsed() < Duration::from_secs(60) + Duration::from_millis(requests * 5),
            "seed {seed}: {asked}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for child in children {
        child.kill(&seen);
        kills += 1;
    }
    let left: i64 = look(&mut connection).iter().map(|(held, _)| held).sum();
    let took = began.elapsed();

    // All children are dead. After one more lease all places are free.
    let over = time(&mut connection) + LEASE.as_micros() as u64;
    until("the leases to be over", async || (time(&mut connection) > over).then_some(())).await;
    assert!(look(&mut connection).iter().all(|(held, _)| *held == 0), "seed {seed}");
    let limit = limit(&server.url());
    for key in 0..KEYS {
        let mut permits = Vec::new();
        for _ in 0..MAX {
            permits.push(take(&limit, &[b'k', key as u8]).await);
        }
        assert!(matches!(limit.acquire(&[b'k', key as u8]).await.unwrap(), Acquisition::Full(_)));
    }

    let seen = seen.lock().unwrap();
    for key in 0..KEYS {
        let most = most_at_once(&seen.spans, key);
        assert!(most <= MAX, "seed {seed}: {most} of key {key} ran at once");
    }
    // That the limit was met is shown by the callers that found it full, who are counted below. The spans do not show
    // it: a holder reports them later than Redis counts it, so at the limit they may overlap by one less.
    for kind in KINDS {
        assert!(
            seen.counts.get(kind).is_some_and(|count| *count > requests / 100),
            "seed {seed}: {kind}: {:?}",
            seen.counts
        );
    }
    assert!(kills as usize > CHILDREN && seen.killed_holding > 0, "seed {seed}: {kills} kills");
    eprintln!(
        "{:?}; {kills} kills, {} places held by the dead, {left} left at the end; {looks} looks, at most {most_held} held; {took:?}",
        seen.counts, seen.killed_holding
    );
}
