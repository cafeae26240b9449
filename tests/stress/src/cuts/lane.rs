//! A server, a proxy before it, and the cuts that are made there one after the other.

use std::time::Duration;

use tollgate_kernel::{Policy, Request, Source, Store};
use tollgate_kit::{Fault, Proxy, Server};
use tollgate_redis::{Packaging, Redis};

use super::kind::{BATCH, Cut, Kind, POLICIES, Size, Sizes, cut};
use super::ledger::{Counts, Ledger};
use crate::{Failure, Report, machine};
use tollgate_random::Rng;

/// Long, so that it is the cut that ends a call.
const DEADLINE: Duration = Duration::from_secs(5);
/// Where a connection stalls, it is the deadline.
const SHORT: Duration = Duration::from_millis(20);
/// In which the server does whatever reached it.
const REST: Duration = Duration::from_millis(200);

pub(super) struct Lane {
    number: u64,
    server: Server,
    proxy: Proxy,
    /// Ways past the proxy: by functions, and by scripts.
    direct: Redis,
    scripts: Redis,
    policies: Vec<Policy>,
    rng: Rng,
}

impl Lane {
    pub(super) async fn start(number: u64, seed: u64) -> Result<Self, Failure> {
        let server = Server::start()?;
        let proxy = Proxy::start(server.addr())?;
        let direct = builder(&server.url(), Packaging::Function, DEADLINE).connect().await?;
        let scripts = builder(&server.url(), Packaging::Script, DEADLINE).connect().await?;
        let policies = POLICIES.iter().map(|text| Ok(text.parse()?)).collect::<Result<_, Failure>>()?;
        Ok(Self { number, server, proxy, direct, scripts, policies, rng: Rng::of_part(seed, number) })
    }

    /// Makes its cuts; answers what is wrong, and what came of them.
    pub(super) async fn run(mut self, cuts: u64) -> Result<(Report, Counts), Failure> {
        let (mut report, mut ledger) = (Report::default(), Ledger::default());
        let sizes = self.measure().await?;
        if self.number == 0 {
            report.say(sizes.told());
        }
        for number in 0..cuts {
            // Lanes go on where others end.
            let cut = cut(self.number * cuts + number, &sizes, &mut self.rng);
            self.hurt(&cut, number, &mut ledger).await?;
        }
        self.proxy.faults().clear();
        tokio::time::sleep(REST).await;
        let counts = ledger.judge(&mut report, &self.direct, &self.policies).await?;
        machine::judge_lives(&mut report, |see| self.server.scan_all(see))?;
        Ok((report, counts))
    }

    /// One call through the proxy with a connection of its own, hurt on the way.
    async fn hurt(&self, cut: &Cut, number: u64, ledger: &mut Ledger) -> Result<(), Failure> {
        let deadline = if cut.fault == Fault::Stall { SHORT } else { DEADLINE };
        let store = builder(&self.proxy.url(), cut.packaging, deadline).connect().await?;
        let key = match cut.kind {
            Kind::Shared => format!("shared-{}-{}", self.number, cut.policy).into_bytes(),
            _ => format!("fresh-{}-{number}", self.number).into_bytes(),
        };
        self.prepare(cut).await?;
        self.proxy.faults().once(cut.fault);
        let (requests, answered) = self.call(&store, cut.kind, cut.policy, &key).await?;
        ledger.note(&key, cut, requests, answered);
        Ok(())
    }

    /// Makes the server forget the library and all scripts, or know what the call needs: a call that was
    /// cut while it brought them left the server cold.
    async fn prepare(&self, cut: &Cut) -> Result<(), Failure> {
        if cut.kind == Kind::Cold {
            let mut connection = self.server.connection()?;
            redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection)?;
            redis::cmd("FUNCTION").arg("FLUSH").exec(&mut connection)?;
            return Ok(());
        }
        let way = if cut.packaging == Packaging::Script { &self.scripts } else { &self.direct };
        self.call(way, cut.kind, cut.policy, b"warm").await.map(|_| ())
    }

    /// Calls; answers how many requests there were, and how many the server answered.
    async fn call(&self, store: &Redis, kind: Kind, policy: usize, key: &[u8]) -> Result<(u64, u64), Failure> {
        let Some(policy) = self.policies.get(policy) else { return Ok((0, 0)) };
        let decisions = if kind == Kind::Batch {
            let keys: Vec<&[u8]> = (0..BATCH).map(|_| key).collect();
            store.check_many(policy, &keys, Request::ONE).await?
        } else {
            vec![store.check(policy, key, Request::ONE).await?]
        };
        let answered = decisions.iter().filter(|decision| decision.source == Source::Home).count();
        Ok((decisions.len() as u64, answered as u64))
    }

    /// How many bytes each kind of call takes, there and back.
    async fn measure(&self) -> Result<Sizes, Failure> {
        let mut sizes = Sizes::default();
        for packaging in [Packaging::Function, Packaging::Script] {
            for kind in [Kind::Cold, Kind::Fresh, Kind::Batch] {
                let store = builder(&self.proxy.url(), packaging, DEADLINE).connect().await?;
                self.prepare(&Cut { kind, packaging, policy: 0, fault: Fault::Pass }).await?;
                let before = self.proxy.counters();
                self.call(&store, kind, 0, format!("measured-{}", self.number).as_bytes()).await?;
                let after = self.proxy.counters();
                let up = after.bytes_up - before.bytes_up;
                sizes.0.push((packaging, kind, Size { up, down: after.bytes_down - before.bytes_down }));
            }
        }
        Ok(sizes)
    }
}

fn builder(url: &str, packaging: Packaging, deadline: Duration) -> tollgate_redis::RedisBuilder {
    Redis::builder(url).packaging(packaging).deadline(deadline).connect_timeout(DEADLINE).response_timeout(DEADLINE)
}
