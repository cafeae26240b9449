//! The contents of a journal frame: a sequence of items, of which all are applied or none.
//!
//! ```text
//! policy      id, words                     defines the id, before its first use in a file
//! caller's    id, words                     the same, for a policy that a caller brought
//! late        id, words                     both again, for a policy that came after many others of its name
//! charges     id, n, at, n x (key, units, at - the one before)
//! crowded     the same, for keys that share buckets for some limit, for lack of memory
//! state       id, key, cells                the key's whole state under the policy's name, after a change
//! part        id, key, cells                the same for a key that also shares a bucket; the rest is unchanged
//! refund      id, key, units, at, t         units charged at `at` and refunded at `t`, as far as still held
//! call        a call of a dialect and its time, which is decided again
//! entry       database, key, expiry, value  the value of a key after a change
//! gone        database, key
//! flush       database, or all
//! shared      a state that keys share for lack of memory, after a change
//! ban         policy, key, until, level; generation: number
//! piece       a part of a frame that is longer than a record of the journal
//! ```

use tollgate_dialects::Wording;
use tollgate_kernel::{KeyState, Policy, Reader, Timestamp, Writer};

use crate::counts::PolicyOwner;
use tollgate_keyspace::DialectCall;
use tollgate_keyspace::wire::{WireBuffer, WireReader, folded, unfolded};

/// The longest body that is written to the journal in one piece.
pub(super) const MAX_LEN: usize = (1 << 20) - 64;

/// The bytes that items begin with.
mod tag {
    pub(super) const POLICY: u8 = 1;
    pub(super) const CHARGES: u8 = 2;
    pub(super) const STATE: u8 = 3;
    pub(super) const CALL: u8 = 4;
    pub(super) const ENTRY: u8 = 5;
    pub(super) const GONE: u8 = 6;
    pub(super) const FLUSH: u8 = 7;
    pub(super) const SHARED: u8 = 8;
    pub(super) const BAN: u8 = 9;
    pub(super) const GENERATION: u8 = 10;
    pub(super) const PIECE: u8 = 11;
    pub(super) const REFUND: u8 = 12;
    pub(super) const CALLERS_POLICY: u8 = 13;
    pub(super) const CROWDED: u8 = 14;
    pub(super) const PART: u8 = 15;
    pub(super) const LATE_POLICY: u8 = 16;
    pub(super) const LATE_CALLERS_POLICY: u8 = 17;
}

/// Stands in the place of a database for all of them.
const ALL: u8 = u8::MAX;

/// One item of a frame.
#[derive(Debug)]
pub(super) enum FrameItem<'a> {
    Policy { id: u64, policy: Policy, owner: PolicyOwner, may_pack: bool },
    Charges { id: u64, charges: Charges<'a>, holder: Holder },
    State { id: u64, key: &'a [u8], state: EncodedState<'a>, extent: Extent },
    Refund { id: u64, key: &'a [u8], refund: Refund },
    Call { call: Box<DialectCall>, now: Timestamp },
    Entry { db: u8, key: &'a [u8], entry: &'a [u8] },
    Gone { db: u8, key: &'a [u8] },
    Flush(Option<u8>),
    Shared(&'a [u8]),
    Ban { policy: &'a str, key: &'a [u8], until: Timestamp, level: u32 },
    Generation(u64),
    Piece(FramePiece<'a>),
}

/// A piece of a long frame, which is complete with its last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePiece<'a> {
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) bytes: &'a [u8],
}

/// A charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge<'a> {
    pub(super) key: &'a [u8],
    pub(super) units: u64,
    pub(super) at: Timestamp,
}

/// A refund: the requested units, and the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refund {
    pub(super) units: u64,
    /// When the units were charged.
    pub(super) at: Timestamp,
    /// When the units were refunded.
    pub(super) t: Timestamp,
}

/// Charges that are read one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charges<'a> {
    left: usize,
    at: u64,
    from: WireReader<'a>,
}

impl<'a> Charges<'a> {
    /// Reads the next charge; `None` if the bytes are invalid.
    fn read(&mut self) -> Option<Charge<'a>> {
        let (key, units) = (self.from.text()?, self.from.number()?);
        self.at = self.at.checked_add_signed(unfolded(self.from.number()?))?;
        self.left -= 1;
        Some(Charge { key, units, at: Timestamp::new(self.at)? })
    }
}

impl<'a> Iterator for Charges<'a> {
    type Item = Charge<'a>;

    fn next(&mut self) -> Option<Charge<'a>> {
        if self.left == 0 { None } else { self.read() }
    }
}

/// The place that holds charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The key's own place.
    Key,
    /// The bucket that the key shares.
    Bucket,
}

/// How much of a key's state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything.
    Whole,
    /// The state in its own place; for other limits it shares a bucket.
    Part,
}

/// The state of a key, to be read with the policy of its id.
#[derive(Clone, Copy, Debug)]
pub(super) enum EncodedState<'a> {
    Nothing,
    /// The cells of the policy's own limits.
    Own(&'a [u8]),
    /// Cells with their limits.
    Whole(&'a [u8]),
}

impl EncodedState<'_> {
    /// Reads the state; returns `None` if the bytes are invalid.
    pub(super) fn read(self, policy: &Policy) -> Option<KeyState> {
        match self {
            Self::Nothing => Some(KeyState::default()),
            Self::Own(words) => {
                let mut from = Reader::new(words);
                let cells = policy.limits().iter().map(|limit| limit.read(&mut from)).collect::<Option<_>>()?;
                from.is_done().then(|| KeyState::of(policy, cells))
            }
            Self::Whole(words) => {
                let mut from = Reader::new(words);
                let state = KeyState::read(&mut from)?;
                from.is_done().then_some(state)
            }
        }
    }
}

pub(super) fn put_policy(id: u64, policy: &Policy, owner: PolicyOwner, may_pack: bool, to: &mut Vec<u8>) {
    // Without a name it is the same, and older releases can read it.
    let is_callers = owner == PolicyOwner::Callers && !policy.name().is_empty();
    to.push(match (is_callers, may_pack) {
        (false, true) => tag::POLICY,
        (true, true) => tag::CALLERS_POLICY,
        (false, false) => tag::LATE_POLICY,
        (true, false) => tag::LATE_CALLERS_POLICY,
    });
    to.number(id);
    let mut words = Writer::default();
    policy.write(&mut words);
    to.text(&words.into_bytes());
}

/// Begins `count` charges, each of which is written after it by [`put_charge`].
pub(super) fn begin_charges(holder: Holder, id: u64, count: usize, at: Timestamp, to: &mut Vec<u8>) {
    to.push(if holder == Holder::Key { tag::CHARGES } else { tag::CROWDED });
    to.number(id);
    to.number(count as u64);
    to.time(at);
}

/// Writes one of the charges; returns its time, to which the next one is relative.
#[inline]
pub(super) fn put_charge(charge: Charge<'_>, before: Timestamp, to: &mut Vec<u8>) -> Timestamp {
    to.text(charge.key);
    to.number(charge.units);
    to.number(folded(charge.at.get() as i64 - before.get() as i64));
    charge.at
}

pub(super) fn put_state(
    extent: Extent,
    id: u64,
    policy: &Policy,
    key: &[u8],
    state: Option<&KeyState>,
    to: &mut Vec<u8>,
) {
    to.push(if extent == Extent::Whole { tag::STATE } else { tag::PART });
    to.number(id);
    to.text(key);
    let Some(state) = state else { return to.push(0) };
    let mut words = Writer::default();
    // A key usually has only the limits of its policy, which are known by its id. Expired limits are in their initial
    // state.
    let is_own = extent == Extent::Whole && state.each().all(|(limit, _)| policy.limits().contains(limit));
    if is_own {
        for limit in policy.limits() {
            let cell = state.each().find(|(held, _)| *held == limit);
            cell.map_or_else(|| limit.fresh(), |(_, cell)| cell.clone()).write(&mut words);
        }
    } else {
        state.write(&mut words);
    }
    to.push(if is_own { 1 } else { 2 });
    to.text(&words.into_bytes());
}

pub(super) fn put_refund(id: u64, key: &[u8], refund: Refund, to: &mut Vec<u8>) {
    to.push(tag::REFUND);
    to.number(id);
    to.text(key);
    to.number(refund.units);
    to.time(refund.at);
    to.time(refund.t);
}

pub(super) fn put_call(dialect_call: &DialectCall, now: Timestamp, to: &mut Vec<u8>) {
    to.push(tag::CALL);
    to.text(dialect_call.dialect.name.as_bytes());
    to.push(dialect_call.db);
    to.push(u8::from(dialect_call.wording == Wording::Script));
    to.time(now);
    for all in [&dialect_call.keys, &dialect_call.args] {
        to.number(all.len() as u64);
        all.iter().for_each(|one| to.text(one));
    }
}

/// Writes the value of a key, as `fill` writes it, or that the key is gone if `fill` returns `false`.
pub(super) fn put_entry(db: u8, key: &[u8], fill: impl FnOnce(&mut Vec<u8>) -> bool, to: &mut Vec<u8>) {
    let from = to.len();
    to.push(tag::ENTRY);
    to.push(db);
    to.text(key);
    let mut holds = true;
    to.part(|to| holds = fill(to));
    if !holds {
        to.truncate(from);
        to.push(tag::GONE);
        to.push(db);
        to.text(key);
    }
}

pub(super) fn put_flush(db: Option<u8>, to: &mut Vec<u8>) {
    to.extend_from_slice(&[tag::FLUSH, db.unwrap_or(ALL)]);
}

pub(super) fn put_shared(fill: impl FnOnce(&mut Vec<u8>), to: &mut Vec<u8>) {
    to.push(tag::SHARED);
    to.part(fill);
}

pub(super) fn put_ban(policy: &str, key: &[u8], until: Timestamp, level: u32, to: &mut Vec<u8>) {
    to.push(tag::BAN);
    to.text(policy.as_bytes());
    to.text(key);
    to.time(until);
    to.number(u64::from(level));
}

pub(super) fn put_generation(number: u64, to: &mut Vec<u8>) {
    to.push(tag::GENERATION);
    to.number(number);
}

/// Splits a long body into pieces that fit the journal.
pub(super) fn pieces(body: &[u8]) -> impl Iterator<Item = FramePiece<'_>> {
    let last = body.len().div_ceil(MAX_LEN).saturating_sub(1);
    let pieces = body.chunks(MAX_LEN).enumerate();
    pieces.map(move |(place, bytes)| FramePiece { is_first: place == 0, is_last: place == last, bytes })
}

pub(super) fn put_piece(piece: FramePiece<'_>, to: &mut Vec<u8>) {
    to.extend_from_slice(&[tag::PIECE, u8::from(piece.is_first) | u8::from(piece.is_last) << 1]);
    to.extend_from_slice(piece.bytes);
}

/// Reads the next item of a frame; `None` if it is unknown or invalid.
pub(super) fn read_item<'a>(from: &mut WireReader<'a>) -> Option<FrameItem<'a>> {
    Some(match from.byte()? {
        kind @ (tag::POLICY | tag::CALLERS_POLICY | tag::LATE_POLICY | tag::LATE_CALLERS_POLICY) => {
            let (id, mut words) = (from.number()?, Reader::new(from.text()?));
            let policy = Policy::read(&mut words).filter(|_| words.is_done())?;
            let is_callers = matches!(kind, tag::CALLERS_POLICY | tag::LATE_CALLERS_POLICY);
            let owner = if is_callers { PolicyOwner::Callers } else { PolicyOwner::Servers };
            FrameItem::Policy { id, policy, owner, may_pack: matches!(kind, tag::POLICY | tag::CALLERS_POLICY) }
        }
        kind @ (tag::CHARGES | tag::CROWDED) => {
            let holder = if kind == tag::CHARGES { Holder::Key } else { Holder::Bucket };
            let (id, left, at) = (from.number()?, from.count()?, from.time()?.get());
            let charges = Charges { left, at, from: *from };
            // All charges are validated before the first is used.
            let mut ahead = charges;
            (0..left).try_for_each(|_| ahead.read().map(|_| ()))?;
            *from = ahead.from;
            FrameItem::Charges { id, charges, holder }
        }
        kind @ (tag::STATE | tag::PART) => {
            let (id, key) = (from.number()?, from.text()?);
            let state = match from.byte()? {
                0 => EncodedState::Nothing,
                1 => EncodedState::Own(from.text()?),
                2 => EncodedState::Whole(from.text()?),
                _ => return None,
            };
            let extent = if kind == tag::STATE { Extent::Whole } else { Extent::Part };
            FrameItem::State { id, key, state, extent }
        }
        tag::REFUND => {
            let (id, key) = (from.number()?, from.text()?);
            FrameItem::Refund { id, key, refund: Refund { units: from.number()?, at: from.time()?, t: from.time()? } }
        }
        tag::CALL => read_call(from)?,
        tag::ENTRY => FrameItem::Entry { db: from.byte()?, key: from.text()?, entry: from.part()? },
        tag::GONE => FrameItem::Gone { db: from.byte()?, key: from.text()? },
        tag::FLUSH => FrameItem::Flush(Some(from.byte()?).filter(|db| *db != ALL)),
        tag::SHARED => FrameItem::Shared(from.part()?),
        tag::BAN => {
            let (policy, key) = (std::str::from_utf8(from.text()?).ok()?, from.text()?);
            FrameItem::Ban { policy, key, until: from.time()?, level: u32::try_from(from.number()?).ok()? }
        }
        tag::GENERATION => FrameItem::Generation(from.number()?),
        tag::PIECE => {
            let marks = from.byte().filter(|marks| *marks < 4)?;
            let piece = FramePiece { is_first: marks & 1 > 0, is_last: marks & 2 > 0, bytes: from.rest() };
            *from = WireReader::new(&[]);
            FrameItem::Piece(piece)
        }
        _ => return None,
    })
}

fn read_call<'a>(from: &mut WireReader<'a>) -> Option<FrameItem<'a>> {
    let dialect = tollgate_dialects::find(std::str::from_utf8(from.text()?).ok()?)?;
    let db = from.byte()?;
    let wording = match from.byte()? {
        0 => Wording::Document,
        1 => Wording::Script,
        _ => return None,
    };
    let now = from.time()?;
    let mut texts = || -> Option<Vec<&'a [u8]>> { (0..from.count()?).map(|_| from.text()).collect() };
    let (keys, args) = (texts()?, texts()?);
    let call = (dialect.parse)(&keys, &args).ok()?.speaking(wording);
    let own = |all: &[&[u8]]| all.iter().map(|one| one.to_vec()).collect();
    let dialect_call = DialectCall { dialect, call, db, keys: own(&keys), args: own(&args), wording };
    Some(FrameItem::Call { call: Box::new(dialect_call), now })
}

#[cfg(test)]
mod tests {
    use tollgate_kernel::Request;
    use tollgate_random::Rng;

    use super::*;
    use tollgate_keyspace::samples::{CALLS, parse_call};

    fn t(us: u64) -> Timestamp {
        Timestamp::saturating(1_700_000_000_000_000 + us)
    }

    fn policy() -> Policy {
        let policy: Policy = "5/min, 10/h sliding, 20/d gcra burst=7".parse().unwrap();
        policy.with_name("login").unwrap()
    }

    /// Returns a frame with every kind of item.
    fn everything() -> Vec<u8> {
        let mut bytes = Vec::new();
        let policy = policy();
        put_policy(300, &policy, PolicyOwner::Servers, true, &mut bytes);
        put_policy(301, &policy, PolicyOwner::Callers, true, &mut bytes);
        put_policy(302, &policy, PolicyOwner::Callers, false, &mut bytes);
        put_policy(303, &policy, PolicyOwner::Overrides, false, &mut bytes);
        begin_charges(Holder::Bucket, 301, 1, t(4), &mut bytes);
        put_charge(Charge { key: b"crowded", units: 2, at: t(4) }, t(4), &mut bytes);
        begin_charges(Holder::Key, 300, 3, t(10), &mut bytes);
        let keys: [(&[u8], u64, u64); 3] = [(b"a", 1, 10), (b"\xff\0", u64::MAX, 7), (b"a", 0, 1_000_000)];
        keys.into_iter()
            .fold(t(10), |before, (key, units, at)| put_charge(Charge { key, units, at: t(at) }, before, &mut bytes));
        let mut state = KeyState::default();
        let _ = state.decide(&policy, t(0), &Request::ONE);
        put_state(Extent::Whole, 300, &policy, b"own", Some(&state), &mut bytes);
        put_state(Extent::Part, 300, &policy, b"part", Some(&state), &mut bytes);
        put_state(Extent::Whole, 300, &policy, b"none", None, &mut bytes);
        let other: Policy = "7/s".parse().unwrap();
        let _ = state.decide(&other, t(0), &Request::ONE);
        put_state(Extent::Whole, 300, &policy, b"whole", Some(&state), &mut bytes);
        for text in CALLS {
            put_call(&parse_call(&text.replace("KEY", "key").replace('N', "1")), t(3), &mut bytes);
        }
        put_entry(
            3,
            b"there",
            |to| {
                to.push(9);
                true
            },
            &mut bytes,
        );
        put_entry(
            4,
            b"gone",
            |to| {
                to.push(9);
                false
            },
            &mut bytes,
        );
        put_flush(Some(5), &mut bytes);
        put_flush(None, &mut bytes);
        put_shared(|to| to.push(1), &mut bytes);
        put_ban("login", b"bad", t(5), 3, &mut bytes);
        put_generation(12, &mut bytes);
        put_refund(300, b"back", Refund { units: 4, at: t(2), t: t(9) }, &mut bytes);
        bytes
    }

    /// Returns the contents of a frame in words; `None` if it is invalid.
    fn told(bytes: &[u8]) -> Option<Vec<String>> {
        let (mut from, mut told) = (WireReader::new(bytes), Vec::new());
        while !from.is_done() {
            told.push(match read_item(&mut from)? {
                FrameItem::Charges { id, charges, holder } => {
                    format!("{id} {:?} {holder:?}", charges.collect::<Vec<_>>())
                }
                FrameItem::State { key, state, extent, .. } => {
                    format!("{} {:?} {extent:?}", key.escape_ascii(), state.read(&policy())?.each().count())
                }
                FrameItem::Call { call, now } => {
                    format!("{} {:?} {:?} {now:?}", call.dialect.name, call.keys, call.args)
                }
                FrameItem::Policy { id, policy, owner, may_pack } => {
                    format!("{id} {} = {policy} {owner:?} {may_pack}", policy.name())
                }
                item => format!("{item:?}"),
            });
        }
        Some(told)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let told = told(&everything()).unwrap();
        let said = |words: &str| assert!(told.iter().any(|line| line.contains(words)), "{words} in {told:#?}");
        assert_eq!(told.len(), 18 + CALLS.len());
        said(&format!("300 login = {} Servers true", policy()));
        said(&format!("301 login = {} Callers true", policy()));
        said(&format!("302 login = {} Callers false", policy()));
        said(&format!("303 login = {} Servers false", policy()));
        said(&format!("301 {:?} Bucket", [Charge { key: b"crowded", units: 2, at: t(4) }]));
        said(&format!(
            "300 {:?} Key",
            [
                Charge { key: b"a", units: 1, at: t(10) },
                Charge { key: b"\xff\0", units: u64::MAX, at: t(7) },
                Charge { key: b"a", units: 0, at: t(1_000_000) },
            ]
        ));
        for words in [
            "own 3 Whole",
            "part 3 Part",
            "none 0",
            "whole 4",
            "Gone { db: 4",
            "Flush(Some(5))",
            "Flush(None)",
            "Shared([1])",
        ] {
            said(words);
        }
        said("Ban { policy: \"login\", key: [98, 97, 100]");
        said("Generation(12)");
        said(&format!("{:?}", Refund { units: 4, at: t(2), t: t(9) }));
    }

    #[test]
    fn states_are_equal_when_they_are_read_back() {
        let (policy, mut state) = (policy(), KeyState::default());
        (0..9).for_each(|place| _ = state.decide(&policy, t(place * 1_000), &Request::ONE));
        let other: Policy = "7/s".parse().unwrap();
        for _ in 0..2 {
            let mut bytes = Vec::new();
            put_state(Extent::Part, 1, &policy, b"k", Some(&state.clone().sorted(t(9_000))), &mut bytes);
            let Some(FrameItem::State { state: read, .. }) = read_item(&mut WireReader::new(&bytes)) else { panic!() };
            assert_eq!(read.read(&policy).unwrap().sorted(t(9_000)), state.clone().sorted(t(9_000)));
            let _ = state.decide(&other, t(9_000), &Request::ONE);
        }
    }

    #[test]
    fn long_bodies_go_in_pieces() {
        let body: Vec<u8> = (0..2 * MAX_LEN + 5).map(|place| place as u8).collect();
        let mut whole = Vec::new();
        for (place, piece) in pieces(&body).enumerate() {
            let mut bytes = Vec::new();
            put_piece(piece, &mut bytes);
            assert!(bytes.len() <= 1 << 20);
            let Some(FrameItem::Piece(read)) = read_item(&mut WireReader::new(&bytes)) else { panic!() };
            assert_eq!((read.is_first, read.is_last), (place == 0, place == 2));
            whole.extend_from_slice(read.bytes);
        }
        assert!(whole == body);
    }

    #[test]
    fn bytes_that_nobody_wrote_never_panic() {
        let bytes = everything();
        (0..bytes.len()).for_each(|cut| _ = told(&bytes[..cut]));
        let mut rng = Rng::new(1);
        for _ in 0..50_000 {
            let mut bytes = bytes.clone();
            let place = rng.index(bytes.len());
            bytes[place] = rng.next_u64() as u8;
            let _ = told(&bytes);
        }
    }
}
