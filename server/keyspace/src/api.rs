//! redis-limiter: counters of a token and a minute at `{api:TOKEN}:MM`, and the data of the token beside them.
//!
//! Either the application increments a counter itself, and the data is updated as the document's trigger updates it; or
//! `api_counter` decides, which reads and writes the same keys and is the twin of `api_counter.lua`.

use tollgate_dialects::api_counter::{DATA_LIFE, counter_name, minute};
use tollgate_dialects::{ApiCounterUsage, DialectReply, ParsedCall};
use tollgate_kernel::{Cell, Timestamp};

use super::entry::{KeyEntry, KeyValue, TokenData};
use super::table::entry_bytes;
use super::{ClockReadings, Keyspace, wrong_type};
use crate::fault::Fault;

const MINUTE: u64 = 60_000_000;

/// Returns the name of the data that an increment of this key updates: the part before the last colon is the token, in
/// braces. Returns `None` for the data itself and for names of another form, which are not counters.
pub fn data_of(key: &[u8]) -> Option<Vec<u8>> {
    let colon = key.iter().rposition(|byte| *byte == b':')?;
    let (token, name) = key.split_at_checked(colon)?;
    let is_token = token.starts_with(b"{api:") && token.contains(&b'}');
    (is_token && name != b":data").then(|| [token, b":data"].concat())
}

impl Keyspace {
    /// Returns whether the data can be stored at this name; a key that holds another type is left alone.
    pub(super) fn may_keep_data(&self, db: u8, data: &[u8], now: ClockReadings) -> bool {
        self.table.get(db, data, now).is_none_or(|entry| matches!(entry.value, KeyValue::Data(_)))
    }

    /// Counts one use of a token.
    pub(super) fn count_use(&mut self, db: u8, data: &[u8], now: ClockReadings) {
        let ops = match self.table.get(db, data, now).map(|entry| &entry.value) {
            Some(KeyValue::Data(data)) => data.ops.saturating_add(1),
            _ => 1,
        };
        self.put_data(db, data, TokenData { last: now.now.get() / 1_000_000, ops }, now);
    }

    fn put_data(&mut self, db: u8, name: &[u8], data: TokenData, now: ClockReadings) {
        let expires = Some(now.now.plus(DATA_LIFE));
        let change = |entry: &mut KeyEntry| (entry.value, entry.expires) = (KeyValue::Data(data), expires);
        if self.table.change(db, name, now, change).is_none() {
            self.table.put(db, name, KeyEntry::new(KeyValue::Data(data), expires));
        }
    }

    /// Decides a call of `api_counter`. Returns `None` if there is no memory for its keys.
    pub(super) fn count_minute(
        &mut self,
        db: u8,
        call: &ParsedCall,
        data_name: &[u8],
        now: ClockReadings,
    ) -> Result<Option<DialectReply>, Fault> {
        let data = self.data(db, data_name, now)?;
        let mut start = now.now.get() - now.now.get() % MINUTE;
        if let Some(data) = data {
            // The latest counted minute may be in the future if the clock was set back.
            start = start.max((data.last - data.last % 60).saturating_mul(1_000_000));
        }
        let name = |start: u64| counter_name(call.state_key(), minute(Timestamp::saturating(start)));
        let used = self.counted(db, &name(start), now)?;
        let [limit] = call.policy().limits() else { return Err(wrong_type()) };
        let mut cell = [limit.unpack([start, used])];
        let mut usage =
            ApiCounterUsage { count: 0, last: data.map(|data| data.last), ops: data.map_or(0, |data| data.ops) };
        // What will be written is not known yet, so there must be room for everything that may be.
        let absent = |keys: &Self, name: &[u8]| match keys.table.get(db, name, now) {
            None => entry_bytes(name.len()),
            Some(_) => 0,
        };
        let new = absent(self, data_name) + absent(self, &name(start));
        if new > 0 && !self.table.has_room(new, now) {
            // A count that exists here must not start again from zero in a shared state.
            return if used > 0 { self.table.need_room(new, now).map(|()| None) } else { Ok(None) };
        }
        let outcome = call.run_on(&mut cell, &mut usage, now.now)?;
        let Some(decision) = outcome.decision else { return Ok(Some(outcome.reply)) };
        let (start_after, used_after) = window(call, &cell, start, used);
        if decision.charged > 0 || start_after != start {
            let expires = Some(now.now.plus(decision.reset_after));
            let count = i64::try_from(used_after).unwrap_or(i64::MAX);
            self.table.put(db, &name(start_after), KeyEntry::counted(KeyValue::Number(count), expires));
            self.put_data(db, data_name, TokenData { last: usage.last.unwrap_or_default(), ops: usage.ops }, now);
        }
        Ok(Some(outcome.reply))
    }

    /// Returns the count at a key, 0 if the key is absent; fails if its value is not a non-negative integer.
    fn counted(&self, db: u8, key: &[u8], now: ClockReadings) -> Result<u64, Fault> {
        match self.table.get(db, key, now).map(|entry| &entry.value) {
            None => Ok(0),
            Some(KeyValue::Number(number)) => u64::try_from(*number).map_err(|_| wrong_type()),
            Some(_) => Err(wrong_type()),
        }
    }
}

/// Returns the start and count of the window after a decision.
fn window(call: &ParsedCall, cells: &[Cell], start: u64, used: u64) -> (u64, u64) {
    let cell = call.policy().limits().first().zip(cells.first());
    cell.and_then(|(limit, cell)| limit.pack(cell)).map_or((start, used), |[start, used]| (start, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_a_counter_is_as_the_trigger_has_it() {
        for (key, data) in [
            ("{api:0ubo}:54", Some("{api:0ubo}:data")),
            ("{api:a:b}:54", Some("{api:a:b}:data")),
            ("{api:x}:a:b", Some("{api:x}:a:data")),
            ("{api:x}:", Some("{api:x}:data")),
            ("{api:x}:data", None),
            ("{api:x}", None),
            ("{api:x:5", None),
            ("api:x:5", None),
            ("x{api:y}:5", None),
            ("", None),
        ] {
            assert_eq!(data_of(key.as_bytes()), data.map(|data| data.as_bytes().to_vec()), "{key}");
        }
    }
}
