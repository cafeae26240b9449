//! A real file and real connections: a thousand reloads under load, a tenth of them wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::support::{replace, start};

const RELOADS: u64 = 1_000;
const KEYS: u64 = 4;
/// The most a key may have, whichever generation it is.
const MAX: u64 = 500;

/// Has threads stop when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn yaml(count: u64, more: &str) -> String {
    format!("policies:\n  steady: {MAX}/min\n  moving: {count}/min gcra{more}\n")
}

#[test]
fn a_thousand_reloads_of_a_file_under_load() {
    let tested = start("reloads", &yaml(MAX, ""));
    let stop = AtomicBool::new(false);
    // By a clock that stands: a key is allowed as many in all as its limit at its most, which it is in the end.
    // What was lost or refilled on the way would be more.
    let (steady, moving, right, wrong) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2u64)
            .map(|thread| {
                let (mut client, stop) = (tested.client(), &stop);
                scope.spawn(move || {
                    let mut admitted = [0; 2];
                    for number in thread.. {
                        for (place, policy) in ["steady", "moving"].into_iter().enumerate() {
                            // Each is answered by a policy: an error would have no integers.
                            let key = format!("k{}", number % KEYS);
                            let told = client.ask(&["TG.CHECK", &key, policy]);
                            assert!(told.len() == 6 && told[2] < MAX as i64, "{told:?}");
                            admitted[place] += told[0];
                        }
                        if stop.load(Ordering::Relaxed) {
                            return admitted;
                        }
                    }
                    admitted
                })
            })
            .collect();
        let stops = StopOnDrop(&stop);
        let (mut right, mut wrong) = (0, 0);
        for number in 0..RELOADS {
            let before = tested.server.generation();
            if number % 10 == 7 {
                wrong += 1;
                replace(&tested.file, &yaml(100_000, "\n  broken: 1/parsec"));
                tested.server.reload();
                assert_eq!(tested.server.generation(), before, "a wrong file changes nothing");
            } else {
                right += 1;
                let more = if number % 3 == 0 { "\n  extra: 1/s" } else { "" };
                replace(&tested.file, &yaml(MAX - 1 - right % 400, more));
                tested.server.reload();
                assert_eq!(tested.server.generation(), before + 1);
            }
        }
        replace(&tested.file, &yaml(MAX, ""));
        tested.server.reload();
        drop(stops);
        let sums = threads.into_iter().map(|thread| thread.join().unwrap());
        let mut sums = sums.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        let mut client = tested.client();
        for number in 0..MAX * KEYS {
            for (place, policy) in ["steady", "moving"].into_iter().enumerate() {
                sums[place] += client.ask(&["TG.CHECK", &format!("k{}", number % KEYS), policy])[0];
            }
        }
        (sums[0] as u64, sums[1] as u64, right + 1, wrong)
    });
    assert_eq!((steady, moving), (MAX * KEYS, MAX * KEYS));
    assert_eq!(tested.server.generation(), 1 + right);
    let count = |result: &str| tested.metric(&format!("tollgate_config_reloads_total{{result=\"{result}\"}}"));
    assert_eq!(count("ok"), right as f64);
    // The file is watched too, so that one may have been read once more.
    assert!(count("invalid") >= wrong as f64, "{}", count("invalid"));
    assert_eq!(tested.metric("tollgate_config_invalid"), 0.);
}
