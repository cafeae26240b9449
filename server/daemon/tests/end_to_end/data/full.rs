//! A server whose memory is full starts again as it was: with what its keys remember in their own places and in the
//! buckets they share, whichever policy came when, and what was reset.

use std::path::Path;

use tollgate_daemon::{MIN_MEMORY, PersistSettings};
use tollgate_memory::ManualClock;

use crate::data::support::{DataTestServer, clock, copied, place, seconds, settings};

/// More keys than the least memory has places for.
const CROWD: usize = 200_000;
/// Commands sent before their replies are read.
const PIPELINE: usize = 500;
/// Keys that are looked at before and after.
const KEYS: usize = 60;
/// More texts of one limit than a name packs, and the keys of each.
const TEXTS: usize = 80;
const KEYS_A_TEXT: usize = 100;

fn start(dir: &Path, clock: &ManualClock) -> DataTestServer {
    let mut settings = settings(Some(PersistSettings::new(dir)));
    settings.memory = MIN_MEMORY;
    DataTestServer::start(settings, clock)
}

/// Sends commands whose arguments have no spaces, a space being written `~`; returns how many were allowed.
fn send(running: &mut DataTestServer, commands: &[String]) -> usize {
    let mut allowed = 0;
    for some in commands.chunks(PIPELINE) {
        for command in some {
            let args: Vec<String> = command.split(' ').map(|arg| arg.replace('~', " ")).collect();
            running.client.send(&args);
        }
        for _ in some {
            allowed += usize::from(running.client.reply().unwrap().starts_with("*6 :1"));
        }
    }
    allowed
}

/// Checks every key that is looked at.
fn check(running: &mut DataTestServer, who: &str, text: &str) -> usize {
    let commands: Vec<String> = (0..KEYS).map(|key| format!("TG.CHECK {who}:{key} {text}")).collect();
    send(running, &commands)
}

/// Brings keys until some share buckets: then one of them is refused.
fn fill(running: &mut DataTestServer) {
    let crowd: Vec<String> = (0..CROWD).map(|key| format!("TG.CHECK crowd:{key} 1/w~gcra")).collect();
    assert!(crowd.chunks(PIPELINE).any(|some| send(running, some) < some.len()), "all {CROWD} keys had room");
}

/// What every key has left under every text it was used under. Those that have nothing may have found no room: they are
/// as new when there is some.
fn left(running: &mut DataTestServer) -> Vec<(String, i64)> {
    let used = ["early 9/d~gcra", "early 8/h~fixed", "early 7/w", "late 9/d~gcra", "late 7/w"];
    let asked =
        (0..KEYS).flat_map(|key| used.map(|used| format!("TG.PEEK {}", used.replace(' ', &format!(":{key} ")))));
    let asked = asked.chain((0..TEXTS).map(|text| format!("TG.PEEK text:{text}:0 {}/d~gcra", 100 + text)));
    asked.map(|command| (command.clone(), running.remaining(&command))).filter(|(_, left)| *left > 0).collect()
}

/// The keys that have more left than before.
fn forgotten(before: &[(String, i64)], running: &mut DataTestServer) -> Vec<(String, i64, i64)> {
    let each = before.iter().map(|(command, left)| (command.clone(), *left, running.remaining(command)));
    each.filter(|(_, before, after)| after > before).collect()
}

/// Bytes taken by what is remembered.
fn bytes(running: &mut DataTestServer) -> usize {
    let info = running.ask("INFO memory");
    let used = info.split_whitespace().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap_or_else(|| panic!("{info}")).parse().unwrap()
}

#[test]
fn a_full_server_that_was_killed_knows_what_it_knew() {
    let (dir, clock) = (place("full"), clock());
    let mut running = start(&dir, &clock);
    // The texts that come last are not packed any more.
    let texts = (0..TEXTS * KEYS_A_TEXT).map(|key| {
        let (text, key) = (key / KEYS_A_TEXT, key % KEYS_A_TEXT);
        format!("TG.CHECK text:{text}:{key} {}/d~gcra COST 40", 100 + text)
    });
    send(&mut running, &texts.collect::<Vec<_>>());
    // These have their own places, and no room beside them when they are used under another text.
    assert_eq!(check(&mut running, "early", "9/d~gcra,~8/h~fixed"), KEYS);
    fill(&mut running);
    seconds(&clock, 1);
    for who in ["early", "late"] {
        ["9/d~gcra", "7/w", "7/w"].into_iter().for_each(|text| _ = check(&mut running, who, text));
    }
    (0..10).for_each(|key| _ = running.ask(&format!("TG.REFUND early:{key} 9/d~gcra 1")));
    // Part of what these have in their own places is forgotten, or all of it; what they share is others' too.
    (10..30).for_each(|key| _ = running.ask(&format!("TG.RESET early:{key} 8/h~fixed")));
    (20..30).for_each(|key| _ = running.ask(&format!("TG.RESET early:{key} 9/d~gcra")));
    seconds(&clock, 1);
    (25..30).for_each(|key| _ = running.ask(&format!("TG.CHECK early:{key} 9/d~gcra")));

    let (before, taken) = (left(&mut running), bytes(&mut running));
    let killed = copied(&dir, "full-killed");
    let mut again = start(&killed, &clock);
    assert_eq!(forgotten(&before, &mut again), [], "by its journal alone");
    assert!(bytes(&mut again).abs_diff(taken) < taken / 50, "{} instead of {taken} bytes", bytes(&mut again));
    running.server.stop();
    assert_eq!(forgotten(&before, &mut start(&dir, &clock)), [], "by its last snapshot");
}
