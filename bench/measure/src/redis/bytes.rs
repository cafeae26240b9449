//! Bytes a key with one event, by what the server has allocated and by what it tells of the key.

use redis::Connection;

use crate::RunOptions;
use crate::home::{Failure, Home};
use crate::load::RANDOM;
use crate::subjects::{Form, Subject, subjects};
use crate::table::{Table, Value};

/// Keys: the quick number fills a table of the server as much as the other.
const KEYS: (u64, u64) = (100_000, 25_000);
const BATCH: u64 = 250;
const TARGET: f64 = 150.0;

pub(crate) fn measure(home: &mut Home, options: &RunOptions) -> Result<Table, Failure> {
    let mut table = Table::new(
        "bytes",
        "bytes a key with one event, of keys such as tg:{u:00001}",
        &["call", "used_memory", "MEMORY USAGE", "target", "met"],
    );
    let keys = options.size(KEYS.0, KEYS.1);
    for subject in subjects().iter().filter(|subject| subject.one_record) {
        home.flush()?;
        let mut connection = home.connect()?;
        let command = subject.command(home, Form::Function)?;
        let before = home.memory()?;
        fill(&mut connection, subject, &command, keys)?;
        let taken = (home.memory()? - before) / keys as f64;
        let told = told(home, subject)?;
        eprintln!("{}: {taken:.0} bytes a key", subject.name);
        table.row(vec![
            Value::text(&subject.name),
            Value::number(taken, 1),
            Value::number(told, 0),
            Value::number(TARGET, 0),
            Value::Met(taken <= TARGET),
        ]);
    }
    home.flush()?;
    Ok(table)
}

/// One event on each key.
fn fill(connection: &mut Connection, subject: &Subject, command: &[String], keys: u64) -> Result<(), Failure> {
    for first in (0..keys).step_by(BATCH as usize) {
        let mut pipe = redis::pipe();
        for key in first..first + BATCH {
            let mut words = redis::Cmd::new();
            for (place, word) in command.iter().enumerate() {
                let is_key = place < 3 + subject.keys.len();
                let number = if is_key { format!("{key:05}") } else { format!("{key:012}") };
                words.arg(word.replace(RANDOM, &number));
            }
            pipe.add_command(words).ignore();
        }
        pipe.exec(connection)?;
    }
    Ok(())
}

/// What the server tells of the keys of one subject: some have two.
fn told(home: &mut Home, subject: &Subject) -> Result<f64, Failure> {
    let key = subject.keys.first().ok_or("no key")?.replace(RANDOM, "00001");
    let keys: Vec<String> = home.ask(&["KEYS", &format!("*{key}*")])?;
    let mut bytes = 0.0;
    for key in keys {
        bytes += home.memory_of(&key)?;
    }
    Ok(bytes)
}
