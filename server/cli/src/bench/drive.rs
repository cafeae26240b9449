//! Connections that call as fast as they can, a thread each.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::args::BenchArgs;
use super::histogram::DurationHistogram;
use super::progress::BenchProgress;
use super::subject::{BenchSubject, CallForm};
use crate::error::CliError;
use crate::server::{Fleet, ServerConnection, ServerError, write_command};

/// The interval at which the progress bar is updated.
const TICK: Duration = Duration::from_millis(50);

/// The result of a run.
pub(crate) struct BenchOutcome {
    pub(crate) calls: u64,
    pub(crate) refused: u64,
    pub(crate) elapsed: Duration,
    pub(crate) times: DurationHistogram,
}

/// The state that the threads share.
struct BenchRun<'a> {
    subject: &'a BenchSubject,
    form: &'a CallForm,
    pipeline: usize,
    began: Instant,
    until: Option<Instant>,
    calls: u64,
    /// The number of calls that a thread has begun.
    begun: AtomicU64,
    stop: AtomicBool,
}

/// Drives all connections to the end.
pub(crate) fn drive(
    fleet: &mut Fleet,
    subject: &BenchSubject,
    form: &CallForm,
    keys: &[Vec<u8>],
    args: &BenchArgs,
) -> Result<BenchOutcome, CliError> {
    let mut shares: Vec<Vec<&[u8]>> = vec![Vec::new(); fleet.primaries.len()];
    for key in keys {
        if let Some(share) = shares.get_mut(fleet.place_of(key)) {
            share.push(key);
        }
    }
    let busy: Vec<usize> =
        (0..shares.len()).filter(|place| shares.get(*place).is_some_and(|share| !share.is_empty())).collect();
    let mut drivers = Vec::new();
    for (number, place) in busy.iter().cycle().take(args.connections.max(busy.len())).enumerate() {
        if let (Some(node), Some(share)) = (fleet.primaries.get(*place), shares.get(*place)) {
            drivers.push((node.open_connection(fleet)?, share.as_slice(), number as u64 + 1));
        }
    }
    let began = Instant::now();
    let until = args.calls.is_none().then(|| began + Duration::from_secs(args.seconds));
    let (calls, pipeline) = (args.calls.unwrap_or(u64::MAX), args.pipeline);
    let run = BenchRun {
        subject,
        form,
        pipeline,
        began,
        until,
        calls,
        begun: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    collect(&run, drivers)
}

fn collect(run: &BenchRun<'_>, drivers: Vec<(ServerConnection, &[&[u8]], u64)>) -> Result<BenchOutcome, CliError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = drivers
            .into_iter()
            .map(|(connection, keys, seed)| scope.spawn(move || run.connection(connection, keys, seed)))
            .collect();
        let progress = BenchProgress::new(run.until.map(|until| until - run.began), run.calls, &run.subject.title);
        while !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(TICK.min(run.began.elapsed()));
            progress.tick(run.began.elapsed(), run.begun.load(Ordering::Relaxed));
        }
        progress.finish();
        let mut all =
            BenchOutcome { calls: 0, refused: 0, elapsed: run.began.elapsed(), times: DurationHistogram::new() };
        for thread in threads {
            let one = thread.join().map_err(|_| CliError::Lost)??;
            all.calls += one.calls;
            all.refused += one.refused;
            all.times.merge(&one.times);
        }
        Ok(all)
    })
}

impl BenchRun<'_> {
    fn connection(
        &self,
        mut connection: ServerConnection,
        keys: &[&[u8]],
        seed: u64,
    ) -> Result<BenchOutcome, ServerError> {
        let mut outcome =
            BenchOutcome { calls: 0, refused: 0, elapsed: Duration::ZERO, times: DurationHistogram::new() };
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = Vec::new();
        while let Some(batch) = self.next_batch() {
            bytes.clear();
            let mut words: Vec<Cow<'_, [u8]>> = Vec::new();
            for _ in 0..batch {
                let key = keys.get((roll(&mut dice) % keys.len().max(1) as u64) as usize).copied().unwrap_or_default();
                self.subject.words(self.form, key, &mut words);
                write_command(&mut bytes, &words);
            }
            let sent = Instant::now();
            let refused = self
                .exchange(&mut connection, &bytes, batch)
                .inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
            outcome.times.add(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX), batch);
            outcome.calls += batch;
            outcome.refused += refused;
        }
        Ok(outcome)
    }

    /// Returns the number of calls to send now; `None` at the end.
    fn next_batch(&self) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let begun = self.begun.fetch_add(self.pipeline as u64, Ordering::Relaxed);
        let batch = self.calls.saturating_sub(begun).min(self.pipeline as u64);
        (batch > 0).then_some(batch)
    }

    /// Sends the calls and returns how many were refused.
    fn exchange(&self, connection: &mut ServerConnection, bytes: &[u8], batch: u64) -> Result<u64, ServerError> {
        connection.send(bytes)?;
        let mut refused = 0;
        for _ in 0..batch {
            let reply = connection.receive()?;
            let reply = connection.check_reply(reply, || format!("a call of {}", self.subject.title))?;
            refused += u64::from(self.subject.refuses(&reply));
        }
        Ok(refused)
    }
}

/// Returns a random number by xorshift, to choose the next key.
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice >> 11
}
