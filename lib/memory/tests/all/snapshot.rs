//! A store that is saved to a file and restored.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_kernel::{Cost, Micros, Mode, Policy, Request, Timestamp};
use tollgate_memory::{MIN_CAP, ManualClock, Memory, MemoryPolicy, SnapshotError};
use tollgate_random::Rng;

const START: u64 = 1_700_000_000_000_000;
const KEYS: u32 = 300;

/// A folder for one test, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-snapshot-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store.snapshot")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn policies() -> Vec<Policy> {
    let named = |(name, text): (&str, &str)| text.parse::<Policy>().unwrap().with_name(name).unwrap();
    let texts = [
        ("g", "10/min gcra burst=20"),
        ("s", "8/min"),
        ("f", "7/min fixed"),
        ("b", "15/60s bucket burst=3"),
        ("o", "6/min slots resolution=10s"),
        ("e", "9/min estimate"),
        ("d", "5/10s decay factor=2"),
        ("m", "3/s, 20/min gcra name=steady, 100/h fixed align=clock"),
        ("p", "10/min spacing=1s"),
        ("u", "4/min"),
        ("g", "12/min fixed"),
        ("g", "10/min gcra burst=5, 30/h"),
    ];
    let mut policies: Vec<Policy> = texts.map(named).into();
    policies[9] = policies[9].clone().with_mode(Mode::Uniform);
    policies
}

fn store(clock: &ManualClock) -> (Memory, Vec<MemoryPolicy>) {
    let memory = Memory::with_clock(8 << 20, Box::new(clock.clone()));
    let prepared = policies().iter().map(|policy| memory.prepare(policy).unwrap()).collect();
    (memory, prepared)
}

fn restored(path: &Path, clock: &ManualClock, cap: usize) -> Result<Memory, SnapshotError> {
    Memory::restore(path, cap, Some(Box::new(clock.clone())), &policies())
}

/// The same traffic every time.
fn charge(memory: &Memory, prepared: &[MemoryPolicy], clock: &ManualClock) {
    for step in 0..4 * KEYS {
        let key = (step.wrapping_mul(2_654_435_761) >> 7) % KEYS;
        for policy in prepared {
            let cost = Cost::new(u64::from(1 + step % 3)).unwrap();
            let _ = memory.check(policy, &key.to_le_bytes(), &Request::cost(cost)).unwrap();
        }
        clock.advance(Micros::new(10_000));
    }
}

fn assert_alike(one: (&Memory, &[MemoryPolicy]), other: (&Memory, &[MemoryPolicy])) {
    let mut used = 0;
    for (a, b) in one.1.iter().zip(other.1) {
        for key in 0..KEYS + 10 {
            let request = Request::cost(Cost::new(u64::from(key % 2)).unwrap());
            let (a, b) = (
                one.0.check_full(a, &key.to_le_bytes(), &request),
                other.0.check_full(b, &key.to_le_bytes(), &request),
            );
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(a, b, "key {key}");
            used += u32::from(a.0.reset_after > Micros::ZERO);
        }
    }
    assert!(used > KEYS, "there was state to lose");
}

#[test]
fn a_killed_process_goes_on_where_its_snapshot_was() {
    let folder = Folder::new("kill");
    // The child process runs this test again; an environment variable makes it charge, save and wait.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "snapshot::charges_saves_and_waits_to_be_killed", "--nocapture", "--ignored"])
        .env("TOLLGATE_SNAPSHOT", folder.file())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("saved")), "the child saved");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());

    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let (twin, prepared) = store(&clock);
    charge(&twin, &prepared, &clock);
    let memory = restored(&folder.file(), &clock, 8 << 20).unwrap();
    let again: Vec<MemoryPolicy> = policies().iter().map(|policy| memory.prepare(policy).unwrap()).collect();
    assert_alike((&twin, &prepared), (&memory, &again));
    clock.advance(Micros::from_secs(3));
    charge(&twin, &prepared, &clock);
    clock.set(Timestamp::new(START + 3_000_000 + 4 * u64::from(KEYS) * 10_000).unwrap());
    charge(&memory, &again, &clock);
    clock.advance(Micros::from_secs(1));
    assert_alike((&twin, &prepared), (&memory, &again));
}

#[test]
#[ignore = "the other half of the test above, which runs it"]
fn charges_saves_and_waits_to_be_killed() {
    let Some(path) = std::env::var_os("TOLLGATE_SNAPSHOT") else { return };
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let (memory, prepared) = store(&clock);
    charge(&memory, &prepared, &clock);
    memory.save(path).unwrap();
    println!("saved");
    // Until the parent kills it, or has ended.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_snapshot_is_its_owners_alone_and_leaves_nothing_beside_it() {
    let folder = Folder::new("mode");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let (memory, prepared) = store(&clock);
    charge(&memory, &prepared, &clock);
    for _ in 0..2 {
        let keys = memory.save(folder.file()).unwrap();
        assert!(keys > 1_000 && keys <= memory.stats().keys, "{keys}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A folder that does not exist: an error, and the old file stays.
    assert!(matches!(memory.save(folder.0.join("no/such")), Err(SnapshotError::Io(_))));
}

#[test]
fn a_policy_that_changed_keeps_what_was_consumed() {
    let folder = Folder::new("changed");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let memory = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
    let of = |text: &str| text.parse::<Policy>().unwrap().with_name("p").unwrap();
    let before = memory.prepare(&of("10/min")).unwrap();
    (0..6).for_each(|_| assert!(memory.check(&before, b"k", &Request::ONE).unwrap().allowed));
    memory.save(folder.file()).unwrap();
    let memory =
        Memory::restore(folder.file(), MIN_CAP, Some(Box::new(clock.clone())), &[of("8/min, 100/h gcra")]).unwrap();
    let after = memory.prepare(&of("8/min, 100/h gcra")).unwrap();
    assert_eq!(memory.check(&after, b"k", &Request::ONE).unwrap().remaining, 1);
    // The same from a store whose keys have changed their policies.
    memory.save(folder.file()).unwrap();
    let memory = Memory::restore(folder.file(), MIN_CAP, Some(Box::new(clock)), &[of("9/min")]).unwrap();
    let last = memory.prepare(&of("9/min")).unwrap();
    assert_eq!(memory.check(&last, b"k", &Request::ONE).unwrap().remaining, 1);
}

#[test]
fn a_store_too_small_for_the_snapshot_says_so() {
    let folder = Folder::new("small");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let memory = Memory::with_clock(32 << 20, Box::new(clock.clone()));
    let policy = memory.prepare(&policies()[1]).unwrap();
    for key in 0..50_000u32 {
        let _ = memory.check(&policy, &key.to_le_bytes(), &Request::ONE).unwrap();
    }
    memory.save(folder.file()).unwrap();
    let error = restored(&folder.file(), &clock, MIN_CAP).unwrap_err();
    let SnapshotError::Cap(MIN_CAP, needed) = error else { panic!("{error}") };
    assert!(error.to_string().contains(&format!("found one that needs about {needed}")), "{error}");
    assert!(restored(&folder.file(), &clock, needed).is_ok(), "{needed} bytes are enough");
}

/// Ways to damage a file.
fn mutate(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match rng.below(6) {
        0 => bytes.truncate(rng.index(bytes.len())),
        1 => {
            let place = rng.index(bytes.len());
            bytes[place] ^= 1 << rng.below(8);
        }
        2 => {
            let (from, to) = (rng.index(bytes.len() / 8) * 8, rng.index(bytes.len() / 8) * 8);
            let word: [u8; 8] = bytes[from..from + 8].try_into().unwrap();
            bytes[to..to + 8].copy_from_slice(&word);
        }
        3 => {
            let from = rng.index(bytes.len());
            let len = rng.index((bytes.len() - from).min(4_096)) + 1;
            let end = (from + len).min(bytes.len());
            bytes[from..end].fill(0);
        }
        4 => {
            let place = rng.index(bytes.len() / 8) * 8;
            bytes.splice(place..place, [0xff; 8]);
        }
        _ => {
            let place = rng.index(bytes.len() / 8) * 8;
            let word = rng.pick(&[0_u64, 1, u64::MAX, 1 << 53, 1 << 63, 12]);
            bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// Corrects the checksum, so that the checks after it are tested.
fn with_right_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 8 {
        let end = bytes.len() - 8;
        let sum = u64::from(crc32c::crc32c(&bytes[..end]));
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

#[test]
fn a_damaged_snapshot_is_refused_and_never_half_loaded() {
    let folder = Folder::new("damaged");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let (memory, prepared) = store(&clock);
    for step in 0..60u32 {
        for policy in &prepared {
            let _ = memory.check(policy, &(step % 20).to_le_bytes(), &Request::ONE).unwrap();
        }
    }
    let whole = folder.file();
    memory.save(&whole).unwrap();
    let bytes = fs::read(&whole).unwrap();
    let mut rng = Rng::new(42);
    let file = folder.0.join("damaged");
    let (mut refused, mut loaded) = (0, 0);
    for round in 0..10_000 {
        let damaged = mutate(&bytes, &mut rng);
        if damaged == bytes {
            continue;
        }
        // Every second time the checksum is corrected after the damage.
        let damaged = if round % 2 == 0 { damaged } else { with_right_sum(damaged) };
        fs::write(&file, &damaged).unwrap();
        match restored(&file, &clock, 8 << 20) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(memory) => {
                assert!(round % 2 == 1, "round {round}: a damaged file was believed");
                // The contents differ from what was saved, but are valid.
                for policy in policies() {
                    let policy = memory.prepare(&policy).unwrap();
                    for key in 0..20u32 {
                        let _ = memory
                            .check_full(&policy, &key.to_le_bytes(), &Request::cost(Cost::new(3).unwrap()))
                            .unwrap();
                        memory.refund(&policy, &key.to_le_bytes(), Cost::ONE, Timestamp::new(START).unwrap()).unwrap();
                    }
                }
                loaded += 1;
            }
        }
    }
    assert!(refused > 6_000 && loaded > 100, "{refused} refused, {loaded} loaded");
    assert!(restored(&whole, &clock, 8 << 20).is_ok());
}

#[test]
fn other_files_are_distinguished_from_snapshots() {
    let folder = Folder::new("other");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    for (bytes, says) in [
        (&b""[..], "expected a snapshot of a Tollgate store, found another file"),
        (
            b"this is a text that is rather longer than a head",
            "expected a snapshot of a Tollgate store, found another file",
        ),
    ] {
        fs::write(folder.file(), bytes).unwrap();
        assert_eq!(restored(&folder.file(), &clock, MIN_CAP).unwrap_err().to_string(), says);
    }
    let (memory, _) = store(&clock);
    memory.save(folder.file()).unwrap();
    let mut bytes = fs::read(folder.file()).unwrap();
    bytes[16] = 9;
    fs::write(folder.file(), with_right_sum(bytes)).unwrap();
    let error = restored(&folder.file(), &clock, MIN_CAP).unwrap_err();
    assert_eq!(error.to_string(), "expected a snapshot of version 1 to 4, found version 9; it is of another Tollgate");
    assert!(matches!(restored(&folder.0.join("none"), &clock, MIN_CAP), Err(SnapshotError::Io(_))));
}

#[test]
fn a_store_at_its_cap_comes_back_under_the_same_cap() {
    let folder = Folder::new("full");
    for text in ["1/h gcra", "5/h", "2/h, 5/d"] {
        let clock = ManualClock::at(Timestamp::new(START).unwrap());
        let memory = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
        let policy: Policy = text.parse().unwrap();
        let prepared = memory.prepare(&policy).unwrap();
        for key in 0..300_000u32 {
            let _ = memory.check(&prepared, &key.to_le_bytes(), &Request::ONE).unwrap();
        }
        assert!(memory.stats().overflow_decisions > 0);
        let saved = memory.save(folder.file()).unwrap();
        let again = Memory::restore(folder.file(), MIN_CAP, Some(Box::new(clock)), &[policy]).unwrap();
        let stats = again.stats();
        assert_eq!(stats.keys + stats.overflow_buckets, saved, "{text}");
        assert!(stats.bytes <= MIN_CAP + MIN_CAP / 2, "{text}: {stats:?}");
    }
}

#[test]
fn saves_at_the_same_time_do_not_harm_each_other() {
    let folder = Folder::new("twice");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let (memory, prepared) = store(&clock);
    charge(&memory, &prepared, &clock);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..10).for_each(|_| assert!(memory.save(folder.file()).is_ok())));
        }
        // Policies that are added meanwhile.
        scope.spawn(|| {
            for number in 0..200 {
                let policy = "5/h".parse::<Policy>().unwrap().with_name(&format!("late-{number}")).unwrap();
                let late = memory.prepare(&policy).unwrap();
                assert!(memory.check(&late, b"k", &Request::ONE).unwrap().allowed);
            }
        });
        for _ in 0..20 {
            match restored(&folder.file(), &clock, 8 << 20) {
                Ok(_) => {}
                Err(SnapshotError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_key_used_under_another_policy_of_its_name_stays_used() {
    let folder = Folder::new("other-policy");
    let clock = ManualClock::at(Timestamp::new(START).unwrap());
    let memory = Memory::with_clock(MIN_CAP, Box::new(clock.clone()));
    let (own, other): (Policy, Policy) = ("5/h".parse().unwrap(), "1/min".parse().unwrap());
    memory.prepare(&own).unwrap();
    let asked = memory.prepare(&other).unwrap();
    assert!(memory.check(&asked, b"k", &Request::ONE).unwrap().allowed);
    memory.save(folder.file()).unwrap();
    let memory = Memory::restore(folder.file(), MIN_CAP, Some(Box::new(clock)), &[own]).unwrap();
    let asked = memory.prepare(&other).unwrap();
    assert!(!memory.check(&asked, b"k", &Request::ONE).unwrap().allowed);
}
