//! One process of the crowd, from inside: stores with a connection and a caller each.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_kernel::{Policy, Request, Source, Store, Timestamp};
use tollgate_redis::{Packaging, Redis};

use crate::Failure;

/// Figures in the line before the events.
pub(super) const FIGURES: usize = 5;
/// No call may fail because the machine is busy.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whether an error was shown; the others are only counted.
static TOLD: AtomicBool = AtomicBool::new(false);

/// What one caller saw.
#[derive(Default)]
struct CallerFigures {
    elsewhere: u64,
    errors: u64,
    events: Vec<u64>,
}

/// Does what `Round::words` says.
pub(crate) fn work(words: &[String]) -> Result<(), Failure> {
    let [url, packaging, policy, key, connections, operations] = words else {
        return Err(Failure("expected the six words of a round".to_owned()));
    };
    let packaging = if packaging == "script" { Packaging::Script } else { Packaging::Function };
    let (policy, connections): (Policy, usize) = (policy.parse()?, connections.parse()?);
    let left = Arc::new(AtomicU64::new(operations.parse()?));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stores = open(url, packaging, connections).await?;
        writeln!(std::io::stdout(), "ready")?;
        std::io::stdin().read_line(&mut String::new())?;
        let mut callers = JoinSet::new();
        for store in &stores {
            callers.spawn(call(store.clone(), policy.clone(), key.clone().into_bytes(), left.clone()));
        }
        answer(&stores, callers).await
    })
}

async fn open(url: &str, packaging: Packaging, connections: usize) -> Result<Vec<Redis>, Failure> {
    let mut stores = Vec::new();
    for _ in 0..connections {
        let builder = Redis::builder(url).packaging(packaging).deadline(DEADLINE);
        stores.push(builder.connect_timeout(DEADLINE).response_timeout(DEADLINE).connect().await?);
    }
    Ok(stores)
}

async fn call(store: Redis, policy: Policy, key: Vec<u8>, left: Arc<AtomicU64>) -> CallerFigures {
    let mut seen = CallerFigures::default();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        match store.check(&policy, &key, Request::ONE).await {
            Ok(decision) if decision.source == Source::Home => {
                seen.events.push(decision.at.get() << 1 | u64::from(decision.allowed));
            }
            Ok(_) => seen.elsewhere += 1,
            Err(error) => {
                if !TOLD.swap(true, Ordering::Relaxed) {
                    eprintln!("torture: a caller of the crowd got an error: {error}");
                }
                seen.errors += 1;
            }
        }
    }
    seen
}

async fn answer(stores: &[Redis], mut callers: JoinSet<CallerFigures>) -> Result<(), Failure> {
    let (mut all, mut panics) = (CallerFigures::default(), 0_u64);
    while let Some(seen) = callers.join_next().await {
        match seen {
            Ok(seen) => {
                all.elsewhere += seen.elsewhere;
                all.errors += seen.errors;
                all.events.extend(seen.events);
            }
            Err(_) => panics += 1,
        }
    }
    let stats: Vec<_> = stores.iter().map(Redis::stats).collect();
    let reloads: u64 = stats.iter().map(|stats| stats.reloads).sum();
    let connections: u64 = stats.iter().map(|stats| stats.connections).sum();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {} {panics} {reloads} {connections}", all.elsewhere, all.errors)?;
    for event in &all.events {
        out.write_all(&event.to_le_bytes())?;
    }
    Ok(out.flush()?)
}

/// An event as it is written above.
pub(super) fn unpack(bytes: [u8; 8]) -> (Timestamp, bool) {
    let word = u64::from_le_bytes(bytes);
    (Timestamp::saturating(word >> 1), word & 1 == 1)
}
