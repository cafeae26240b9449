//! The commands on keys as values, so that they are run by whichever place holds the keys: the keyspace here, or a store.

use tollgate_kernel::{Micros, Timestamp};

use super::{ClockReadings, ExpireConditions, Expiry, Keyspace, ScanOptions, SetOptions};
use crate::fault::Fault;

/// The most keys of a database that are listed or counted in one call.
pub const MAX_LISTED: usize = 10_000;
/// The most bytes of keys that one call lists.
pub const MAX_LISTED_BYTES: usize = 256 << 10;

/// A command on keys of one database.
#[derive(Clone, Debug)]
pub enum KeyCommand<'a> {
    /// Reads a text.
    Get(&'a [u8]),
    /// Stores a text.
    Set(SetCommand<'a>),
    /// Adds to a number.
    Add(&'a [u8], i64),
    /// Deletes keys; replies how many there were.
    Delete(Vec<&'a [u8]>),
    /// Replies how many of the keys there are.
    Exist(Vec<&'a [u8]>),
    /// Replies the type of a value.
    Kind(&'a [u8]),
    /// Reads these fields of a hash.
    Fields(&'a [u8], Vec<&'a [u8]>),
    /// Reads all fields of a hash.
    AllFields(&'a [u8]),
    /// Replies the number of fields of a hash.
    FieldCount(&'a [u8]),
    /// Sets when a key expires.
    Expire(ExpireCommand<'a>),
    /// Replies the milliseconds that a key has left, rounded up; -1 if it does not expire, -2 if there is none.
    Left(&'a [u8]),
    /// Replies the Unix time in milliseconds at which a key expires, or as [`KeyCommand::Left`].
    Ends(&'a [u8]),
    /// Lists keys in steps.
    Scan(ScanOptions<'a>),
    /// Lists all keys that match a pattern.
    List(Option<&'a [u8]>),
    /// Replies the number of keys.
    Count,
    /// Deletes all keys, but not the states of policies.
    Flush,
}

/// SET.
#[derive(Clone, Debug)]
pub struct SetCommand<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The text to store.
    pub text: &'a [u8],
    /// When the key expires.
    pub life: SetLifetime,
    /// Stores only if the key exists (`true`), or only if it does not (`false`).
    pub only_if: Option<bool>,
    /// Whether the reply is the text that was there.
    pub tells: bool,
}

/// The life that SET gives a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetLifetime {
    /// It does not expire.
    #[default]
    Forever,
    /// It expires when it did before.
    Kept,
    /// It expires then.
    Until(Lifetime),
}

/// EXPIRE and its variants.
#[derive(Clone, Debug)]
pub struct ExpireCommand<'a> {
    /// The key.
    pub key: &'a [u8],
    /// When it expires.
    pub life: Lifetime,
    /// Under which conditions that is set.
    pub conditions: ExpireConditions,
    /// The name of the command, for errors.
    pub name: &'static str,
}

/// A time as commands give it: from now on, or since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Milliseconds, which may be negative.
    pub ms: i64,
    /// Whether they count from the epoch.
    pub is_absolute: bool,
}

/// Fields of a hash, with their values.
type HashFields = Vec<(Vec<u8>, Vec<u8>)>;

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyReply {
    /// A text, if there is one.
    Text(Option<Vec<u8>>),
    /// Whether SET stored its text.
    Stored(bool),
    /// A number.
    Number(i64),
    /// A word.
    Word(String),
    /// The values of the fields that were asked for.
    Values(Vec<Option<Vec<u8>>>),
    /// All fields and their values.
    Fields(HashFields),
    /// Keys, and the cursor to continue from.
    Page(u64, Vec<Vec<u8>>),
    /// Keys.
    Keys(Vec<Vec<u8>>),
    /// The command was done.
    Done,
}

/// What became of a command.
#[derive(Clone, Debug)]
pub struct KeyOutcome {
    /// The reply, or why nothing was changed.
    pub result: Result<KeyReply, KeyFailure>,
    /// The keys with the state of a limiter that the command deletes, shortens or overwrites.
    pub limiters: Vec<Vec<u8>>,
}

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFailure {
    /// The caller may not take anything from a limiter.
    NeedsReset,
    /// Any other reason.
    Fault(Fault),
}

impl From<Fault> for KeyFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Fault> for KeyOutcome {
    fn from(fault: Fault) -> Self {
        Self { result: Err(fault.into()), limiters: Vec::new() }
    }
}

impl Lifetime {
    /// Returns the time of a command that counts in seconds or milliseconds; `None` if milliseconds cannot express it.
    pub fn new(time: i64, seconds: bool, is_absolute: bool) -> Option<Self> {
        let ms = if seconds { time.checked_mul(1_000)? } else { time };
        Some(Self { ms, is_absolute })
    }

    /// Returns the time by a clock that reads `now`; `None` if it is too far off to express.
    pub fn at(self, now: Timestamp) -> Option<Timestamp> {
        let base = if self.is_absolute { 0 } else { now.get() };
        // Bounded as in Redis, which counts in milliseconds, and by what microseconds can count.
        self.ms.checked_add(i64::try_from(base / 1_000).ok()?)?;
        let at = i128::from(base) + i128::from(self.ms) * 1_000;
        match u64::try_from(at.max(0)) {
            Ok(at) if at > now.get() => Some(now.plus(Micros::new(at - now.get()))),
            Ok(at) => Some(Timestamp::saturating(at)),
            Err(_) => None,
        }
    }
}

impl<'a> KeyCommand<'a> {
    /// Returns the keys that it names.
    pub fn keys(&self) -> Vec<&'a [u8]> {
        match self {
            Self::Get(key) | Self::Add(key, _) | Self::Kind(key) | Self::Fields(key, _) => vec![key],
            Self::AllFields(key) | Self::FieldCount(key) | Self::Left(key) | Self::Ends(key) => vec![key],
            Self::Set(set) => vec![set.key],
            Self::Expire(expire) => vec![expire.key],
            Self::Delete(keys) | Self::Exist(keys) => keys.clone(),
            Self::Scan(_) | Self::List(_) | Self::Count | Self::Flush => Vec::new(),
        }
    }

    /// Returns whether it takes something from the state of a limiter at one of its keys.
    fn forgets(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Delete(_) | Self::Expire(_))
    }

    /// Returns the error of a time that cannot be expressed.
    fn invalid_time(name: &str) -> Fault {
        Fault::wrong(format!("invalid expire time in '{name}' command"))
    }
}

impl Keyspace {
    /// Runs a command. Without `may_reset`, it takes nothing from a limiter.
    pub fn run_command(
        &mut self,
        db: u8,
        command: &KeyCommand<'_>,
        may_reset: bool,
        now: impl Into<ClockReadings>,
    ) -> KeyOutcome {
        let now = now.into();
        let mut limiters = Vec::new();
        if command.forgets() {
            // Deleting a key also clears the states of limiters at names that were derived from it.
            let deletes = matches!(command, KeyCommand::Delete(_));
            let is_limiter =
                |key: &&[u8]| self.is_limiter(db, key, now) || deletes && self.has_namespaces(db, key, now);
            limiters.extend(command.keys().into_iter().filter(is_limiter).map(<[u8]>::to_vec));
        }
        if !limiters.is_empty() && !may_reset {
            return KeyOutcome { result: Err(KeyFailure::NeedsReset), limiters };
        }
        KeyOutcome { result: self.reply_to(db, command, now).map_err(KeyFailure::Fault), limiters }
    }

    fn reply_to(&mut self, db: u8, command: &KeyCommand<'_>, now: ClockReadings) -> Result<KeyReply, Fault> {
        Ok(match command {
            KeyCommand::Get(key) => KeyReply::Text(self.get(db, key, now)?),
            KeyCommand::Set(set) => self.set_by(db, set, now)?,
            KeyCommand::Add(key, number) => KeyReply::Number(self.add(db, key, *number, now)?),
            KeyCommand::Delete(keys) => KeyReply::Number(self.delete(db, keys.iter().copied(), now)),
            KeyCommand::Exist(keys) => KeyReply::Number(self.exist(db, keys.iter().copied(), now)),
            KeyCommand::Kind(key) => KeyReply::Word(self.kind(db, key, now).to_owned()),
            KeyCommand::Fields(key, names) => {
                let fields = self.fields(db, key, now)?;
                let value =
                    |name: &&[u8]| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
                KeyReply::Values(names.iter().map(value).collect())
            }
            KeyCommand::AllFields(key) => KeyReply::Fields(self.fields(db, key, now)?),
            KeyCommand::FieldCount(key) => KeyReply::Number(self.fields(db, key, now)?.len() as i64),
            KeyCommand::Expire(expire) => {
                let at = expire.life.at(now.wall).ok_or_else(|| KeyCommand::invalid_time(expire.name))?;
                KeyReply::Number(i64::from(self.expire(db, expire.key, at, expire.conditions, now)))
            }
            KeyCommand::Left(key) => KeyReply::Number(self.left_ms(db, key, now)),
            KeyCommand::Ends(key) => KeyReply::Number(match self.left_ms(db, key, now) {
                none @ (-2 | -1) => none,
                left => left.saturating_add(i64::try_from(now.wall.get().div_ceil(1_000)).unwrap_or(i64::MAX)),
            }),
            KeyCommand::Scan(scan) => {
                let (cursor, found) = self.scan(db, scan, now);
                KeyReply::Page(cursor, found)
            }
            KeyCommand::List(pattern) => KeyReply::Keys(self.list(db, *pattern, now)?),
            KeyCommand::Count => KeyReply::Number(i64::try_from(self.len(db, now)).unwrap_or(i64::MAX)),
            KeyCommand::Flush => {
                self.flush(Some(db));
                KeyReply::Done
            }
        })
    }

    fn set_by(&mut self, db: u8, set: &SetCommand<'_>, now: ClockReadings) -> Result<KeyReply, Fault> {
        let expiry = match set.life {
            SetLifetime::Forever => Expiry::Never,
            SetLifetime::Kept => Expiry::Kept,
            SetLifetime::Until(life) => Expiry::At(life.at(now.wall).ok_or_else(|| KeyCommand::invalid_time("set"))?),
        };
        let before = if set.tells { Some(self.get(db, set.key, now)?) } else { None };
        let done = self.set(db, set.key, set.text, SetOptions { expiry, only_if: set.only_if }, now)?;
        if let Expiry::At(ends) = expiry
            && done
            && ends <= now.wall
        {
            // The expiry is in the past.
            self.forget(db, set.key);
        }
        Ok(before.map_or(KeyReply::Stored(done), KeyReply::Text))
    }

    /// Returns the fields of the one kind of hash here, with their values in decimal digits.
    fn fields(&mut self, db: u8, key: &[u8], now: ClockReadings) -> Result<HashFields, Fault> {
        let data = self.data(db, key, now)?;
        let field = |name: &str, value: u64| (name.as_bytes().to_vec(), value.to_string().into_bytes());
        Ok(data.map_or_else(Vec::new, |data| vec![field("last", data.last), field("ops", data.ops)]))
    }

    fn left_ms(&mut self, db: u8, key: &[u8], now: ClockReadings) -> i64 {
        match self.left(db, key, now) {
            None => -2,
            Some(None) => -1,
            Some(Some(left)) => i64::try_from(left.get().div_ceil(1_000)).unwrap_or(i64::MAX),
        }
    }

    /// Returns all keys that match, if there are not too many to examine in one call.
    fn list(&mut self, db: u8, pattern: Option<&[u8]>, now: ClockReadings) -> Result<Vec<Vec<u8>>, Fault> {
        let len = self.len(db, now);
        if len > MAX_LISTED {
            return Err(too_many_keys(&format!("found {len}")));
        }
        let (mut cursor, mut found, mut bytes) = (0, Vec::new(), 0);
        loop {
            let (next, some) = self.scan(db, &ScanOptions { cursor, count: MAX_LISTED, pattern, kind: None }, now);
            bytes += some.iter().map(Vec::len).sum::<usize>();
            if bytes > MAX_LISTED_BYTES {
                return Err(too_many_bytes());
            }
            found.extend(some);
            cursor = next;
            if cursor == 0 {
                // The order of the table is secret, and no caller needs it.
                found.sort_unstable();
                return Ok(found);
            }
        }
    }
}

/// Returns the error of KEYS on a database with too many keys to examine.
pub fn too_many_keys(found: &str) -> Fault {
    Fault::wrong(format!("KEYS: expected a database of at most {MAX_LISTED} keys, {found}; use SCAN 0 MATCH pattern"))
}

/// Returns the error of KEYS for more bytes of keys than one reply takes.
pub fn too_many_bytes() -> Fault {
    let text = format!("KEYS: expected at most {MAX_LISTED_BYTES} bytes of keys that match; use SCAN 0 MATCH pattern");
    Fault::wrong(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::saturating(1_700_000_000_000_001);

    #[test]
    fn a_time_is_exact_to_the_microsecond_or_refused() {
        let at = |time, seconds, absolute| Lifetime::new(time, seconds, absolute)?.at(NOW).map(Timestamp::get);
        assert_eq!(at(59, true, false), Some(1_700_000_059_000_001));
        assert_eq!(at(59, false, false), Some(1_700_000_000_059_001));
        assert_eq!(at(-1, true, false), Some(1_699_999_999_000_001));
        assert_eq!(at(1_700_000_001, true, true), Some(1_700_000_001_000_000));
        assert_eq!(at(i64::MIN / 1_000, true, false), Some(0));
        assert_eq!(at(i64::MAX, true, false), None);
        assert_eq!(at(i64::MAX, false, false), None);
    }

    #[test]
    fn without_the_right_to_reset_a_limiter_loses_nothing() {
        let mut keys = Keyspace::new(1 << 20);
        keys.decide(&crate::samples::parse_call("fixed_window 1 k 5 60"), NOW).unwrap();
        let life = Lifetime::new(1, true, false).unwrap();
        let set = SetCommand { key: b"k", text: b"x", life: SetLifetime::Forever, only_if: None, tells: false };
        let expire = ExpireCommand { key: b"k", life, conditions: ExpireConditions::default(), name: "expire" };
        let commands = [KeyCommand::Delete(vec![b"other", b"k"]), KeyCommand::Set(set), KeyCommand::Expire(expire)];
        for command in &commands {
            let outcome = keys.run_command(0, command, false, NOW);
            assert_eq!((outcome.result, outcome.limiters), (Err(KeyFailure::NeedsReset), vec![b"k".to_vec()]));
            assert!(keys.is_limiter(0, b"k", NOW), "{command:?}");
        }
        let outcome = keys.run_command(0, &commands[0], true, NOW);
        assert_eq!((outcome.result, outcome.limiters.len()), (Ok(KeyReply::Number(1)), 1));
    }
}
