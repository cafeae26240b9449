//! Calls without a pause, key after key.
//!
//! A [`Flood`] runs by the server's clock, on two connections that keep it busy: so the calls a key sees are
//! evenly apart. A paced client would send them in batches, and many events would leave a log at once and
//! then none. [`SteppedFlood`] calls run by the caller's clock.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, ConnectionLike, FromRedisValue, Value};
use tollgate_redis::lua::LuaNaming;

use crate::home::{Failure, Home};

const CONNECTIONS: usize = 2;
/// Calls a batch.
const PIPELINE: usize = 16;
/// Rounds over all keys that are put together in advance.
const ROUNDS: usize = 5 * PIPELINE;

/// Calls to be made over and over.
pub(crate) struct Flood {
    batches: Vec<Vec<u8>>,
    count: f64,
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FloodFigures {
    pub(crate) calls: f64,
    pub(crate) allowed: f64,
    /// The units found used, over all calls.
    pub(crate) used: f64,
    pub(crate) seconds: f64,
}

impl FloodFigures {
    fn add(&mut self, reply: Value, count: f64) -> Result<(), Failure> {
        let reply: Vec<i64> = FromRedisValue::from_redis_value(reply)?;
        let &[allowed, _, remaining, ..] = reply.as_slice() else { return Err("a reply too short".into()) };
        self.calls += 1.0;
        self.allowed += allowed as f64;
        self.used += count - remaining as f64;
        Ok(())
    }
}

impl Flood {
    /// Calls on these keys, of which `charging` of five charge and the others only look.
    pub(crate) fn new(keys: &[String], policy: &str, count: u64, charging: usize) -> Self {
        let mut batches = Vec::new();
        let mut batch = redis::pipe();
        let rounds = (0..ROUNDS).flat_map(|round| keys.iter().map(move |key| (round, key)));
        for (place, (round, key)) in rounds.enumerate() {
            // Spread over the rounds: 3 of five are the first, the third and the fifth.
            let call = if round * charging % 5 < charging { "tollgate" } else { "tollgate_peek" };
            batch.cmd("FCALL").arg(call).arg(1).arg(key).arg(policy);
            if (place + 1) % PIPELINE == 0 {
                batches.push(batch.get_packed_pipeline());
                batch.clear();
            }
        }
        Self { batches, count: count as f64 }
    }

    /// Makes the calls for so long.
    pub(crate) fn run(&self, home: &Home, time: Duration) -> Result<FloodFigures, Failure> {
        let connections: Result<Vec<Connection>, Failure> = (0..CONNECTIONS).map(|_| home.connect()).collect();
        let started = Instant::now();
        let seen = thread::scope(|scope| {
            let start = |(place, connection)| scope.spawn(move || self.send(place, connection, started, time));
            let all: Vec<_> = connections?.into_iter().enumerate().map(start).collect();
            let mut seen = FloodFigures::default();
            for one in all {
                let one = one.join().map_err(|_| "a connection's thread has panicked")??;
                seen.calls += one.calls;
                seen.allowed += one.allowed;
                seen.used += one.used;
            }
            Ok::<_, Failure>(seen)
        })?;
        Ok(FloodFigures { seconds: started.elapsed().as_secs_f64(), ..seen })
    }

    fn send(
        &self,
        place: usize,
        mut connection: Connection,
        started: Instant,
        time: Duration,
    ) -> Result<FloodFigures, Failure> {
        let mut seen = FloodFigures::default();
        // Each begins elsewhere, so that a key is not called twice in a row.
        let begin = place * self.batches.len() / CONNECTIONS;
        for batch in self.batches.iter().cycle().skip(begin) {
            if started.elapsed() >= time {
                break;
            }
            for reply in connection.req_packed_commands(batch, 0, PIPELINE)? {
                seen.add(reply, self.count)?;
            }
        }
        Ok(seen)
    }
}

/// Calls at exactly the rate of the limit: on a full log one event leaves and one comes.
pub(crate) struct SteppedFlood<'a> {
    connection: Connection,
    keys: &'a [String],
    count: u64,
    made: u64,
}

const HOUR: u64 = 3_600_000_000;
const START: u64 = 1_790_000_000_000_000;

impl<'a> SteppedFlood<'a> {
    pub(crate) fn new(home: &Home, keys: &'a [String], count: u64) -> Result<Self, Failure> {
        Ok(Self { connection: home.connect()?, keys, count, made: 0 })
    }

    /// Makes so many calls.
    pub(crate) fn run(&mut self, calls: u64) -> Result<FloodFigures, Failure> {
        let (call, policy) = (LuaNaming::Testing.function("tollgate"), format!("{}/h", self.count));
        let mut seen = FloodFigures::default();
        let end = self.made + calls;
        let mut order = self.keys.iter().cycle().skip((self.made % self.keys.len() as u64) as usize);
        while self.made < end {
            let mut batch = redis::pipe();
            let size = (PIPELINE as u64).min(end - self.made);
            for key in order.by_ref().take(size as usize) {
                let now = START + self.made / self.keys.len() as u64 * (HOUR / self.count);
                batch.cmd("FCALL").arg(&call).arg(1).arg(key).arg(&policy).arg(now);
                self.made += 1;
            }
            for reply in self.connection.req_packed_commands(&batch.get_packed_pipeline(), 0, size as usize)? {
                seen.add(reply, self.count as f64)?;
            }
        }
        Ok(seen)
    }
}
