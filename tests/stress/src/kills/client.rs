//! A connection that asks for keys of every kind as fast as it is answered, and keeps count.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Instant;

use super::history::{Account, Act, History};
use super::kind::{ChargeCommand, KINDS, Kind, UndoSupport};
use super::read::{KeyQuery, read};
use crate::Failure;
use crate::serving::{Reply, Resp, push};
use tollgate_random::Rng;

/// Keys of each kind that a connection has for itself.
const KEYS: usize = 3;
/// Units of a request.
const UNITS: u64 = 4;
/// One in so many acts on a key that can be forgotten is a refund, or a reset.
const REFUNDS: u64 = 20;
const RESETS: u64 = 50;
/// Of a hundred requests, those for a key that all connections share.
const SHARED: u64 = 20;

/// What one connection did to a key that all share: charges alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Share(Vec<Charge>);

/// A charge of a shared key.
#[derive(Clone, Copy, Debug)]
struct Charge {
    units: u64,
    /// When it was answered, and how many units were taken.
    answered: Option<(Instant, u64)>,
}

impl Share {
    /// Units that must be there, and units that may.
    pub(super) fn bounds(&self, until: Option<Instant>) -> (u64, u64) {
        let must = |at: Instant| until.is_none_or(|until| at <= until);
        self.0.iter().fold((0, 0), |(least, most), charge| match charge.answered {
            Some((at, taken)) => (least + if must(at) { taken } else { 0 }, most + taken),
            None => (least, most + charge.units),
        })
    }
}

/// A key that all connections share.
pub(crate) type SharedKey = (&'static Kind, String);

/// One connection's keys and what it did.
pub(crate) struct Client {
    pub(crate) history: History,
    /// The kind of each account.
    pub(crate) kinds: Vec<&'static Kind>,
    /// The last charge of each account that can be given back: its moment and units.
    refundable: Vec<Option<(i64, u64)>>,
    /// What it did to each shared key.
    pub(super) shares: Vec<Share>,
    /// When the connection was found to be gone.
    pub(crate) ended: Option<Instant>,
    /// What was answered wrongly.
    pub(crate) wrong: Option<String>,
    rng: Rng,
    depth: usize,
}

/// A request whose reply is to come.
enum PendingRequest {
    Own { account: usize, number: usize, act: Act },
    Shared { key: usize, number: usize },
}

impl Client {
    /// A connection with keys of its own, whose names begin with `name`, and `depth` requests at a time.
    pub(crate) fn new(name: &str, shared: usize, depth: usize, rng: Rng) -> Self {
        let (mut accounts, mut kinds) = (Vec::new(), Vec::new());
        for kind in KINDS {
            for number in 0..KEYS {
                let key = format!("{name}:{}:{number}", kind.name.to_ascii_lowercase());
                accounts.push(Account::new(key, kind.capacity, 0));
                kinds.push(kind);
            }
        }
        Self {
            history: History::of(accounts),
            refundable: vec![None; kinds.len()],
            kinds,
            shares: vec![Share::default(); shared],
            ended: None,
            wrong: None,
            rng,
            depth,
        }
    }

    /// Asks until the server is gone, something is wrong, or it is enough.
    pub(crate) fn run(&mut self, to: SocketAddr, shared: &[SharedKey], is_enough: impl FnMut() -> bool) {
        if let Err(error) = self.ask(to, shared, is_enough) {
            self.ended = Some(Instant::now());
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Other) {
                self.wrong.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn ask(&mut self, to: SocketAddr, shared: &[SharedKey], mut is_enough: impl FnMut() -> bool) -> io::Result<()> {
        let mut resp = Resp::connect(to)?;
        let (mut bytes, mut asked) = (Vec::new(), Vec::with_capacity(self.depth));
        while !is_enough() {
            bytes.clear();
            // Requests that differ in their keys alone are decided together.
            let theme = (self.rng.below(2) == 0).then(|| self.rng.below(KINDS.len() as u64) as usize);
            for _ in 0..self.depth {
                let one = match self.rng.below(100) {
                    ..SHARED if !shared.is_empty() => self.share(shared, &mut bytes),
                    _ => self.act(theme, &mut bytes),
                };
                asked.push(one);
            }
            resp.send(&bytes)?;
            for one in asked.drain(..) {
                let reply = resp.reply()?;
                let at = Instant::now();
                if let Err(wrong) = self.note(&one, &reply, at, shared) {
                    return Err(io::Error::other(wrong));
                }
            }
        }
        Ok(())
    }

    /// What a server knows of each account, of which all that was answered until `until` must be there.
    pub(crate) fn read(&self, resp: &mut Resp, until: Option<Instant>) -> Result<Vec<u64>, Failure> {
        let accounts = self.history.accounts.iter().zip(&self.kinds);
        let wanted: Vec<_> = accounts
            .map(|(account, kind)| {
                let (least, most) = account.bounds(until);
                KeyQuery { kind, key: &account.key, least, most }
            })
            .collect();
        Ok(read(resp, &wanted)?.iter().map(|found| found.used).collect())
    }

    /// A request for a shared key.
    fn share(&mut self, shared: &[SharedKey], bytes: &mut Vec<u8>) -> PendingRequest {
        let key = self.rng.index(shared.len());
        let (kind, name) = &shared[key];
        let units = self.units(kind);
        push(bytes, &kind.charge(name, units));
        let log = &mut self.shares[key].0;
        log.push(Charge { units, answered: None });
        PendingRequest::Shared { key, number: log.len() - 1 }
    }

    /// A request for a key of its own.
    fn act(&mut self, theme: Option<usize>, bytes: &mut Vec<u8>) -> PendingRequest {
        let account = match theme {
            Some(kind) => kind * KEYS + self.rng.index(KEYS),
            None => self.rng.index(self.kinds.len()),
        };
        let (kind, key) = (self.kinds[account], self.history.accounts[account].key.clone());
        let back = (kind.undo == UndoSupport::Refund && self.rng.below(REFUNDS) == 0)
            .then(|| self.refundable[account].take())
            .flatten();
        let (act, words) = if let Some((at, units)) = back {
            (Act::Refund(units), kind.refund(&key, units, at))
        } else if kind.undo != UndoSupport::Nothing && self.rng.below(RESETS) == 0 {
            self.refundable[account] = None;
            (Act::Reset, kind.reset(&key))
        } else {
            let units = self.units(kind);
            (Act::Charge(units), kind.charge(&key, units))
        };
        push(bytes, &words);
        PendingRequest::Own { account, number: self.history.send(account, act), act }
    }

    fn units(&mut self, kind: &Kind) -> u64 {
        if kind.takes_units() { 1 + self.rng.below(UNITS) } else { 1 }
    }

    /// Notes a reply; it must tell what the model says.
    fn note(&mut self, asked: &PendingRequest, reply: &Reply, at: Instant, shared: &[SharedKey]) -> Result<(), String> {
        match *asked {
            PendingRequest::Shared { key, number } => {
                let (kind, name) = &shared[key];
                kind.told(reply).map_err(|wrong| format!("{name}: {wrong}"))?;
                let charge = &mut self.shares[key].0[number];
                let taken = match kind.command {
                    ChargeCommand::Check { .. } => {
                        reply.at(6).int().and_then(|taken| taken.try_into().ok()).unwrap_or(0)
                    }
                    ChargeCommand::Both { .. } | ChargeCommand::Other { .. } => charge.units,
                };
                charge.answered = Some((at, taken));
                Ok(())
            }
            PendingRequest::Own { account, number, act } => {
                let (used, taken) = self.history.answer(account, number, at);
                self.is_right(account, act, reply, used, taken)
                    .map_err(|wrong| format!("{}, {act:?}: {wrong}", self.history.accounts[account].key))
            }
        }
    }

    fn is_right(&mut self, account: usize, act: Act, reply: &Reply, used: u64, taken: u64) -> Result<(), String> {
        let kind = self.kinds[account];
        match act {
            Act::Charge(_) => {
                let (told, moment) = kind.told(reply)?;
                if let Some(told) = told.filter(|told| *told != used) {
                    return Err(format!("{told} used by its reply, expected {used}"));
                }
                if let Some(moment) = moment
                    && kind.undo == UndoSupport::Refund
                    && taken > 0
                    && !self.history.accounts[account].is_resetting()
                {
                    self.refundable[account] = Some((moment, taken));
                }
                Ok(())
            }
            Act::Refund(units) => match reply.int() {
                Some(back) if back == units as i64 => Ok(()),
                _ => Err(format!("expected {units} units given back, found {reply:?}")),
            },
            Act::Reset => match reply {
                Reply::Int(0 | 1) => Ok(()),
                _ => Err(format!("expected 0 or 1, found {reply:?}")),
            },
        }
    }
}
