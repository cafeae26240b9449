//! Every subject under redis-benchmark, between two measurements of the empty script.
//!
//! First come the calls one by one, on no keys; then those by sixteen, on the keys these have left and as
//! many new ones. The server's processor time is taken of the latter.

use crate::RunOptions;
use crate::home::{EMPTY_FUNCTION, Failure, Home};
use crate::load::{Cost, KEYS, drive};
use crate::subjects::{Form, Subject, subjects};
use crate::table::{Table, Value};

const PIPELINE: u32 = 16;

/// Calls a measurement.
struct Sizes {
    single: u64,
    piped: u64,
}

const WHOLE: Sizes = Sizes { single: 20_000, piped: 80_000 };
const QUICK: Sizes = Sizes { single: 4_000, piped: 16_000 };
/// Calls of the empty script a measurement: a quarter of a second, or less.
const EMPTIES: (u64, u64) = (100_000, 30_000);

pub(crate) fn measure(home: &mut Home, options: &RunOptions) -> Result<Table, Failure> {
    let mut table = Table::new(
        "calls",
        "server CPU a call at pipeline 16, against the mean of the empty scripts before and after it",
        &["call", "as", "req/s at 1", "req/s at 16", "cpu us", "x empty", "target", "met", "was"],
    );
    let mut between = AlternatingRow { before: empty(home, options)?, table: &mut table, options };
    let whole = options.only.is_none();
    for (name, form, command) in references(home).into_iter().filter(|_| whole) {
        between.measure(home, name, form, &command, None, None)?;
    }
    for subject in subjects().iter().filter(|subject| subject.is_wanted(options)) {
        for form in [Form::Function, Form::Script] {
            home.renew()?;
            let command = subject.command(home, form)?;
            if subject.looks() {
                prepare(home, subject)?;
            }
            between.measure(home, &subject.name, form.name(), &command, subject.target, subject.original)?;
        }
    }
    home.flush()?;
    Ok(table)
}

/// What stands beside the subjects.
fn references(home: &Home) -> [(&'static str, &'static str, Vec<String>); 4] {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let key = "tg:{u:__rand_int__}";
    [
        ("PING", "command", words(&["PING"])),
        ("INCR", "command", words(&["INCR", key])),
        ("empty", "function", words(&["FCALL", EMPTY_FUNCTION, "1", key])),
        ("empty", "script", words(&["EVALSHA", &home.empty.sha, "1", key])),
    ]
}

/// What the empty script costs now.
pub(crate) fn empty(home: &mut Home, options: &RunOptions) -> Result<Cost, Failure> {
    let [.., (_, _, command)] = references(home);
    drive(home, PIPELINE, options.size(EMPTIES.0, EMPTIES.1), &command)
}

/// What a call that only looks is to find.
fn prepare(home: &mut Home, subject: &Subject) -> Result<(), Failure> {
    let charge = subject.charging().command(home, Form::Function)?;
    drive(home, PIPELINE, 2 * KEYS, &charge)?;
    Ok(())
}

/// A row of measurements that take turns with the empty script.
struct AlternatingRow<'a> {
    before: Cost,
    table: &'a mut Table,
    options: &'a RunOptions,
}

impl AlternatingRow<'_> {
    fn measure(
        &mut self,
        home: &mut Home,
        name: &str,
        form: &str,
        command: &[String],
        target: Option<f64>,
        original: Option<f64>,
    ) -> Result<(), Failure> {
        eprint!("{name}, {form}: ");
        let sizes = self.options.size(WHOLE, QUICK);
        let single = drive(home, 1, sizes.single, command)?;
        let piped = drive(home, PIPELINE, sizes.piped, command)?;
        let after = empty(home, self.options)?;
        let ratio = piped.micros / ((self.before.micros + after.micros) / 2.0);
        self.before = after;
        eprintln!("{:.1} us, {ratio:.2} x empty", piped.micros);
        self.table.row(vec![
            Value::text(name),
            Value::text(form),
            Value::number(single.rate, 0),
            Value::number(piped.rate, 0),
            Value::number(piped.micros, 2),
            Value::number(ratio, 2),
            Value::maybe(target, 1),
            Value::met(target.map(|target| ratio <= target)),
            Value::maybe(original, 1),
        ]);
        Ok(())
    }
}
