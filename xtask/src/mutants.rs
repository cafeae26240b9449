//! Tests of the tests: the kernel broken on purpose, one fault at a time.
//!
//! Each mutant is one edit of the kernel's source. It is compiled with the laws as they are and
//! must be caught by one of them. An edit whose text is no longer in the source fails, so that the
//! list stays true.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::run::{Failure, root};

/// Cases of each law for each algorithm: enough for every mutant below, and quick.
const CASES: &str = "600";
/// A mutant may loop for ever; that is caught too.
const PATIENCE: Duration = Duration::from_secs(60);

struct Mutant {
    what: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
}

const fn mutant(what: &'static str, file: &'static str, find: &'static str, replace: &'static str) -> Mutant {
    Mutant { what, file, find, replace }
}

#[rustfmt::skip]
const MUTANTS: &[Mutant] = &[
    mutant("gcra: a packed state loses its fraction", "algorithms/gcra.rs",
        "owed.whole << self.fraction_bits | owed.fraction", "owed.whole << self.fraction_bits"),
    mutant("gcra: one unit at the edge is refused when packed", "algorithms/gcra.rs",
        "        if debt > self.all_but_one {\n            let settled", "        if debt >= self.all_but_one {\n            let settled"),
    mutant("gcra: one unit more than fits is taken when packed", "algorithms/gcra.rs",
        "        if debt > self.all_but_one {\n            let settled", "        if debt > self.tolerance {\n            let settled"),
    mutant("gcra: a packed charge is dated back", "algorithms/gcra.rs",
        "[t.get(), self.pack_owed(debt)]", "[seen, self.pack_owed(debt)]"),
    mutant("estimate: a packed count loses the window before", "algorithms/estimate.rs",
        "previous: counts >> 32,", "previous: counts >> 32 & 0,"),
    mutant("window: a packed window forgets when it began", "window.rs",
        "Self { start: Timestamp::from_word(start), used }", "Self { start: Timestamp::from_word(start & !1), used }"),
    mutant("words: neighbours leave with the earlier one", "words.rs",
        "E::pack(late.at(state.newest()), early.before())", "E::pack(early.at(state.newest()), early.before())"),
    mutant("words: a thinned log loses units", "words.rs",
        "E::pack(late.at(state.newest()), early.before())", "E::pack(late.at(state.newest()), late.before())"),
    mutant("words: a log is written without its newest entry", "words.rs",
        "        for index in 0..self.len() {\n            let entry", "        for index in 0..self.len().saturating_sub(1) {\n            let entry"),
    mutant("sliding: an event counts a microsecond too long", "algorithms/sliding.rs",
        "Micros::new(at)).plus(self.period)", "Micros::new(at + 1)).plus(self.period)"),
    mutant("sliding: an event leaves a microsecond early", "algorithms/sliding.rs",
        "Micros::new(at)).plus(self.period)", "Micros::new(at.saturating_sub(1))).plus(self.period)"),
    mutant("log: an event still counts when it leaves", "log.rs",
        "leaves(self.at(log, index)) <= now", "leaves(self.at(log, index)) < now"),
    mutant("log: wait one too short", "log.rs",
        "Wait::After(self.until(leaves(self.at(log, first - 1)), t))", "Wait::us(self.until(leaves(self.at(log, first - 1)), t).get().saturating_sub(1))"),
    mutant("log: wait one too long", "log.rs",
        "Wait::After(self.until(leaves(self.at(log, first - 1)), t))", "Wait::us(self.until(leaves(self.at(log, first - 1)), t).get() + 1)"),
    mutant("sliding: a grain leaves when its first event has left", "algorithms/sliding.rs",
        "now.floor_to(self.grain).get().saturating_add(self.grain.get() - 1)", "now.floor_to(self.grain).get()"),
    mutant("sliding: refused attempts grow the log without bound", "algorithms/sliding.rs",
        "units.min((2 * self.count).saturating_sub(look.used))", "units + 0 * look.used"),
    mutant("sliding: refund after the charge has left", "algorithms/sliding.rs",
        "if state.log_time(at).plus(self.period) <= state.now(t) {", "if false {"),
    mutant("log: refund of the newest", "log.rs",
        "let kept = self.left(log, live).saturating_sub(units);",
        "self.total = self.total.wrapping_sub(units) & E::MASK; let kept = self.left(log, live);"),
    mutant("log: refund leaves its entries behind", "log.rs",
        "        log.drop_front(split);\n        log.set(0,", "        log.set(split,"),
    mutant("log: a clock set back locks for the jump", "log.rs",
        "if !log.is_empty() && self.newest > t.plus(self.skew).plus(window) {",
        "if log.is_empty() && self.newest > t.plus(self.skew).plus(window) {"),
    mutant("log: a clock set back far forgets the key", "log.rs",
        "let ahead = self.newest.since(t).get();", "let ahead = self.newest.plus(window).since(t).get();"),
    mutant("log: a clock set back moves the edges of slots", "log.rs",
        "Micros::new(ahead - ahead % grid.get())", "Micros::new(ahead - ahead % grid.get() * 0)"),
    mutant("log: a clock set back a little stamps events early", "log.rs",
        "t.plus(self.skew).max(self.newest)", "t.plus(self.skew).plus(Micros::new(u64::from(self.newest > t) * 3))"),
    mutant("log: expired entries are never dropped", "log.rs",
        "        if live > 0 {\n            log.drop_front(live);", "        if live > 1_000_000 {\n            log.drop_front(live);"),
    mutant("gcra: truncated interval", "algorithms/gcra.rs",
        "        Self { whole, fraction }\n", "        Self { whole, fraction: fraction - fraction }\n"),
    mutant("gcra: a paid debt still owes its fraction", "algorithms/gcra.rs",
        "        if self.tat < t {", "        if self.tat.plus(Micros::new(1)) < t {"),
    mutant("gcra: wait rounded down", "algorithms/gcra.rs",
        "+ u64::from(debt.fraction > may_owe.fraction)", "+ u64::from(debt.fraction > may_owe.fraction) / 2"),
    mutant("gcra: a whole burst never fits", "algorithms/gcra.rs",
        "        if units > self.burst {\n            return Wait::Never;", "        if units >= self.burst {\n            return Wait::Never;"),
    mutant("gcra: room rounded up", "algorithms/gcra.rs",
        "        let (units, rest) = muldiv_add(debt.whole, self.count, debt.fraction, self.period.get());\n        units + u64::from(rest > 0)",
        "        let (units, rest) = muldiv_add(debt.whole, self.count, debt.fraction, self.period.get());\n        units + 0 * rest"),
    mutant("gcra: refund of what time has paid back already", "algorithms/gcra.rs",
        "whole: charged.whole - since, ..charged", "whole: charged.whole + 0 * since, ..charged"),
    mutant("gcra: clock back locks for the jump", "algorithms/gcra.rs",
        "if state.seen > t.plus(Micros::new(self.tolerance.up())) {", "if state.seen > t.plus(Micros::new(1 << 50)) {"),
    mutant("gcra: a limit made smaller forgets", "algorithms/gcra.rs",
        "-> Span {\n        state.debt(t)\n", "-> Span {\n        if state.count > 0 && !state.same_rate(self) && state.debt(t) > state.span_of(self, self.burst) { Span::default() } else { state.debt(t) }\n"),
    mutant("gcra: a limit made smaller keeps one burst", "algorithms/gcra.rs",
        "-> Span {\n        state.debt(t)\n", "-> Span {\n        if state.count > 0 && !state.same_rate(self) { state.debt(t).min(state.span_of(self, self.burst)) } else { state.debt(t) }\n"),
    mutant("gcra: a refused attempt converts a debt that has no place", "algorithms/gcra.rs",
        "        if recorded == 0 {", "        if recorded > units {"),
    mutant("gcra: clock back admits more", "algorithms/gcra.rs",
        "*state = State { tat: t.plus(owed), seen: t, ..*state };", "*state = State::default();"),
    mutant("gcra: a changed count refills", "algorithms/gcra.rs",
        "more(owed + recorded)", "more(recorded + 0 * owed)"),
    mutant("gcra: a changed count keeps time instead of units", "algorithms/gcra.rs",
        "let plain = *debt == Span::default() || (state.same_rate(self) && *debt <= self.tolerance);",
        "let plain = *debt == Span::default() || *debt <= self.tolerance;"),
    mutant("gcra: a clock set back a little looks like debt", "algorithms/gcra.rs",
        "let t = t.max(self.seen);", "let t = t.max(Timestamp::default());"),
    mutant("gcra: a charge under a clock set back moves time back", "algorithms/gcra.rs",
        "let t = if *debt == Span::default() { t } else { t.max(state.seen) };", "let t = if *debt == Span::default() { t } else { t.min(state.seen) };"),
    mutant("gcra: refused attempts owe without bound", "algorithms/gcra.rs",
        "units.min((2 * self.burst).saturating_sub(owed))", "units + 0 * owed"),
    mutant("fixed: state not expired at the edge", "algorithms/fixed.rs",
        "(state.used > 0 && t < end)", "(state.used > 0 && t <= end)"),
    mutant("fixed: window one too short", "algorithms/fixed.rs",
        "(state.used > 0 && t < end)", "(state.used > 0 && t.plus(Micros::new(1)) < end)"),
    mutant("fixed: a clock set back brings an edge near", "algorithms/fixed.rs",
        "Alignment::Clock => t.plus(Micros::new(self.period.get() - self.phase(t))),", "Alignment::Clock => self.window_at(t),"),
    mutant("fixed: corrected from two windows on only", "algorithms/fixed.rs",
        "if state.used > 0 && state.start > t.plus(self.period) {", "if state.used > 0 && state.start > t.plus(self.period).plus(self.period) {"),
    mutant("fixed: as new a window later", "algorithms/fixed.rs",
        "look.map_or(Micros::ZERO, |end| end.since(t))", "look.map_or(Micros::ZERO, |end| end.since(t).plus(self.period))"),
    mutant("fixed: clock back admits more", "algorithms/fixed.rs",
        "state.start = match self.align {", "state.used = 0; state.start = match self.align {"),
    mutant("fixed: clock back locks for the jump", "algorithms/fixed.rs",
        "if state.used > 0 && state.start > t.plus(self.period) {", "if state.used == 0 && state.start > t.plus(self.period) {"),
    mutant("fixed: refund after an edge", "algorithms/fixed.rs",
        "self.end(state, t).is_none() || at < self.window_at(state.start)", "self.end(state, t).is_none() || at > t"),
    mutant("bucket: tokens arrive early", "algorithms/bucket.rs",
        "t.since(state.start).get(), self.period.get()).0", "t.since(state.start).get() + 1, self.period.get()).0"),
    mutant("bucket: wait rounded down", "algorithms/bucket.rs",
        "whole.saturating_add(u64::from(rest > 0))", "whole.saturating_add(0 * rest)"),
    mutant("bucket: more than a burst is promised for the next window", "algorithms/bucket.rs",
        "if units <= self.burst { Wait::After(end.since(t)) } else { Wait::Never }", "Wait::After(end.since(t))"),
    mutant("bucket: waits beyond the end of the window", "algorithms/bucket.rs",
        "if enough < end {", "if enough < end.plus(self.period) {"),
    mutant("slots: a slot leaves one resolution early", "algorithms/slots.rs",
        "Micros::new(slot)).plus(self.period)", "Micros::new(slot.saturating_sub(self.resolution.get()))).plus(self.period)"),
    mutant("slots: refund in another slot", "algorithms/slots.rs",
        "let slot = self.slot(state.log_time(at));", "let slot = self.slot(state.now(t.max(at)));"),
    mutant("estimate: the weighted part rounded down", "algorithms/estimate.rs",
        "whole + u64::from(rest > 0)", "whole + 0 * rest"),
    mutant("estimate: a window of long ago still counts", "algorithms/estimate.rs",
        "_ => (0, 0),", "_ => (state.current, 0),"),
    mutant("estimate: wait in the next window from the wrong counter", "algorithms/estimate.rs",
        "let fits_at = self.overlap_for(now.current, self.count - units);", "let fits_at = self.overlap_for(now.previous, self.count - units);"),
    mutant("estimate: refund of a window long gone", "algorithms/estimate.rs",
        "} else if at.plus(self.period) >= now.start {", "} else if at <= now.start {"),
    mutant("decay: fades once only", "algorithms/decay.rs",
        "state.level / power(self.factor, slots)", "state.level / power(self.factor, slots.min(1))"),
    mutant("decay: fraction cut off", "algorithms/decay.rs",
        "(level + units as f64).min(HIGHEST)", "(level.floor() + units as f64).min(HIGHEST)"),
    mutant("decay: wait one slot too long", "algorithms/decay.rs",
        "    Some(high)", "    Some(high + 1)"),
    mutant("rolling: no half bucket", "algorithms/rolling.rs",
        "life: period.plus(Micros::new(half))", "life: period.plus(Micros::new(0 * half))"),
    mutant("rolling: a charge at the end of a cell opens the next", "algorithms/rolling.rs",
        "if now <= self.cell_time_down(state, cell.saturating_add(1)) => cell,", "if now < self.cell_time_down(state, cell.saturating_add(1)) => cell,"),
    mutant("combine: charge on refusal", "algorithms/mod.rs",
        "Mode::Binary | Mode::Nary => granted,", "Mode::Binary | Mode::Nary => granted.max(self.cost.min(1)),"),
    mutant("combine: a peek charges", "algorithms/mod.rs",
        "_ if self.peek => 0,", "_ if self.peek => self.cost / 2,"),
    mutant("combine: every limit is told to fit", "combine.rs",
        "fits: assessed.fits & 1 << index != 0,", "fits: assessed.fits & 1 << index != 0 || index > 0,"),
    mutant("combine: the last limit's charge is told", "combine.rs",
        "charged = charged.max(settled.recorded);", "charged = settled.recorded;"),
    mutant("combine: a refund of what is yet to come", "combine.rs",
        "if units == 0 || at > t {", "if units == 0 {"),
    mutant("log: corrected from two windows on only", "log.rs",
        "self.newest > t.plus(self.skew).plus(window) {", "self.newest > t.plus(self.skew).plus(window).plus(window) {"),
    mutant("sliding: as new a period later", "algorithms/sliding.rs",
        "Some(last) => state.until(self.leaves(last), t),", "Some(last) => state.until(self.leaves(last), t).plus(self.period),"),
    mutant("combine: told from before the charge", "algorithms/mod.rs",
        "        look = rule.look(state, log, t);\n", ""),
    mutant("combine: maximum instead of fixpoint", "combine.rs",
        "if limits.iter().any(|limit| limit.rule().loses_room()) {", "if limits.is_empty() {"),
    mutant("combine: only the first limit is charged", "combine.rs",
        "let settled = limit.settle(cell, t, charge, ask.needs);", "let settled = limit.settle(cell, t, if index == 0 { charge } else { 0 }, ask.needs);"),
    mutant("combine: a partial grant looks at the last limit only", "combine.rs",
        "room = if ask.mode == Mode::Nary { room.min(limit.room(cell, t)) } else { 0 };", "room = if ask.mode == Mode::Nary { ask.cost.min(limit.room(cell, t)) } else { 0 };"),
    mutant("combine: a partial grant of one limit alone grants all", "algorithms/mod.rs",
        "Mode::Nary => rule.room(state, &look).max(0).cast_unsigned(),", "Mode::Nary => rule.room(state, &look).max(0).cast_unsigned() + 1,"),
    mutant("combine: a partial grant ignores the spacing", "limit.rs",
        "if self.ready(cell, t) { self.rule.room(&cell.memory, t).max(0).cast_unsigned() } else { 0 }", "self.rule.room(&cell.memory, t).max(0).cast_unsigned()"),
    mutant("combine: the last refusing limit is named", "combine.rs",
        "limited_by = limited_by.or(Some(index));", "limited_by = Some(index).or(limited_by);"),
    mutant("combine: the greatest remaining is told", "combine.rs",
        "remaining = remaining.min(left);", "remaining = if index == 0 { left } else { remaining.max(left) };"),
    mutant("spacing: one too short", "spacing.rs",
        "last.plus(spacing).since(t)", "last.plus(spacing).since(t.plus(Micros::new(1)))"),
    mutant("spacing: clock back locks for the jump", "spacing.rs",
        "last.is_some_and(|last| last > t.plus(spacing))", "last.is_some_and(|last| last < t)"),
    mutant("limit: the algorithm is not asked again after the spacing", "algorithms/mod.rs",
        "let then = t.plus(ready);", "let then = t;"),
    mutant("state: a changed policy forgets", "limit.rs",
        "held.id() == self.id() && self.rule.owns(&cell.memory)", "held.id() == self.id() && held.count() == self.count() && self.rule.owns(&cell.memory)"),
    mutant("state: an added limit moves the others' state", "limit.rs",
        "held.id() == self.id() && self.rule.owns(&cell.memory)", "self.rule.owns(&cell.memory)"),
    mutant("state: a limit that comes back starts anew", "state.rs",
        "        for (limit, cell) in old {\n", "        for (limit, cell) in old.into_iter().take(0) {\n"),
    mutant("state: a limit of the same name by another algorithm clears one", "state.rs",
        "let mut old = self.take();", "let mut old = self.take();\n        old.retain(|(limit, cell)| policy.limits().iter().all(|own| own.id() != limit.id() || own.finds(limit, cell)));"),
    mutant("state: other limits push one out", "state.rs",
        "let mut old = self.take();", "let mut old = self.take();\n        old.sort_by_key(|(limit, cell)| std::cmp::Reverse(limit.reset_after(cell, t)));\n        old.truncate(2 * MAX_LIMITS);"),
    mutant("state: a look makes a cell live as its limit says", "state.rs",
        "if held != *limit {", "if held != *limit && place > 99 {"),
    mutant("windows: a call with shorter windows forgets for the others", "windows.rs",
        "&& held.period() > own.period()", "&& held.period() < own.period()"),
    mutant("windows: an empty log keeps its longest window", "windows.rs",
        " && held.remembers(cell, t)", ""),
    mutant("windows: only the first window refuses", "windows.rs",
        "fits.iter().position(|fits| !fits)", "fits.iter().take(1).position(|fits| !fits)"),
    mutant("windows: the wait is that of the last window", "windows.rs",
        "wait = wait.max(settled.wait);", "wait = settled.wait;"),
    mutant("ring: a growing ring loses its order", "ring.rs",
        "block[index % BLOCK] = *entry;", "block[(index + 1) % BLOCK] = *entry;"),
];

/// Of the mutants, those that the test command runs: all of them take six minutes.
const EVERY: usize = 3;

/// Runs those with `word` in their description.
pub(crate) fn mutants(word: &str) -> Result<(), Failure> {
    run_those(MUTANTS.iter().filter(|mutant| mutant.what.contains(word)).collect())
}

/// Runs a part of them, and sees that all still find what they change.
pub(crate) fn in_short() -> Result<(), Failure> {
    for mutant in MUTANTS {
        let text = fs::read_to_string(root().join("lib/kernel/src").join(mutant.file))?;
        if text.matches(mutant.find).count() != 1 {
            return Err(Failure(format!("{}: its text is not once in {}", mutant.what, mutant.file)));
        }
    }
    run_those(MUTANTS.iter().step_by(EVERY).collect())
}

/// Runs mutants, two at a time.
fn run_those(chosen: Vec<&Mutant>) -> Result<(), Failure> {
    let started = Instant::now();
    // The laws draw their cases by it; it is the same for every mutant.
    let target = root().join("target/mutants");
    fs::create_dir_all(&target)?;
    let random = target.join("libtollgate_random.rlib");
    rustc(&root().join("tests/random/src/lib.rs"), &["--crate-type=rlib", "--crate-name=tollgate_random"], &random)
        .map_err(Failure)?;
    let next = Mutex::new(chosen.iter().enumerate());
    let survived = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((number, mutant)) = take(&next) {
                    let outcome = caught(number, mutant, &random);
                    if let (Err(reason), Ok(mut survived)) = (outcome, survived.lock()) {
                        eprintln!("not caught: {}: {reason}", mutant.what);
                        survived.push(mutant.what);
                    }
                }
            });
        }
    });
    let survived = survived.into_inner().unwrap_or_default().len();
    println!("mutants: {} of {} caught in {:.0?}", chosen.len() - survived, chosen.len(), started.elapsed());
    if survived == 0 { Ok(()) } else { Err(Failure(format!("{survived} mutants survived"))) }
}

fn take<T>(from: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    from.lock().ok()?.next()
}

/// Builds the laws over a mutant, and runs them; `random` is their generator of numbers.
fn caught(number: usize, mutant: &Mutant, random: &Path) -> Result<(), String> {
    let dir = root().join("target/mutants").join(number.to_string());
    let source = dir.join("src");
    let said = |error: std::io::Error| error.to_string();
    copy(&root().join("lib/kernel/src"), &source).map_err(said)?;
    let file = source.join(mutant.file);
    let text = fs::read_to_string(&file).map_err(said)?;
    if text.matches(mutant.find).count() != 1 {
        return Err(format!("its text is not once in {}", mutant.file));
    }
    fs::write(&file, text.replace(mutant.find, mutant.replace)).map_err(said)?;
    let kernel = dir.join("libtollgate_core.rlib");
    let laws = dir.join("laws");
    rustc(&source.join("lib.rs"), &["--crate-type=rlib", "--crate-name=tollgate_kernel"], &kernel)?;
    let kernel = format!("--extern=tollgate_kernel={}", kernel.display());
    let random = format!("--extern=tollgate_random={}", random.display());
    rustc(&root().join("tests/laws/src/main.rs"), &["--crate-type=bin", &kernel, &random], &laws)?;
    let mut child = Command::new(&laws)
        .args(["--cases", CASES])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(said)?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(said)? {
            break Some(status);
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let _ = fs::remove_dir_all(&dir);
    match status {
        Some(status) if status.success() => Err("every law held".to_owned()),
        _ => Ok(()),
    }
}

fn rustc(source: &Path, flags: &[&str], out: &Path) -> Result<(), String> {
    let output = Command::new("rustc")
        .args(["--edition=2024", "-Copt-level=1", "-Coverflow-checks=on", "-Ccodegen-units=4", "--cap-lints=allow"])
        .args(flags)
        .arg("-o")
        .arg(out)
        .arg(source)
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("it does not compile: {}", String::from_utf8_lossy(&output.stderr)))
}

fn copy(from: &Path, to: &PathBuf) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
