//! What a restart finds: time spent down, clocks set back, policies that changed; modes, caps, locks, repair.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate_daemon::{Fsync, PersistMode, PersistSettings, Server, ServerSettings, StartError};
use tollgate_kernel::{Clock, Micros, Policy, Timestamp};
use tollgate_memory::MIN_CAP;
use tollgate_redis::Redis;

use crate::data::support::{DataTestServer, T, clock, copied, place, seconds, settings, until};

/// One of each algorithm.
const ALGORITHMS: &[&str] = &[
    "10/min~gcra",
    "10/min~fixed",
    "10/min~fixed~align=clock",
    "10/min~sliding",
    "10/min~slots~resolution=1s",
    "10/min~estimate",
    "10/min~bucket~burst=10",
    "10/min~decay~factor=2",
];

fn why(started: Result<Server, StartError>) -> String {
    match started {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn time_spent_down_counts_as_refill() {
    let (dir, clock) = (place("down"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    let mut forever = DataTestServer::start(settings(None), &clock);
    for policy in ALGORITHMS {
        let spend = format!("TG.CHECK k {policy} COST 10");
        assert_eq!(running.ask(&spend), forever.ask(&spend));
    }
    for down in [1, 7, 29, 40] {
        running.server.stop();
        seconds(&clock, down);
        running = DataTestServer::on(&dir, &clock);
        for policy in ALGORITHMS {
            let look = format!("TG.PEEK k {policy} FULL");
            assert_eq!(running.ask(&look), forever.ask(&look), "{policy} after {down} s");
        }
        let refill = running.remaining("TG.PEEK k 10/min~gcra");
        assert!(refill > 0 || down == 1, "{refill} after {down} s");
    }
}

#[test]
fn a_clock_set_back_while_down_gives_nothing_and_takes_no_longer_than_a_refill() {
    let (dir, clock) = (place("set-back"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    let mut forever = DataTestServer::start(settings(None), &clock);
    for policy in ALGORITHMS {
        let spend = format!("TG.CHECK k {policy} COST 10");
        assert_eq!((running.remaining(&spend), forever.remaining(&spend)), (0, 0), "{policy}");
    }
    assert!(running.ask("FCALL fixed_window 1 f 1 60").starts_with("*"));
    running.server.stop();
    clock.set(Timestamp::saturating(T - 3_600_000_000));
    running = DataTestServer::on(&dir, &clock);
    for policy in ALGORITHMS {
        let again = format!("TG.CHECK k {policy}");
        let refused = running.ask(&again);
        assert!(refused.starts_with("*6 :0"), "{policy}");
        assert_eq!(refused, forever.ask(&again), "{policy}");
    }
    // What was corrected is kept too: an hour later by the old clock would be an hour of refusals.
    running.server.stop();
    seconds(&clock, 181);
    running = DataTestServer::on(&dir, &clock);
    for policy in ALGORITHMS {
        let again = format!("TG.CHECK k {policy}");
        let (mortal, forever) = (running.ask(&again), forever.ask(&again));
        assert_eq!(mortal, forever, "{policy}");
        assert!(mortal.starts_with("*6 :1"), "{policy}");
    }
}

#[test]
fn a_policy_that_changed_while_the_server_was_down_keeps_what_was_consumed() {
    let (dir, clock) = (place("policy"), clock());
    let named = |text: &str| {
        let policy: Policy = text.replace('~', " ").parse().unwrap();
        vec![policy.with_name("login").unwrap()]
    };
    for (old, new) in
        [("100/min~fixed", "200/min~fixed"), ("100/min~gcra", "30/min~gcra"), ("9/min", "20/min,~5/s~gcra")]
    {
        let start = |text: &str| ServerSettings { policies: named(text), ..settings(Some(PersistSettings::new(&dir))) };
        let mut running = DataTestServer::start(start(old), &clock);
        let mut forever = DataTestServer::start(settings(None), &clock);
        assert_eq!(running.ask("TG.CHECK k login COST 7"), forever.ask(&format!("TG.CHECK k {old} COST 7 NAME login")));
        running.server.stop();
        running = DataTestServer::start(start(new), &clock);
        for _ in 0..3 {
            let other = format!("TG.CHECK k {new} NAME login FULL");
            assert_eq!(running.ask("TG.CHECK k login FULL"), forever.ask(&other), "{old} to {new}");
        }
        // And back again, and one that is gone does no harm.
        running.server.stop();
        running = DataTestServer::start(start(old), &clock);
        assert_eq!(running.ask("TG.CHECK k login"), forever.ask(&format!("TG.CHECK k {old} NAME login")));
        running.server.stop();
        running = DataTestServer::on(&dir, &clock);
        assert_eq!(running.ask("TG.RESET k 1/s NAME login"), ":1");
        running.server.stop();
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn with_snapshots_alone_a_kill_forgets_what_came_since_and_a_clean_end_nothing() {
    let (dir, clock) = (place("snapshots"), clock());
    let keeping = |dir: &Path| PersistSettings { persist: PersistMode::Snapshot, ..PersistSettings::new(dir) };
    let mut running = DataTestServer::start(settings(Some(keeping(&dir))), &clock);
    assert_eq!(running.remaining("TG.CHECK k 10/d"), 9);
    assert_eq!(running.ask("INCR n"), ":1");
    running.server.snapshot().unwrap().recv().unwrap().unwrap();
    assert_eq!(running.remaining("TG.CHECK k 10/d"), 8);
    assert_eq!(running.ask("INCR n"), ":2");
    let killed = copied(&dir, "snapshots-killed");
    let mut other = DataTestServer::start(settings(Some(keeping(&killed))), &clock);
    assert_eq!(other.remaining("TG.PEEK k 10/d"), 9);
    assert_eq!(other.ask("GET n"), "$1 1");
    running.server.stop();
    running = DataTestServer::start(settings(Some(keeping(&dir))), &clock);
    assert_eq!(running.remaining("TG.PEEK k 10/d"), 8);
    assert_eq!(running.ask("GET n"), "$1 2");
}

#[test]
fn snapshots_are_written_by_themselves_as_often_as_was_said() {
    let (dir, clock) = (place("every"), clock());
    let every = Some(Duration::from_millis(250));
    let keeping =
        PersistSettings { persist: PersistMode::Snapshot, snapshot_every: every, ..PersistSettings::new(&dir) };
    let mut running = DataTestServer::start(settings(Some(keeping.clone())), &clock);
    assert_eq!(running.remaining("TG.CHECK k 10/d"), 9);
    let first = names(&dir);
    // It is a matter of time alone, and of the machine how much.
    until(|| names(&dir) != first && names(&dir).iter().any(|name| name.starts_with("snapshot-")));
    running.server.stop();
    assert_eq!(DataTestServer::start(settings(Some(keeping)), &clock).remaining("TG.PEEK k 10/d"), 9);
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_one_servers() {
    let (dir, clock) = (place("two"), clock());
    let running = DataTestServer::on(&dir, &clock);
    let second = why(Server::start_with_clock(settings(Some(PersistSettings::new(&dir))), &clock));
    assert!(second.contains("in use") && second.contains(&dir.display().to_string()), "{second}");
    running.server.stop();
    DataTestServer::on(&dir, &clock).server.stop();
}

#[test]
fn what_is_decided_elsewhere_is_not_kept_here() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let store = Redis::builder("redis://127.0.0.1:1").lazy().unwrap();
    let settings = ServerSettings { store: Some(store), ..settings(Some(PersistSettings::new(place("store")))) };
    let why = why(Server::start(settings));
    assert!(why.contains("kept there") && why.contains("leave --data out"), "{why}");
}

#[test]
fn keys_that_do_not_fit_say_how_much_they_need() {
    let (dir, clock) = (place("cap"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    for batch in 0..300 {
        for key in 0..1_000 {
            running.client.send(&["TG.CHECK", &format!("{batch}:{key}"), "9/d fixed, 10/d sliding"]);
        }
        (0..1_000).for_each(|_| drop(running.client.reply().unwrap()));
    }
    running.server.stop();
    let small = ServerSettings { memory: MIN_CAP, ..settings(Some(PersistSettings::new(&dir))) };
    let why = why(Server::start_with_clock(small, &clock));
    let (_, needed) = why.split_once("start with --memory ").unwrap();
    assert!(why.contains("fit into 4 MiB"), "{why}");
    let needed: usize = needed.trim_end_matches('M').parse().unwrap();
    let enough = ServerSettings { memory: needed << 20, ..settings(Some(PersistSettings::new(&dir))) };
    Server::start_with_clock(enough, &clock).unwrap().stop();
    assert_eq!(DataTestServer::on(&dir, &clock).remaining("TG.PEEK 7:7 9/d~fixed,~10/d~sliding"), 8);
}

#[test]
fn damage_is_refused_and_repaired_with_a_report() {
    let (dir, clock) = (place("damage"), clock());
    let always =
        |dir: &Path| PersistSettings { persist: PersistMode::Journal(Fsync::Always), ..PersistSettings::new(dir) };
    let mut running = DataTestServer::start(settings(Some(always(&dir))), &clock);
    for key in 0..300 {
        running.remaining(&format!("TG.CHECK k:{key} 10/d"));
    }
    running.server.snapshot().unwrap().recv().unwrap().unwrap();
    for key in 0..300 {
        running.remaining(&format!("TG.CHECK k:{key} 10/d"));
    }
    let again = copied(&dir, "damage-killed");
    let journal = names(&again).into_iter().rfind(|name| name.starts_with("journal-")).unwrap();
    let path = again.join(&journal);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&path, bytes).unwrap();
    let before = names(&again);
    let refused = Server::start_with_clock(settings(Some(always(&again))), &clock);
    let why = why(refused);
    assert!(why.contains("--repair") && why.contains(&journal), "{why}");
    assert_eq!(names(&again), before);
    let keeping = PersistSettings { repair: true, ..always(&again) };
    let mut running = DataTestServer::start(settings(Some(keeping)), &clock);
    let found = running.server.recovery_report().join("\n");
    assert!(found.contains(&journal), "{found}");
    // Every key is as it was at some time: once charged, or twice.
    let mut sum = 0;
    for key in 0..300 {
        let left = running.remaining(&format!("TG.PEEK k:{key} 10/d"));
        assert!(left == 9 || left == 8, "{key}: {left}");
        sum += 10 - left;
    }
    assert!((301..600).contains(&sum), "{sum}");
}

#[test]
fn states_longer_than_a_frame_are_kept_in_pieces() {
    const EVENTS: u64 = 70_000;
    let (dir, clock) = (place("long"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    for batch in 0..EVENTS / 64 {
        // Each at a time of its own, so that none is one with another.
        for _ in 0..64 {
            clock.advance(Micros::new(1));
            running.client.send(&["TG.CHECK", "k", "1000000/d sliding"]);
            assert!(running.client.reply().unwrap().starts_with("*6 :1"), "{batch}");
        }
    }
    // A charge by a clock that was set back tells all that the key remembers.
    let at = clock.now();
    clock.set(Timestamp::saturating(T - 10_000_000));
    assert!(running.remaining("TG.CHECK k 1000000/d~sliding") > 0);
    clock.set(at);
    assert!(running.remaining("TG.CHECK k 1000000/d~sliding") > 0);
    let look = running.ask("TG.PEEK k 1000000/d~sliding FULL");
    let journal = names(&dir).into_iter().rfind(|name| name.starts_with("journal-")).unwrap();
    assert!(fs::metadata(dir.join(journal)).unwrap().len() > (1 << 20) + 30 * EVENTS);
    let mut killed = DataTestServer::on(&copied(&dir, "long-killed"), &clock);
    assert_eq!(killed.ask("TG.PEEK k 1000000/d~sliding FULL"), look);
    running.server.stop();
    assert_eq!(DataTestServer::on(&dir, &clock).ask("TG.PEEK k 1000000/d~sliding FULL"), look);
}

/// Bytes of all journals of a directory.
fn journal_bytes(dir: &Path) -> u64 {
    let journals = names(dir).into_iter().filter(|name| name.starts_with("journal-"));
    journals.map(|name| fs::metadata(dir.join(name)).unwrap().len()).sum()
}

#[test]
fn a_server_that_was_killed_knows_of_refunds_what_one_that_was_not_knows() {
    let (dir, clock) = (place("refunds"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    let mut forever = DataTestServer::start(settings(None), &clock);
    let more = ["10/min~sliding~spacing=1s", "7/s~gcra,~10/min~gcra~spacing=1s,~20/h~sliding"];
    let policies = || ALGORITHMS.iter().chain(&more);
    // Units of which time has paid back some, all that was charged, and more than is held.
    for (round, units) in [1, 2, 5, 99].into_iter().enumerate() {
        let at = clock.now().get();
        for policy in policies() {
            let charge = format!("TG.CHECK k {policy} COST 5 MODE nary");
            assert_eq!(running.ask(&charge), forever.ask(&charge), "{policy}");
        }
        clock.advance(Micros::new(700_000));
        for policy in policies() {
            let refund = format!("TG.REFUND k {policy} {units} {at}");
            assert_eq!(running.ask(&refund), forever.ask(&refund), "{policy}");
        }
        let mut killed = DataTestServer::on(&copied(&dir, &format!("refunds-{round}")), &clock);
        for policy in policies() {
            let look = format!("TG.PEEK k {policy} FULL");
            assert_eq!(killed.ask(&look), forever.ask(&look), "{policy} after {units} units");
        }
        seconds(&clock, 4);
    }
}

#[test]
fn a_refund_takes_as_much_of_the_journal_as_it_says_and_nothing_if_it_gives_nothing_back() {
    const EVENTS: u64 = 2_000;
    let (dir, clock) = (place("refund-bytes"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    for _ in 0..EVENTS {
        clock.advance(Micros::new(1));
        assert!(running.ask("TG.CHECK k 1000000/h~sliding").starts_with("*6 :1"));
    }
    let before = journal_bytes(&dir);
    for _ in 0..50 {
        assert_eq!(running.ask(&format!("TG.REFUND k 1000000/h~sliding 1 {}", T + 5)), ":1");
    }
    let after = journal_bytes(&dir);
    assert!((1_000..10_000).contains(&(after - before)), "{}", after - before);
    // All that is written is that the journal was synced, now and then.
    for _ in 0..50 {
        assert_eq!(running.ask(&format!("TG.REFUND k 1000000/h~sliding 1 {}", T - 3_700_000_000)), ":0");
        assert_eq!(running.ask(&format!("TG.REFUND other 1000000/h~sliding 1 {}", T + 5)), ":0");
    }
    assert!(journal_bytes(&dir) - after < 1_000, "{}", journal_bytes(&dir) - after);
}

#[test]
fn a_clock_that_was_once_ahead_has_each_key_told_whole_once() {
    const EVENTS: u64 = 2_000;
    const TWO_DAYS: u64 = 2 * 86_400_000_000;
    let (dir, clock) = (place("once-ahead"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    let mut forever = DataTestServer::start(settings(None), &clock);
    let sliding = "1000000/h~sliding";
    for _ in 0..EVENTS {
        clock.advance(Micros::new(1));
        assert!(running.ask(&format!("TG.CHECK k {sliding}")).starts_with("*6 :1"));
        forever.ask(&format!("TG.CHECK k {sliding}"));
    }
    let now = clock.now();
    clock.set(Timestamp::saturating(now.get() + TWO_DAYS));
    let charge = |running: &mut DataTestServer, forever: &mut DataTestServer, key: &str| {
        for policy in ALGORITHMS.iter().chain(&[sliding]) {
            let charge = format!("TG.CHECK {key} {policy} COST 4");
            assert_eq!(running.ask(&charge), forever.ask(&charge), "{policy}");
        }
    };
    charge(&mut running, &mut forever, "other");
    clock.set(now);
    for start in 0..3 {
        // The log is told once under each policy, then what is charged, refused and given back.
        let before = journal_bytes(&dir);
        for _ in 0..50 {
            seconds(&clock, 1);
            charge(&mut running, &mut forever, "k");
            charge(&mut running, &mut forever, "other");
            let refund = format!("TG.REFUND k {sliding} 1 {}", clock.now().get());
            assert_eq!(running.ask(&refund), forever.ask(&refund));
        }
        let grown = journal_bytes(&dir) - before;
        assert!(grown < 500_000, "{grown} after {start} starts");
        let mut killed = DataTestServer::on(&copied(&dir, &format!("once-ahead-{start}")), &clock);
        for key in ["k", "other"] {
            for policy in ALGORITHMS.iter().chain(&[sliding]) {
                let look = format!("TG.PEEK {key} {policy} FULL");
                assert_eq!(killed.ask(&look), forever.ask(&look), "{key} {policy}");
            }
        }
        running.server.stop();
        running = DataTestServer::on(&dir, &clock);
    }
}

#[test]
fn keys_that_expired_by_a_clock_that_was_set_are_as_they_were_after_a_restart() {
    let (dir, clock) = (place("wall"), clock());
    let mut running = DataTestServer::on(&dir, &clock);
    clock.set_wall(Timestamp::saturating(T - 600_000_000));
    // Text that has expired makes room for a limiter.
    assert_eq!(running.ask("SET k x PX 100"), "+OK");
    assert_eq!(running.ask("INCR c"), ":1");
    assert_eq!(running.ask("EXPIREAT c 1699999500"), ":1");
    clock.advance(Micros::new(200_000));
    let first = running.ask("FCALL fixed_window 1 k 1 60");
    let second = running.ask("FCALL fixed_window 1 k 1 60");
    assert_ne!(first, second);
    for _ in 0..2 {
        let mut killed = DataTestServer::on(&copied(&dir, "wall-killed"), &clock);
        assert_eq!(killed.ask("FCALL fixed_window 1 k 1 60"), second);
        assert_eq!(killed.ask("PTTL c"), ":59800");
        assert_eq!(killed.ask("PTTL k"), ":60000");
        running.server.stop();
        running = DataTestServer::on(&dir, &clock);
    }
}
