//! One attack from beginning to end: the good client before and meanwhile, the attackers, the server watched,
//! and what is left afterwards.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::attack::{Figures, Kind, Plan, VICTIM};
use super::good::{self, ClientFigures, GoodClient, ServerAccess};
use super::identity::Identity;
use super::program::Program;
use super::server::Server;
use super::watch::{PeakUsage, UsageMonitor};
use super::{Caps, Sizes};
use crate::Failure;

/// How long attackers may take to leave, and the server to notice.
const LEAVING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// How long the good client is measured before an attack, at most.
const BEFORE: Duration = Duration::from_secs(3);
/// How long it asks before anything is measured.
const FIRST: Duration = Duration::from_secs(1);

/// A server, its twin that nobody attacks, and the good client that stays with both.
pub(super) struct Stage {
    pub(super) server: Arc<Server>,
    _twin: Server,
    access: ServerAccess,
    good: Mutex<GoodClient>,
    /// Files without any connection, and memory after the first questions.
    pub(super) files: usize,
    pub(super) memory: u64,
}

pub(super) struct Round<'a> {
    pub(super) kind: &'static Kind,
    pub(super) stage: &'a Stage,
    pub(super) sizes: &'a Sizes,
    pub(super) identity: &'a Identity,
    pub(super) to: SocketAddr,
    /// The third part of the attackers' addresses.
    pub(super) net: u8,
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) figures: Figures,
    pub(super) before: ClientFigures,
    pub(super) during: ClientFigures,
    pub(super) most: PeakUsage,
    /// The system's memory for connections before.
    pub(super) system: u64,
    /// When attackers had left: whether all their files were closed, and files and memory.
    pub(super) left: PeakUsage,
    pub(super) is_closed: bool,
    /// What is wrong with the answers afterwards.
    pub(super) wrong: Option<String>,
    pub(super) lasted: Duration,
    /// Time that the server's threads worked meanwhile.
    pub(super) worked: Duration,
}

impl Stage {
    pub(super) fn new(caps: Caps, identity: &Identity, is_tls: bool) -> Result<Self, Failure> {
        let [server, twin] = [Server::start(caps, identity, is_tls)?, Server::start(caps, identity, is_tls)?];
        let tls = is_tls.then(|| Arc::clone(&identity.trusted));
        let access = ServerAccess { to: server.resp, tls, token: identity.token.text().to_owned() };
        let files = server.files();
        let good = GoodClient::new(access.clone(), &ServerAccess { to: twin.resp, ..access.clone() })?;
        let (good, server) = (Mutex::new(good), Arc::new(server));
        let mut stage = Self { server, _twin: twin, access, good, files, memory: 0 };
        // The first questions make the server touch what it works with.
        stage.measure(|| {
            std::thread::sleep(FIRST);
            Ok(())
        })?;
        stage.memory = stage.server.memory();
        Ok(stage)
    }

    /// What the good client sees while something is done.
    fn measure<T>(&self, doing: impl FnOnce() -> Result<T, Failure>) -> Result<(T, ClientFigures), Failure> {
        let stop = AtomicBool::new(false);
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            let (good, stop) = (&mut *good, &stop);
            let asking = scope.spawn(move || good.ask(stop));
            let done = doing();
            stop.store(true, Ordering::Relaxed);
            let seen = asking.join().map_err(|_| Failure("the good client panicked".to_owned()))?;
            Ok((done?, seen))
        })
    }
}

impl Round<'_> {
    pub(super) fn run(&self) -> Result<Outcome, Failure> {
        let Self { stage, .. } = *self;
        let server = &stage.server;
        let system = PeakUsage::now(server).system;
        let ((), before) = stage.measure(|| {
            std::thread::sleep(self.sizes.lasts.min(BEFORE));
            Ok(())
        })?;
        let watch = UsageMonitor::start(server);
        let (start, worked) = (Instant::now(), server.worked());
        let (figures, during) = stage.measure(|| self.attack())?;
        let (lasted, worked) = (start.elapsed(), server.worked().saturating_sub(worked));
        let most = watch.end()?;
        let closed = || server.files() <= stage.files + good::STAYING;
        let until = Instant::now() + LEAVING;
        while !closed() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let (is_closed, left) = (closed(), PeakUsage::now(server));
        let key = format!("right:{}", self.kind.name);
        let wrong = good::counts_right(&stage.access, &key).and_then(|()| self.is_untouched());
        Ok(Outcome {
            figures,
            before,
            during,
            most,
            system,
            left,
            is_closed,
            wrong: wrong.err().map(|error| error.to_string()),
            lasted,
            worked,
        })
    }

    /// Attackers from their start to their end, which is theirs or after a time.
    fn attack(&self) -> Result<Figures, Failure> {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(std::env::current_exe()?).arg("attacker").args(self.plan().words());
        let mut attackers = Program::start("attackers", command)?;
        let lasts = (self.kind.lasts)(self.sizes);
        let mut until = Instant::now() + LEAVING;
        let mut is_told = false;
        loop {
            match attackers.line(until.saturating_duration_since(Instant::now()))? {
                Some(line) if line == "ready" => until = Instant::now() + lasts,
                Some(line) => return Figures::read(&line),
                None if is_told => return Err(Failure(format!("the attackers did not end: {}", self.kind.name))),
                None => {
                    attackers.end();
                    (until, is_told) = (Instant::now() + LEAVING, true);
                }
            }
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            kind: self.kind,
            to: self.to,
            count: (self.kind.count)(self.sizes),
            addresses: self.sizes.addresses,
            net: self.net,
            prefix: self.sizes.caps.prefix,
            cert: self.identity.files.cert.clone(),
        }
    }

    /// Whether what browsers were made to send was done.
    fn is_untouched(&self) -> std::io::Result<()> {
        match self.stage.access.connect()?.decide("TG.PEEK", VICTIM, "10/h")? {
            [1, _, 10, ..] => Ok(()),
            found => Err(std::io::Error::other(format!("{VICTIM} was charged by a browser's line: {found:?}"))),
        }
    }
}
