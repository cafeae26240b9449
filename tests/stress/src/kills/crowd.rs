//! All connections of a round, the keys that they share, and what the server must know once it was killed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::{Client, Share, SharedKey};
use super::history::HistoryFigures;
use super::kind::{KINDS, Kind};
use super::read::{KeyQuery, read};
use crate::serving::{Resp, ServerProcess};
use crate::{Failure, Report};
use tollgate_random::Rng;

/// Requests at a time, of every other connection.
const DEPTHS: [usize; 2] = [1, 16];
/// Kinds of which there is a key that all connections share, for the whole campaign.
const SHARED: [&str; 6] = ["fixed", "sliding", "gcra", "two-limits", "INCRBY", "fixed_window"];

/// What lasts from kill to kill.
pub(super) struct Ledger {
    seed: u64,
    connections: u64,
    rounds: u64,
    /// Shared keys, and what each stood at when it was read.
    shared: Vec<SharedKey>,
    stood: Vec<u64>,
    /// Keys that nobody asks for any more, and what each stood at.
    settled: Vec<(&'static Kind, String, u64)>,
}

/// What came of one round.
pub(super) struct Round {
    clients: Vec<Client>,
    pub(super) killed: Instant,
}

impl Ledger {
    pub(super) fn new(seed: u64, connections: u64) -> Self {
        let kinds = || KINDS.iter().filter(|kind| SHARED.contains(&kind.name));
        let shared: Vec<_> = kinds().map(|kind| (kind, format!("all:{}", kind.name.to_ascii_lowercase()))).collect();
        Self { seed, connections, rounds: 0, stood: vec![0; shared.len()], shared, settled: Vec::new() }
    }

    /// Asks on all connections for some time, then kills the server.
    pub(super) fn load(&mut self, server: &mut ServerProcess, lasts: Duration) -> Result<Round, Failure> {
        self.ask(server.resp, || {
            std::thread::sleep(lasts);
            server.kill()
        })
    }

    /// Asks on all connections until `end` has ended the server, or tells that it is enough.
    fn ask(&mut self, to: SocketAddr, end: impl FnOnce() -> Result<Instant, Failure>) -> Result<Round, Failure> {
        let (round, stop) = (self.rounds, AtomicBool::new(false));
        self.rounds += 1;
        let client = |number: u64| {
            let rng = Rng::of_part(self.seed, round << 16 | number);
            let depth = DEPTHS[(number % 2) as usize];
            Client::new(&format!("r{round}:c{number}"), self.shared.len(), depth, rng)
        };
        let mut clients: Vec<Client> = (0..self.connections).map(client).collect();
        let shared = &self.shared;
        let killed = std::thread::scope(|scope| {
            for client in &mut clients {
                let stop = &stop;
                scope.spawn(move || client.run(to, shared, || stop.load(Ordering::Relaxed)));
            }
            let killed = end();
            stop.store(true, Ordering::Relaxed);
            killed
        })?;
        Ok(Round { clients, killed })
    }

    /// Reads every key on the server that came after, and judges it. All that was answered until `until` must be
    /// there; all that was answered at all, if none.
    pub(super) fn judge(
        &mut self,
        report: &mut Report,
        name: &str,
        round: &Round,
        to: SocketAddr,
        until: Option<Instant>,
    ) -> Result<HistoryFigures, Failure> {
        let mut resp = Resp::connect(to)?;
        let mut told = HistoryFigures::default();
        for client in &round.clients {
            if let Some(wrong) = &client.wrong {
                report.violated(format!("{name}: {wrong}"));
            } else if client.ended.is_some_and(|ended| ended < round.killed) {
                report.violated(format!("{name}: a connection was gone before the server was killed"));
            }
            told.add(self.judge_client(report, name, client, &mut resp, until)?);
        }
        self.judge_settled(report, name, &mut resp)?;
        self.settle(&round.clients, &mut resp)?;
        self.judge_shared(report, name, round, &mut resp, until)?;
        Ok(told)
    }

    fn judge_client(
        &self,
        report: &mut Report,
        name: &str,
        client: &Client,
        resp: &mut Resp,
        until: Option<Instant>,
    ) -> Result<HistoryFigures, Failure> {
        let found = client.read(resp, until)?;
        Ok(client.history.judge(&found, until).unwrap_or_else(|wrong| {
            report.violated(format!("{name}: {wrong}"));
            HistoryFigures::default()
        }))
    }

    /// Keys of earlier rounds stand as they stood.
    fn judge_settled(&self, report: &mut Report, name: &str, resp: &mut Resp) -> Result<(), Failure> {
        let wanted = |(kind, key, stood): &'_ (&'static Kind, String, u64)| (*kind, key.clone(), *stood);
        let keys: Vec<_> = self.settled.iter().map(wanted).collect();
        let wanted: Vec<_> =
            keys.iter().map(|(kind, key, stood)| KeyQuery { kind, key, least: *stood, most: *stood }).collect();
        for (found, (_, key, stood)) in read(resp, &wanted)?.iter().zip(&keys) {
            report.demand(found.used == *stood, || {
                format!("{name}: {key}: {} used; expected {stood}, as it was read before", found.used)
            });
        }
        Ok(())
    }

    /// From now on nobody asks for the keys of these connections: those that can be read without a charge are
    /// read again after every kill.
    fn settle(&mut self, clients: &[Client], resp: &mut Resp) -> Result<(), Failure> {
        for client in clients {
            let accounts = client.history.accounts.iter().zip(&client.kinds);
            let plain = accounts.filter(|(_, kind)| kind.is_read_plainly());
            let wanted: Vec<_> =
                plain.map(|(account, kind)| KeyQuery { kind, key: &account.key, least: 0, most: 0 }).collect();
            for (found, wanted) in read(resp, &wanted)?.iter().zip(&wanted) {
                self.settled.push((wanted.kind, wanted.key.to_owned(), found.used));
            }
        }
        Ok(())
    }

    fn judge_shared(
        &mut self,
        report: &mut Report,
        name: &str,
        round: &Round,
        resp: &mut Resp,
        until: Option<Instant>,
    ) -> Result<(), Failure> {
        for (place, (kind, key)) in self.shared.iter().enumerate() {
            let shares = round.clients.iter().map(|client| Share::bounds(&client.shares[place], until));
            let (least, most) =
                shares.fold((self.stood[place], self.stood[place]), |sum, share| (sum.0 + share.0, sum.1 + share.1));
            let wanted = [KeyQuery { kind, key, least, most }];
            let Some(found) = read(resp, &wanted)?.first().copied() else { continue };
            report.demand((least..=most).contains(&found.used), || {
                format!("{name}: {key}, which all ask for: {} used; expected {least} to {most}", found.used)
            });
            self.stood[place] = found.now.unwrap_or(found.used);
        }
        Ok(())
    }
}

impl HistoryFigures {
    pub(super) fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.unanswered += other.unanswered;
        self.forgotten += other.forgotten;
        self.oldest = match (self.oldest, other.oldest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_daemon::{Server, ServerSettings};

    fn server() -> Server {
        let any = Some(([127, 0, 0, 1], 0).into());
        Server::start(ServerSettings { resp: any, http: None, insecure_no_auth: true, ..ServerSettings::default() })
            .unwrap()
    }

    /// Every kind is charged, read and modelled right: a server that nobody kills knows all that it answered, and
    /// another one does not.
    #[test]
    fn a_server_that_nobody_kills_knows_all() {
        let (server, mut ledger) = (server(), Ledger::new(1, 3));
        let (mut told, to) = (HistoryFigures::default(), server.resp_addr().unwrap());
        for round in 0..2 {
            let asked = ledger.ask(to, || {
                std::thread::sleep(Duration::from_millis(150));
                Ok(Instant::now())
            });
            let mut report = Report::default();
            told.add(ledger.judge(&mut report, "test", &asked.unwrap(), to, None).unwrap());
            assert!(report.is_clean(), "round {round}: {report}");
        }
        assert!(told.answered > 0 && told.unanswered == 0 && told.forgotten == 0, "{told:?}");
    }

    #[test]
    fn a_server_that_forgets_is_found_out() {
        let ([one, other], mut ledger) = ([server(), server()], Ledger::new(1, 2));
        let round = ledger.ask(one.resp_addr().unwrap(), || {
            std::thread::sleep(Duration::from_millis(50));
            Ok(Instant::now())
        });
        let mut report = Report::default();
        ledger.judge(&mut report, "test", &round.unwrap(), other.resp_addr().unwrap(), None).unwrap();
        assert!(!report.is_clean());
    }
}
