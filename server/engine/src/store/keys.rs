//! Commands on keys as the store runs them. Commands on named keys that follow each other are one step of the store;
//! those on all keys are steps of their own.

use std::collections::HashSet;

use tollgate_dialects::Output;
use tollgate_dialects::api_counter::DATA_LIFE;
use tollgate_kernel::matches;
use tollgate_keyspace::{
    ExpireConditions, Fault, KeyCommand, KeyFailure, KeyOutcome, KeyReply, Lifetime, MAX_LISTED, MAX_LISTED_BYTES,
    ScanOptions, SetCommand, SetLifetime, check_name, data_of, quoted, too_many_bytes, too_many_keys,
};
use tollgate_redis::{GuardedCommand, GuardedReply, KeyGuard};

use super::{StoreHome, fault_of, fault_of_error};

/// The keys that are examined before others have a turn.
const PAGE: usize = 1_000;
/// The number of matching steps after which others have a turn.
const MAX_STEPS: usize = 1 << 14;

impl StoreHome {
    /// Runs commands on keys of a database, in order.
    pub(crate) async fn run_commands(&self, db: u8, may_reset: bool, commands: &[KeyCommand<'_>]) -> Vec<KeyOutcome> {
        let guard = self.guard(may_reset);
        let mut outcomes = Vec::with_capacity(commands.len());
        for group in commands.chunk_by(|one, other| is_of_names(one) && is_of_names(other)) {
            match group {
                [command] if !is_of_names(command) => {
                    let result = self.run_on_all(db, &guard, command).await.map_err(KeyFailure::Fault);
                    outcomes.push(KeyOutcome { result, limiters: Vec::new() });
                }
                group => outcomes.extend(self.run_step(db, &guard, group).await),
            }
        }
        outcomes
    }

    /// Runs commands on named keys in one step.
    async fn run_step(&self, db: u8, guard: &KeyGuard, commands: &[KeyCommand<'_>]) -> Vec<KeyOutcome> {
        let failed = |fault: Fault| commands.iter().map(|_| KeyOutcome::from(fault.clone())).collect();
        let names = commands.iter().flat_map(KeyCommand::keys);
        if let Err(fault) = names.into_iter().try_for_each(check_name) {
            return failed(fault);
        }
        let guarded: Vec<GuardedCommand> = commands.iter().flat_map(|command| self.guarded(guard, command)).collect();
        let replies = match self.redis.run_on_keys(db, guard, guarded).await {
            Ok(replies) => replies,
            Err(error) => return failed(fault_of_error(error)),
        };
        let mut replies = replies.into_iter();
        let outcomes = commands.iter().map(|command| {
            let missing = || GuardedReply::Failed("the store gave too few replies".to_owned(), Vec::new());
            let outcome = outcome(command, replies.next().unwrap_or_else(missing));
            let cleared = if is_cleared_too(guard, command) { replies.next() } else { None };
            with_cleared(command, outcome, cleared)
        });
        outcomes.collect()
    }

    /// Returns a command on named keys as the store's script takes it. With keys that are deleted, their states in the
    /// namespaces of callers are cleared; on a cluster such a name is in the slot of its key.
    fn guarded(&self, guard: &KeyGuard, command: &KeyCommand<'_>) -> Vec<GuardedCommand> {
        let clear = is_cleared_too(guard, command).then(|| GuardedCommand {
            name: "CLEAR",
            keys: self.namespaces.names(&command.keys()),
            args: Vec::new(),
        });
        guarded(command).into_iter().chain(clear).collect()
    }

    /// Runs a command on all keys that a caller reaches.
    async fn run_on_all(&self, db: u8, guard: &KeyGuard, command: &KeyCommand<'_>) -> Result<KeyReply, Fault> {
        match command {
            KeyCommand::Scan(scan) => {
                let (next, keys) = self.scan(db, guard, scan).await?;
                Ok(KeyReply::Page(next, keys))
            }
            KeyCommand::List(pattern) => {
                let mut bytes = 0;
                let keys = self.listed(db, guard, *pattern, || too_many_keys("found more")).await?;
                keys.iter().for_each(|key| bytes += key.len());
                if bytes > MAX_LISTED_BYTES { Err(too_many_bytes()) } else { Ok(KeyReply::Keys(keys)) }
            }
            KeyCommand::Count => {
                let too_many = || {
                    Fault::wrong(format!(
                        "DBSIZE: expected a database of at most {MAX_LISTED} keys, found more: not all of them are of \
                         callers, so each would be examined; use SCAN"
                    ))
                };
                let keys = self.listed(db, guard, None, too_many).await?;
                Ok(KeyReply::Number(keys.len() as i64))
            }
            _ => self.flush(db, guard).await,
        }
    }

    async fn scan(&self, db: u8, guard: &KeyGuard, scan: &ScanOptions<'_>) -> Result<(u64, Vec<Vec<u8>>), Fault> {
        let (next, found) = self.redis.page(db, guard, scan.cursor, scan.count).await.map_err(fault_of_error)?;
        let (mut keys, mut steps) = (Vec::new(), 0);
        for (key, kind) in found {
            if steps > MAX_STEPS {
                steps = 0;
                tokio::task::yield_now().await;
            }
            let wanted = scan.kind.is_none_or(|wanted| kind.as_bytes().eq_ignore_ascii_case(wanted))
                && scan.pattern.is_none_or(|pattern| matches(pattern, &key, &mut steps));
            if wanted {
                keys.push(key);
            }
        }
        Ok((next, keys))
    }

    /// Returns all keys that a caller reaches and that match, if the database has not too many to examine.
    async fn listed(
        &self,
        db: u8,
        guard: &KeyGuard,
        pattern: Option<&[u8]>,
        too_many: impl Fn() -> Fault,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let all = self.redis.key_count(db).await.map_err(fault_of_error)?;
        if all > MAX_LISTED as u64 {
            return Err(too_many());
        }
        let mut scan = ScanOptions { cursor: 0, count: PAGE, pattern, kind: None };
        // The store may return a key twice.
        let mut keys = HashSet::new();
        loop {
            let (next, found) = self.scan(db, guard, &scan).await?;
            keys.extend(found);
            scan.cursor = next;
            if next == 0 {
                return Ok(keys.into_iter().collect());
            }
            if keys.len() > MAX_LISTED {
                return Err(too_many());
            }
        }
    }

    /// Deletes the keys that a caller reaches, in bounded steps.
    async fn flush(&self, db: u8, guard: &KeyGuard) -> Result<KeyReply, Fault> {
        let _alone = self.flushing.lock().await;
        let mut cursor = 0;
        loop {
            cursor = self.redis.delete_page(db, guard, cursor).await.map_err(|error| {
                let fault = fault_of_error(error);
                Fault { text: format!("stopped before all keys were deleted, so repeat it: {}", fault.text), ..fault }
            })?;
            if cursor == 0 {
                return Ok(KeyReply::Done);
            }
        }
    }
}

/// Returns whether a command is on the keys that it names, and not on all.
/// Returns whether states at names derived from the command's keys are cleared with them.
fn is_cleared_too(guard: &KeyGuard, command: &KeyCommand<'_>) -> bool {
    guard.may_reset && matches!(command, KeyCommand::Delete(_))
}

/// Adds the states that were cleared at derived names to the keys that were deleted, of which there are no more than were
/// named.
fn with_cleared(command: &KeyCommand<'_>, mut outcome: KeyOutcome, cleared: Option<GuardedReply>) -> KeyOutcome {
    if let (Ok(KeyReply::Number(gone)), Some(GuardedReply::Done(Output::Integer(more), _))) =
        (&mut outcome.result, cleared)
    {
        *gone = (*gone + more).min(command.keys().len() as i64);
    }
    outcome
}

fn is_of_names(command: &KeyCommand<'_>) -> bool {
    !matches!(command, KeyCommand::Scan(_) | KeyCommand::List(_) | KeyCommand::Count | KeyCommand::Flush)
}

/// Returns a command on named keys as the store's script takes it.
fn guarded(command: &KeyCommand<'_>) -> Option<GuardedCommand> {
    let mut keys = command.keys();
    let data;
    let (name, args): (_, Vec<Vec<u8>>) = match command {
        KeyCommand::Get(_) => ("GET", Vec::new()),
        KeyCommand::Set(set) => ("SET", set_words(set)),
        KeyCommand::Add(key, number) => {
            // The data beside a counter of redis-limiter, and how long it is kept.
            data = data_of(key).filter(|data| data.ends_with(b"}:data"));
            keys.extend(data.as_deref());
            ("INCRBY", vec![digits(*number), (DATA_LIFE.get() / 1_000).to_string().into_bytes()])
        }
        KeyCommand::Delete(_) => ("DEL", Vec::new()),
        KeyCommand::Exist(_) => ("EXISTS", Vec::new()),
        KeyCommand::Kind(_) => ("TYPE", Vec::new()),
        KeyCommand::Fields(_, names) => ("HMGET", names.iter().map(|name| name.to_vec()).collect()),
        KeyCommand::AllFields(_) => ("HGETALL", Vec::new()),
        KeyCommand::FieldCount(_) => ("HLEN", Vec::new()),
        KeyCommand::Expire(expire) => {
            let word = if expire.life.is_absolute { "PEXPIREAT" } else { "PEXPIRE" };
            let conditions = condition_words(expire.conditions).map(|word| word.as_bytes().to_vec());
            ("EXPIRE", [word.as_bytes().to_vec(), digits(expire.life.ms)].into_iter().chain(conditions).collect())
        }
        KeyCommand::Left(_) => ("PTTL", Vec::new()),
        KeyCommand::Ends(_) => ("ENDS", Vec::new()),
        KeyCommand::Scan(_) | KeyCommand::List(_) | KeyCommand::Count | KeyCommand::Flush => return None,
    };
    Some(GuardedCommand { name, keys: keys.into_iter().map(<[u8]>::to_vec).collect(), args })
}

fn digits(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Returns whether the old text is wanted, the text, and the options in the words of SET.
fn set_words(set: &SetCommand<'_>) -> Vec<Vec<u8>> {
    let mut words = vec![if set.tells { b"GET".to_vec() } else { Vec::new() }, set.text.to_vec()];
    match set.life {
        SetLifetime::Forever => {}
        SetLifetime::Kept => words.push(b"KEEPTTL".to_vec()),
        SetLifetime::Until(Lifetime { ms, is_absolute }) => {
            words.push(if is_absolute { b"PXAT".to_vec() } else { b"PX".to_vec() });
            words.push(digits(ms));
        }
    }
    words.extend(set.only_if.map(|there| if there { b"XX".to_vec() } else { b"NX".to_vec() }));
    words
}

fn condition_words(conditions: ExpireConditions) -> impl Iterator<Item = &'static str> {
    let ExpireConditions { nx, xx, gt, lt } = conditions;
    [("NX", nx), ("XX", xx), ("GT", gt), ("LT", lt)].into_iter().filter(|(_, is_set)| *is_set).map(|(word, _)| word)
}

/// Returns what became of a command.
fn outcome(command: &KeyCommand<'_>, reply: GuardedReply) -> KeyOutcome {
    let keys = command.keys();
    let named = |places: Vec<usize>| -> Vec<Vec<u8>> {
        places.into_iter().filter_map(|place| keys.get(place)).map(|key| key.to_vec()).collect()
    };
    match reply {
        GuardedReply::Done(output, limiters) => {
            let reply = read(command, output).ok_or_else(|| Fault::wrong("the store gave a reply of another form"));
            KeyOutcome { result: reply.map_err(KeyFailure::Fault), limiters: named(limiters) }
        }
        GuardedReply::Failed(line, limiters) => {
            let mut fault = fault_of(&line);
            if fault.text.starts_with("invalid expire time") {
                let name = if let KeyCommand::Expire(expire) = command { expire.name } else { "set" };
                fault.text = format!("invalid expire time in '{name}' command");
            }
            KeyOutcome { result: Err(KeyFailure::Fault(fault)), limiters: named(limiters) }
        }
        GuardedReply::NeedsReset(limiters) => {
            KeyOutcome { result: Err(KeyFailure::NeedsReset), limiters: named(limiters) }
        }
        GuardedReply::Foreign(place) => foreign(keys.get(place).copied().unwrap_or_default()).into(),
    }
}

/// Returns the error of a key that callers do not reach.
fn foreign(key: &[u8]) -> Fault {
    Fault::wrong(format!(
        "the key {} is not one of a limiter: the store may be shared with applications, whose keys are left alone; start \
         the server with --store-keys PREFIX to let callers reach the keys that begin with PREFIX",
        quoted(key)
    ))
}

/// Returns the reply to a command, `None` if the store gave one of another form.
fn read(command: &KeyCommand<'_>, output: Output) -> Option<KeyReply> {
    let text = |output: &Output| if *output == Output::Nothing { None } else { output.text() };
    Some(match (command, output) {
        (KeyCommand::Get(_), output) => KeyReply::Text(text(&output)),
        (KeyCommand::Set(set), Output::List(parts)) => match parts.as_slice() {
            [_, before] if set.tells => KeyReply::Text(text(before)),
            [Output::Integer(done), _] => KeyReply::Stored(*done == 1),
            _ => return None,
        },
        (KeyCommand::Kind(_), output) => KeyReply::Word(String::from_utf8_lossy(&output.text()?).into_owned()),
        (KeyCommand::Fields(..), Output::List(values)) => KeyReply::Values(values.iter().map(text).collect()),
        (KeyCommand::AllFields(_), Output::List(parts)) => {
            let pairs = parts.as_chunks().0.iter();
            let pair = |[field, value]: &[Output; 2]| Some((field.text()?, value.text()?));
            KeyReply::Fields(pairs.map(pair).collect::<Option<_>>()?)
        }
        (_, Output::Integer(number)) => KeyReply::Number(number),
        _ => return None,
    })
}
